"""`doit lock`: write down in torchyard.lock what this profile was built of, so that it is built of
the same again. `--check` tells in what lock and build differ, `--update` takes what the refs stand
for now.
"""

from __future__ import annotations

from tasks.effects import files
from tasks.effects.voice import show
from tasks.errors import BuildError
from tasks.locking.difference import differences
from tasks.locking.section import Profile
from tasks.locking.text import NAME, read, written
from tasks.reports.made import Finished
from tasks.reports.subject import Subject
from tasks.settings.yamltree import text_of


def run(subject: Subject, check: bool = False) -> None:
    """Write the section of this profile, or only compare. Raises `BuildError` where there is no
    finished build, and with `check` where the two differ.
    """
    path = subject.root / NAME
    text = text_of(path, NAME) if path.is_file() else ""
    held = read(text, subject.name)
    if check and held is None:
        raise BuildError(f"{NAME} has no section {subject.name}", todo="doit lock writes it")
    now = Finished(subject.of_build()).section()
    told = list(differences(held, now)) if held else []
    for line in told:
        show(line)
    if check:
        _require_same(subject.name, told)
    elif told or held is None:
        files.write_atomic(path, written(text, subject.name, now))
        show(f"{NAME}: {subject.name}: {_counted(now)}; commit it")
    else:
        show(f"{NAME}: {subject.name} is as it was built")


def _require_same(name: str, told: list[str]) -> None:
    if told:
        some = f"{len(told)} difference{'s' * (len(told) > 1)}"
        raise BuildError(
            f"{some} between {NAME} and the build",
            where=f"{NAME}: {name}",
            todo="to take the lock's: doit build; to lock what was built: doit lock",
        )
    show(f"{NAME}: {name} is what was built")


def _counted(section: Profile) -> str:
    made = (section.torch, *section.extensions.values())
    packages = len(section.packages) + len(section.toolkit)
    packages += sum(len(one.packages) + len(one.requires) for one in made)
    commits = sum(bool(one.commit) + len(one.submodules) for one in made)
    wheels = sum(bool(one.sha256) for one in made)
    counts = {"commit": commits, "file": wheels, "package": packages}
    return ", ".join(f"{count} {name}{'s' * (count != 1)}" for name, count in counts.items())
