"""The wheel out of the build folder, with as little copied and compressed again as can be.

setuptools copies everything that is built into a folder, compresses it from there, and both take
longer than all else. It copies no file that is there already: so there the files lie before it
starts, as links. And the wheel that it leaves is not compressed (see
`tasks.stages.compile.setup_py`): that is done here, for what changed. Where a backend does neither,
its wheel is taken as it is and verified in full.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tasks.core.deps_model import Deps
from tasks.core.errors import BuildError, CommandFailedError
from tasks.core.model import Command
from tasks.jobs.ninja.ninja import follow
from tasks.stages.compile.job import ASSEMBLY, OPTION, Compiled
from tasks.stages.env.job import Environment
from tasks.stages.source.job import SourceTree
from tasks.stages.wheel import bringing
from tasks.stages.wheel.job import BuiltJob
from tasks.stages.wheel.portable import NOTHING, Portable, described
from tasks.system import files, manifests, shell
from tasks.system.voice import tick
from tasks.wheels.files import repack, wheelfile
from tasks.wheels.files.enclose import enclose
from tasks.wheels.provenance.made import Made, dated
from tasks.wheels.provenance.sbom import PLACE, sbom

# of a tree whose own bdist_wheel knows no such option
_REFUSED = re.compile(r"error: option --\S+ not recognized")


@dataclass(frozen=True)
class Packed:
    """A finished wheel, its RECORD, and what it got to work without a toolkit."""

    wheel: Path
    recorded: Mapping[str, str]
    portable: Portable


def pack(job: BuiltJob, compiled: Compiled, made: Made, deps: Deps, before: Path | None) -> Packed:
    """The finished wheel, every byte of it checked; `before` is the last good one. What it was
    `made` from is in it.

    Raises `CommandFailedError`, `BadArtifactError`, and `BuildError` where no wheel came out.
    """
    wheel = _make(job, compiled, made)
    added = {PLACE: sbom(made).encode()}
    with wheelfile.opened(wheel) as archive:
        recorded = wheelfile.record(archive)
    wanted = bringing.look(job, deps, wheel, recorded)
    if not repack.is_stored(wheel) and wanted == NOTHING:
        tick(f"checking {wheel.name}")
        enclose(wheel, added)
        return Packed(wheel, wheelfile.verify(wheel, deps.python_version), NOTHING)
    tick(f"compressing {wheel.name}")
    wheelfile.require_tags(wheel, deps.python_version)
    added |= metadata_of(wheel, wanted)
    instead = bringing.instead(job, deps, wheel, recorded, wanted)
    packed = repack.repack(wheel, before, added, instead)
    bringing.remember(job, recorded, packed, wanted)
    return Packed(wheel, packed, wanted)


def metadata_of(wheel: Path, wanted: Portable) -> dict[str, bytes]:
    """METADATA with the requirements, by its name in dist-info; nothing where there are none."""
    if not wanted.requires:
        return {}
    with wheelfile.opened(wheel) as archive:
        text = archive.read(wheelfile.described(archive, "METADATA")).decode("utf-8")
    return {"METADATA": described(text, wanted.requires).encode("utf-8")}


def _make(job: BuiltJob, compiled: Compiled, made: Made) -> Path:
    files.remove_owned(job.landing)
    landing = files.own(job.landing)
    more = {"PYTORCH_BUILD_VERSION": made.version, "PYTORCH_BUILD_NUMBER": "0"}
    try:
        run(job, compiled, landing, more)
    except CommandFailedError as error:
        if not _REFUSED.search(error.said):
            raise
        run(job, compiled, landing, more, plain=True)
    wheels = list(landing.glob("*.whl"))
    if len(wheels) != 1:
        raise BuildError(
            f"the build left {len(wheels)} wheels and not one",
            where=str(job.log),
            todo="read the end of that log",
        )
    return wheels[0]


def run(
    job: BuiltJob, compiled: Compiled, dest: Path, more: Mapping[str, str], *, plain: bool = False
) -> None:
    """Run the backend's command for the wheel, or the libraries, with `more` variables."""
    env = manifests.read(job.env, Environment).over(shell.host_env())
    env.update({**compiled.variables, **more})
    env = dated(env, manifests.read(job.source, SourceTree).date)
    argv = compiled.wheel_argv(dest, plain=plain)
    command = Command(argv, env, "make the wheel", cwd=Path(compiled.tree), log=job.log)
    with files.lock(Path(compiled.build)):
        _forget_gone(compiled)
        with _laid_out(compiled):
            shell.run(command, follow())


def _forget_gone(compiled: Compiled) -> None:
    """setuptools copies what it packs, and leaves the copy of a module that the sources have no
    more. One that it makes elsewhere it copies again.
    """
    for built in Path(compiled.build).glob("lib.*"):
        for module in built.rglob("*.py"):
            if not (Path(compiled.tree) / module.relative_to(built)).is_file():
                module.unlink()


@contextmanager
def _laid_out(compiled: Compiled) -> Iterator[None]:
    """What is built lies where setuptools copies it to, each file a link to the one it would be
    copied from. setuptools unlinks a file before it writes another in its place.
    """
    if not any(part.startswith(f"-C{OPTION}") for part in compiled.wheel):
        yield
        return
    place = Path(compiled.build) / ASSEMBLY
    files.remove_owned(files.own(place))  # a kill may have left it without its mark, and empty
    built = [path for path in place.parent.glob("lib.*") if path.is_dir()]
    try:
        if len(built) == 1:  # of several interpreters none is known to be the right one
            _link(built[0], files.own(place) / "wheel")
        yield
    finally:
        files.remove_owned(place)


def _link(source: Path, target: Path) -> None:
    try:
        shutil.copytree(source, target, copy_function=os.link)
    except (OSError, shutil.Error):  # a file system without links: setuptools then copies
        shutil.rmtree(target, ignore_errors=True)
