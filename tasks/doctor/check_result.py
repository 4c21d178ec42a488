"""Define the result of a check, and functions that create results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tasks.core.check_ids import CheckId
from tasks.knowledge import package_managers

if TYPE_CHECKING:
    from tasks.doctor.host_facts import HostFacts
    from tasks.knowledge import Knowledge

# "ignored" is a problem listed in doctor.ignore. The report sets this level, checks never do
Level = Literal["ok", "warning", "problem", "not checked", "ignored"]
NO_PROFILE = "the profile could not be loaded"


@dataclass(frozen=True)
class CheckResult:
    """The result of a check: `seen` is the message, and `todo` the hint.

    `subject` is what was checked (default: the id). In the hint, a line that begins with two spaces
    is a command to copy. `known` is the id of the entry in config/knowledge that caused the result.
    """

    id: CheckId
    level: Level
    subject: str
    seen: str
    todo: str = ""
    known: str = ""


Results = Iterator[CheckResult]


def report_ok(check: CheckId, seen: str, subject: str = "") -> CheckResult:
    """Return the result of a check that found no problem."""
    return CheckResult(check, "ok", subject or check, seen)


def report_warning(check: CheckId, seen: str, todo: str, subject: str = "") -> CheckResult:
    """Return a warning: the build works, but may not do what the user expects."""
    return CheckResult(check, "warning", subject or check, seen, todo)


def report_problem(check: CheckId, seen: str, todo: str, subject: str = "") -> CheckResult:
    """Return a problem: the build fails, or its outputs do not work."""
    return CheckResult(check, "problem", subject or check, seen, todo)


def report_unchecked(check: CheckId, why: str = "not inspected on this host") -> CheckResult:
    """Return the result of a check that could not run."""
    return CheckResult(check, "not checked", check, why)


def format_install_hint(knowledge: Knowledge, s: HostFacts, package: str) -> str:
    """Return a hint to install a package on this host: a command to copy if one is known."""
    if command := package_managers.find_install_command(knowledge, s.systems, package):
        return format_command(command)
    return package_managers.format_install_hint(knowledge, s.systems, package)


def format_command(text: str, before: str = "") -> str:
    """Return a hint: the line `before`, if any, and the command `text` on its own line."""
    return f"{before}\n  {text}" if before else f"  {text}"
