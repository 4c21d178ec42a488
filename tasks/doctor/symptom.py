"""What a check says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tasks.core.check_ids import CheckId
from tasks.knowledge import packagemanagers

if TYPE_CHECKING:
    from tasks.doctor.host_facts import Surroundings
    from tasks.knowledge import Knowledge

# "ignored" is a problem that doctor.ignore names: no check says it, the report does
Level = Literal["ok", "warning", "problem", "not checked", "ignored"]


@dataclass(frozen=True)
class Symptom:
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


def ok(check: CheckId, seen: str, subject: str = "") -> Symptom:
    """All is well."""
    return Symptom(check, "ok", subject or check, seen)


def warning(check: CheckId, seen: str, todo: str, subject: str = "") -> Symptom:
    """It works, but not as a person might expect."""
    return Symptom(check, "warning", subject or check, seen, todo)


def problem(check: CheckId, seen: str, todo: str, subject: str = "") -> Symptom:
    """The build, or what comes of it, cannot work."""
    return Symptom(check, "problem", subject or check, seen, todo)


def unchecked(check: CheckId, why: str = "could not be looked at here") -> Symptom:
    """Nobody knows."""
    return Symptom(check, "not checked", check, why)


def install(knowledge: Knowledge, s: Surroundings, asked: str) -> str:
    """What adds a package here: a command to copy where it is known."""
    told = packagemanagers.command(knowledge, s.systems, asked)
    return command(told) if told else packagemanagers.installing(knowledge, s.systems, asked)


def command(text: str, before: str = "") -> str:
    """A remedy that is a command, on a line of its own."""
    return f"{before}\n  {text}" if before else f"  {text}"
