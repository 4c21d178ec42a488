"""Where somebody else could put something that a build runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.doctor.symptom import Symptom, command, ok, unchecked, warning

if TYPE_CHECKING:
    from tasks.doctor.host_facts import Exposed, Surroundings
    from tasks.knowledge import Knowledge
    from tasks.lock.profile import Profile


def judge(s: Surroundings, profile: Profile | None, knowledge: Knowledge) -> Iterator[Symptom]:
    """trust."""
    del profile, knowledge
    if s.exposed is None:
        yield unchecked("trust", "who may write where is not known here")
        return
    if not s.exposed:
        yield ok("trust", "nobody else may write to the checkout, its builds, or programs on PATH")
    for one in s.exposed:
        yield _told(one)


def _told(one: Exposed) -> Symptom:
    if one.kind == "relative":
        seen = f'PATH has "{one.path}" in it: programs of whatever folder a command runs in'
        return warning("trust", seen, "take it out of PATH; builds here leave it out already")
    what = "is on PATH, and everyone" if one.kind == "PATH" else "is of the build, and everyone"
    seen = f"{one.path} {what} on this machine may write to it"
    return warning("trust", seen, command(f"chmod o-w {one.path}"))
