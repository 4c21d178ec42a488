"""`doit lock`: write down in torchyard.lock what this profile was built of, so that it is built of
the same again. `--check` tells in what lock and build differ, `--update` locks what the refs stand
for now, which the next build takes. Of a profile with a matrix every build has a section.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Literal

from tasks.cli.opening import open_profile
from tasks.core.errors import BuildError, CommandFailedError, FetchError, SettingsError
from tasks.core.resolution import UnmetError
from tasks.lock import LOCK
from tasks.lock import profile as opened
from tasks.lock.builder import Finished
from tasks.lock.difference import differences
from tasks.lock.profile import Subject
from tasks.lock.section import Made, Profile, keeping
from tasks.lock.text import read, written
from tasks.settings.matrix_entries import cells, divided
from tasks.settings.yamltree import text_of
from tasks.stages.extensions.job import ExtensionJob
from tasks.stages.source.job import SourceJob
from tasks.system import files, git
from tasks.system.typed import naming, with_profile
from tasks.system.voice import show, warn


def run(subject: Subject, check: bool = False, update: bool = False) -> None:
    """Write the section of this profile, or only compare; with a matrix those of all its builds.
    Raises `BuildError` where there is no finished build, and with `check` where the two differ.
    """
    names = _asked(subject)
    if names == [subject.name]:
        _lock(subject, check=check, update=update)
        return
    ended = {name: _ended(subject, name, check=check, update=update) for name in names}
    if failed := [name for name in names if ended[name] == "failed"]:
        what = "not what is locked" if check else "not locked"
        raise BuildError(
            f"{len(failed)} of {len(names)} builds of the matrix are {what}: {', '.join(failed)}",
            todo="each says above what to do; what is said of the others holds",
        )
    if "done" not in ended.values():
        raise BuildError(
            f"nothing was {'compared' if check else 'locked'}: of the matrix nothing can be built "
            "here",
            where="matrix",
            todo="doit matrix tells why; change what it lists, or lock on a machine that can",
        )


def _asked(subject: Subject) -> list[str]:
    """The builds of a matrix; the profile itself beside them where it is built, or locked."""
    name, cell = divided(subject.name)
    found = [] if cell else [f"{name}@{one}" for one in cells(subject.asked().settings.matrix)]
    if not found:
        return [subject.name]
    is_built = (subject.build / "deps.json").is_file()
    own = is_built or read(_text(subject), name) is not None
    return [*([name] if own else []), *found]


def _ended(
    subject: Subject, name: str, *, check: bool, update: bool
) -> Literal["done", "failed", "impossible"]:
    """Do it for one of several; why it is not done is told, and keeps no other. A machine is not to
    blame for a build that it cannot make, and another may have locked that: it stays as it is.
    """
    try:
        with naming(name):
            read(_text(subject), name)  # what is damaged is told also of what cannot be built
            _lock(_opened(subject, name), check=check, update=update)
    except UnmetError as error:
        show(f"{LOCK}: {name}: as it was, since it cannot be built here: {error.what}")
        return "impossible"
    except BuildError as error:
        show(f"{LOCK}: {name}: {error}")
        return "failed"
    return "done"


def _opened(subject: Subject, name: str) -> Subject:
    """A build of the matrix. One that no machine can plan (torchvision for that torch) is not to be
    in it.
    """
    try:
        return Subject(subject.root, name, open_profile(subject.root, name, os.environ))
    except SettingsError as error:
        if divided(name)[1]:
            also = "matrix.exclude leaves out this build alone"
            error.todo = "; ".join(filter(None, (error.todo, also)))
        raise


def _text(subject: Subject) -> str:
    path = subject.root / LOCK
    return text_of(path, LOCK) if path.is_file() else ""


def _lock(subject: Subject, *, check: bool, update: bool) -> None:
    text = _text(subject)
    held = read(text, subject.name)
    if (check or update) and held is None:
        raise BuildError(f"{LOCK} has no section {subject.name}", todo="doit lock writes it")
    profile = subject.of_build()
    now = _updated(profile, held) if update and held else _built(profile, held)
    told = list(differences(held, now)) if held else []
    for line in told:
        show(line)
    if check:
        _require_same(subject.name, told)
    elif told or held is None:
        files.write_atomic(subject.root / LOCK, written(text, subject.name, now))
        show(f"{LOCK}: {subject.name}: {_counted(now)}")
    else:
        show(f"{LOCK}: {subject.name}: nothing moved")
    if told and update:
        name = with_profile(subject.name)
        show(f"doit build{name} takes that; then doit lock{name} writes the rest")


def _require_same(name: str, told: list[str]) -> None:
    if told:
        this = with_profile(name)
        some = f"{len(told)} difference{'s' * (len(told) > 1)}"
        raise BuildError(
            f"{some} between {LOCK} and the build",
            where=f"{LOCK}: {name}",
            todo=f"to take the lock's: doit build{this}; to lock what was built: doit lock{this}",
        )
    show(f"{LOCK}: {name} is what was built")


def _built(profile: opened.Profile, held: Profile | None) -> Profile:
    """What was built; of an optional extension that was not, what is locked already."""
    finished = Finished(profile)
    for name, why in finished.left_out.items():
        if held and name in held.extensions:
            means = f"what {LOCK} holds of it stays"
        else:
            means = f"{LOCK} is without it, and a build fetches it as the settings say"
        warn(f"{name} is optional and was not built ({why}): {means}")
    return keeping(finished.section(), held, finished.left_out)


def _updated(profile: opened.Profile, held: Profile) -> Profile:
    """With the commits that the refs stand for now; their submodules are known after a build."""
    moved = dict(_moved(profile, held))
    extensions = {name: moved.get(name, made) for name, made in held.extensions.items()}
    torch = moved.get("", held.torch)
    return held.model_copy(update={"torch": torch, "extensions": extensions})


def _moved(profile: opened.Profile, held: Profile) -> Iterator[tuple[str, Made]]:
    """By name, "" for torch."""
    for stage in profile.plan.stages:
        job = stage.job
        name = job.name if isinstance(job, ExtensionJob) else ""
        made = held.extensions.get(name) if name else held.torch
        if not isinstance(job, ExtensionJob | SourceJob) or job.kind != "git" or made is None:
            continue
        try:
            commit = _commit_of(job.location, job.ref, job.mirrors)
        except FetchError as error:
            if not getattr(job, "optional", False):
                raise
            warn(f"{name} is optional, and what {LOCK} holds of it stays: {error.what}")
            continue
        if made.commit and commit not in ("", made.commit):
            yield name, made.model_copy(update={"commit": commit, "submodules": {}})


def _commit_of(url: str, ref: str, mirrors: Mapping[str, str]) -> str:
    try:
        return git.commit_of(url, ref, mirrors)
    except CommandFailedError as error:
        raise FetchError(
            f"{url} does not tell what {ref} is: {error.what}",
            todo="check the URL, the network and the proxy; the lock is as it was",
        ) from error


def _counted(section: Profile) -> str:
    made = (section.torch, *section.extensions.values())
    packages = len(section.packages) + len(section.toolkit)
    packages += sum(len(one.packages) + len(one.requires) for one in made)
    commits = sum(bool(one.commit) + len(one.submodules) for one in made)
    wheels = sum(bool(one.sha256) for one in made)
    counts = {"commit": commits, "file": wheels, "package": packages}
    return ", ".join(f"{count} {name}{'s' * (count != 1)}" for name, count in counts.items())
