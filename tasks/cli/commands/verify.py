"""`doit verify WHEEL`: a wheel against its RECORD, its SBOM, the statement beside it, the manifests
of this profile, and what it declares to need. It changes nothing, and installs nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tasks.core.deps_model import Deps
from tasks.core.errors import BuildError, ValidationFailedError
from tasks.core.model import Check
from tasks.knowledge import load
from tasks.lock.profile import Subject
from tasks.stages.extensions.job import Built
from tasks.stages.validate import table
from tasks.stages.wheel.job import Wheel
from tasks.system import manifests, tty
from tasks.system.voice import show
from tasks.wheels.binaries.codereader import Reader
from tasks.wheels.verify.checks import Recorded, checks
from tasks.wheels.verify.looked import look


def run(subject: Subject, wheel: str = "", wheels: Sequence[str] = ()) -> None:
    """Print a table for each wheel; `ValidationFailedError` where a check of one has failed."""
    named = [Path(one) for one in (*([wheel] if wheel else []), *wheels)]
    if not named:
        raise BuildError("no wheel is named", todo="doit verify wheelhouse/NAME.whl")
    knowledge = load(subject.root / "config" / "knowledge")
    room = tty.width(tty.WIDE, sys.maxsize)
    told: list[Check] = []
    for path in named:
        if not path.is_file():
            raise BuildError("there is no such wheel", where=str(path))
        found = look(path, _reader(subject))
        of_this = list(checks(found, _recorded(subject, path), knowledge))
        for line in (path.name, *table.rows(of_this, room, tty.paint)):
            show(line)
        told += of_this
    if failed := [check for check in told if check.status == "failed"]:
        names = ", ".join(check.name for check in failed)
        raise ValidationFailedError(
            f"{len(failed)} of {len(told)} checks failed: {names}",
            where=", ".join(path.name for path in named),
            todo=table.remedies(failed),
        )


def _reader(subject: Subject) -> Reader:
    """What read the machine code when it was built, where this profile built anything."""
    if subject.opened is None:
        return Reader()
    try:
        deps = manifests.read(subject.opened.layout.manifest("deps"), Deps)
    except BuildError:
        return Reader()
    return Reader(deps.cuobjdump or "")


def _recorded(subject: Subject, wheel: Path) -> Recorded:
    """What this profile's manifests have of a wheel of that name."""
    if subject.opened is None:
        return Recorded(why="this profile does not open")
    for stage in subject.opened.plan.stages:
        if stage.room not in {"wheel", "extensions"}:
            continue
        kind: type[Wheel] | type[Built] = Wheel if stage.room == "wheel" else Built
        try:
            left = manifests.read(stage.leaves[0], kind)
        except BuildError:
            continue
        if left.artifact and left.artifact.name == wheel.name:
            return Recorded(left.artifact, (left.archs or {}) if isinstance(left, Built) else {})
    return Recorded(why=f"profile {subject.name} built no wheel of that name")
