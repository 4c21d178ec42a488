"""Where somebody else could put something that a build runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.doctor.symptom import (
    CheckResult,
    format_command,
    report_ok,
    report_unchecked,
    report_warning,
)

if TYPE_CHECKING:
    from tasks.doctor.host_facts import HostFacts, UnsafePath
    from tasks.knowledge import Knowledge
    from tasks.lock.profile import Profile


def check_write_access(
    s: HostFacts, profile: Profile | None, knowledge: Knowledge
) -> Iterator[CheckResult]:
    """trust."""
    del profile, knowledge
    if s.exposed is None:
        yield report_unchecked("trust", "who may write where is not known here")
        return
    if not s.exposed:
        yield report_ok(
            "trust", "nobody else may write to the checkout, its builds, or programs on PATH"
        )
    for one in s.exposed:
        yield _report_unsafe_path(one)


def _report_unsafe_path(one: UnsafePath) -> CheckResult:
    if one.kind == "relative":
        seen = f'PATH has "{one.path}" in it: programs of whatever folder a command runs in'
        return report_warning(
            "trust", seen, "take it out of PATH; builds here leave it out already"
        )
    what = "is on PATH, and everyone" if one.kind == "PATH" else "is of the build, and everyone"
    seen = f"{one.path} {what} on this machine may write to it"
    return report_warning("trust", seen, format_command(f"chmod o-w {one.path}"))
