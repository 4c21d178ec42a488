"""Define the result of a check, and how results are created."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tasks.core.check_ids import CheckId
from tasks.knowledge import package_managers

if TYPE_CHECKING:
    from tasks.doctor.host_facts import HostFacts
    from tasks.knowledge import Knowledge

# "ignored" is a problem that doctor.ignore names: set by the report, never by a check
Level = Literal["ok", "warning", "problem", "not checked", "ignored"]
NO_PROFILE = "the profile does not open"


@dataclass(frozen=True)
class CheckResult:
    """The result of a check: its subject, what was found, and what to do.

    A line of `todo` that begins with two spaces is a command to copy. `known` is the id of the
    entry in config/knowledge that the result is based on.
    """

    id: CheckId
    level: Level
    subject: str
    seen: str
    todo: str = ""
    known: str = ""


Results = Iterator[CheckResult]


def report_ok(check: CheckId, seen: str, subject: str = "") -> CheckResult:
    """Return a result without a problem."""
    return CheckResult(check, "ok", subject or check, seen)


def report_warning(check: CheckId, seen: str, todo: str, subject: str = "") -> CheckResult:
    """Return a warning: the build works, but perhaps not as expected."""
    return CheckResult(check, "warning", subject or check, seen, todo)


def report_problem(check: CheckId, seen: str, todo: str, subject: str = "") -> CheckResult:
    """Return a problem: the build, or its outputs, cannot work."""
    return CheckResult(check, "problem", subject or check, seen, todo)


def report_unchecked(check: CheckId, why: str = "not inspected on this host") -> CheckResult:
    """Return the result of a check that could not be made."""
    return CheckResult(check, "not checked", check, why)


def format_install_hint(knowledge: Knowledge, s: HostFacts, package: str) -> str:
    """Return how to install a package on this host, as a command to copy if one is known."""
    command = package_managers.find_install_command(knowledge, s.systems, package)
    if command:
        return format_command(command)
    return package_managers.format_install_hint(knowledge, s.systems, package)


def format_command(text: str, before: str = "") -> str:
    """Return a hint that is a command, on a separate line after the text `before`."""
    return f"{before}\n  {text}" if before else f"  {text}"
