"""Submodules that an extension's folder was cloned without. That is told before torch is fetched:
the extension is compiled after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.core.check_ids import CheckId
from tasks.core.formatting.few import few
from tasks.doctor.symptom import Symptom, command, ok, problem, unchecked, warning

if TYPE_CHECKING:
    from tasks.doctor.host_facts import Surroundings, Unfetched
    from tasks.knowledge import Knowledge
    from tasks.lock.profile import Profile

_ID: CheckId = "submodules"
_MOST = 3


def judge(s: Surroundings, profile: Profile | None, knowledge: Knowledge) -> Iterator[Symptom]:
    """submodules."""
    if profile is None:
        yield unchecked(_ID, "the profile does not open")
    elif s.unfetched is None:
        yield unchecked(_ID)
    elif not s.unfetched:
        yield ok(_ID, "no extension's folder was cloned without its own")
    else:
        extensions = [stage.job for stage in profile.plan.of("extensions")]
        optional = {job.name for job in extensions if job.optional}
        for one in s.unfetched:
            yield _told(one, knowledge, optional=one.extension in optional)


def _told(one: Unfetched, knowledge: Knowledge, *, optional: bool) -> Symptom:
    """A fork may leave one empty that nothing of it needs: only what is known to be needed stops a
    build.
    """
    needed = _is_needed(one, knowledge)
    names, several = few([str(folder) for folder in one.folders], _MOST), len(one.folders) > 1
    are, them = ("are", "them") if several else ("is", "it")
    why = f"does not build without {them}" if needed else f"may need {them}"
    seen = f"{names} {are} empty or not there, and {one.extension} {why}"
    level = problem if needed and not optional else warning
    return level(_ID, seen, _todo(one), one.extension)


def _is_needed(one: Unfetched, knowledge: Knowledge) -> bool:
    """The extension itself is one of them, or config/knowledge/extensions.yaml names one."""
    if any(one.source.is_relative_to(folder) for folder in one.folders):
        return True
    fact = knowledge.extensions.get(one.extension)
    return any(one.source / path in one.folders for path in (fact.submodules if fact else ()))


def _todo(one: Unfetched) -> str:
    tree = f'"{one.tree}"' if " " in str(one.tree) else str(one.tree)
    if one.cloned:
        return command(f"git -C {tree} submodule update --init --recursive")
    return f"{tree} is no clone, so git cannot fetch them: take one of git clone --recursive"
