"""What a check says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tasks.core.check_ids import CheckId
from tasks.knowledge import package_managers

if TYPE_CHECKING:
    from tasks.doctor.host_facts import HostFacts
    from tasks.knowledge import Knowledge

# "ignored" is a problem that doctor.ignore names: no check says it, the report does
Level = Literal["ok", "warning", "problem", "not checked", "ignored"]


@dataclass(frozen=True)
class CheckResult:
    """One line: what was looked at, what was seen, what to do.

    A line of `todo` that begins with two spaces is a command to copy. `known` is the entry of
    config/knowledge that says so.
    """

    id: CheckId
    level: Level
    subject: str
    seen: str
    todo: str = ""
    known: str = ""


def report_ok(check: CheckId, seen: str, subject: str = "") -> CheckResult:
    """All is well."""
    return CheckResult(check, "ok", subject or check, seen)


def report_warning(check: CheckId, seen: str, todo: str, subject: str = "") -> CheckResult:
    """It works, but not as a person might expect."""
    return CheckResult(check, "warning", subject or check, seen, todo)


def report_problem(check: CheckId, seen: str, todo: str, subject: str = "") -> CheckResult:
    """The build, or what comes of it, cannot work."""
    return CheckResult(check, "problem", subject or check, seen, todo)


def report_unchecked(check: CheckId, why: str = "could not be looked at here") -> CheckResult:
    """Nobody knows."""
    return CheckResult(check, "not checked", check, why)


def format_install_hint(knowledge: Knowledge, s: HostFacts, asked: str) -> str:
    """What adds a package here: a command to copy where it is known."""
    told = package_managers.find_install_command(knowledge, s.systems, asked)
    return (
        format_command(told)
        if told
        else package_managers.format_install_hint(knowledge, s.systems, asked)
    )


def format_command(text: str, before: str = "") -> str:
    """A remedy that is a command, on a line of its own."""
    return f"{before}\n  {text}" if before else f"  {text}"
