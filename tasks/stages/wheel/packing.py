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

from tasks.core.deps_model import DepsManifest
from tasks.core.errors import CommandFailedError, TorchyardError
from tasks.core.model import Command
from tasks.jobs.ninja.ninja import create_line_handler
from tasks.stages.compile.job import ASSEMBLY_FOLDER, BUILD_OPTION, CompileResult
from tasks.stages.env.job import Environment
from tasks.stages.source.job import SourceTree
from tasks.stages.wheel import bringing
from tasks.stages.wheel.job import BuiltJob
from tasks.stages.wheel.portable import NO_REQUIREMENTS, CudaRequirements, add_requirements
from tasks.system import files, manifests, shell
from tasks.system.voice import show_progress
from tasks.wheels.files import repack, wheelfile
from tasks.wheels.files.enclose import add_dist_info_files
from tasks.wheels.provenance.made import BuildInputs, add_source_date
from tasks.wheels.provenance.sbom import SBOM_PATH, build_sbom

# of a tree whose own bdist_wheel knows no such option
_UNKNOWN_OPTION = re.compile(r"error: option --\S+ not recognized")


@dataclass(frozen=True)
class PackedWheel:
    """A finished wheel, its RECORD, and what it got to work without a toolkit."""

    wheel: Path
    recorded: Mapping[str, str]
    portable: CudaRequirements


def pack_wheel(
    job: BuiltJob,
    compiled: CompileResult,
    made: BuildInputs,
    deps: DepsManifest,
    before: Path | None,
) -> PackedWheel:
    """The finished wheel, every byte of it checked; `before` is the last good one. What it was
    `made` from is in it.

    Raises `CommandFailedError`, `BadArtifactError`, and `BuildError` where no wheel came out.
    """
    wheel = _build_wheel(job, compiled, made)
    added = {SBOM_PATH: build_sbom(made).encode()}
    with wheelfile.open_wheel(wheel) as archive:
        recorded = wheelfile.read_record(archive)
    wanted = bringing.find_cuda_requirements(job, deps, wheel, recorded)
    if not repack.is_uncompressed(wheel) and wanted == NO_REQUIREMENTS:
        show_progress(f"checking {wheel.name}")
        add_dist_info_files(wheel, added)
        return PackedWheel(
            wheel, wheelfile.verify_wheel(wheel, deps.python_version), NO_REQUIREMENTS
        )
    show_progress(f"compressing {wheel.name}")
    wheelfile.require_tags(wheel, deps.python_version)
    added |= build_metadata(wheel, wanted)
    instead = bringing.prepare_patched_libraries(job, deps, wheel, recorded, wanted)
    packed = repack.compress_wheel(wheel, before, added, instead)
    bringing.record_patched_libraries(job, recorded, packed, wanted)
    return PackedWheel(wheel, packed, wanted)


def build_metadata(wheel: Path, wanted: CudaRequirements) -> dict[str, bytes]:
    """METADATA with the requirements, by its name in dist-info; nothing where there are none."""
    if not wanted.requires:
        return {}
    with wheelfile.open_wheel(wheel) as archive:
        text = archive.read(wheelfile.find_dist_info_file(archive, "METADATA")).decode("utf-8")
    return {"METADATA": add_requirements(text, wanted.requires).encode("utf-8")}


def _build_wheel(job: BuiltJob, compiled: CompileResult, made: BuildInputs) -> Path:
    files.remove_owned(job.landing)
    landing = files.create_owned_folder(job.landing)
    more = {"PYTORCH_BUILD_VERSION": made.version, "PYTORCH_BUILD_NUMBER": "0"}
    try:
        run_backend(job, compiled, landing, more)
    except CommandFailedError as error:
        if not _UNKNOWN_OPTION.search(error.output):
            raise
        run_backend(job, compiled, landing, more, plain=True)
    wheels = list(landing.glob("*.whl"))
    if len(wheels) != 1:
        raise TorchyardError(
            f"the build left {len(wheels)} wheels and not one",
            location=str(job.log),
            hint="read the end of that log",
        )
    return wheels[0]


def run_backend(
    job: BuiltJob,
    compiled: CompileResult,
    dest: Path,
    more: Mapping[str, str],
    *,
    plain: bool = False,
) -> None:
    """Run the backend's command for the wheel, or the libraries, with `more` variables."""
    env = manifests.read_manifest(job.env, Environment).build_child_environment(
        shell.build_host_env()
    )
    env.update({**compiled.variables, **more})
    env = add_source_date(env, manifests.read_manifest(job.source, SourceTree).date)
    argv = compiled.build_wheel_command(dest, plain=plain)
    command = Command(argv, env, "make the wheel", cwd=Path(compiled.tree), log=job.log)
    with files.lock_folder(Path(compiled.build)):
        _remove_stale_modules(compiled)
        with _stage_built_files(compiled):
            shell.run_command(command, create_line_handler())


def _remove_stale_modules(compiled: CompileResult) -> None:
    """setuptools copies what it packs, and leaves the copy of a module that the sources have no
    more. One that it makes elsewhere it copies again.
    """
    for built in Path(compiled.build).glob("lib.*"):
        for module in built.rglob("*.py"):
            if not (Path(compiled.tree) / module.relative_to(built)).is_file():
                module.unlink()


@contextmanager
def _stage_built_files(compiled: CompileResult) -> Iterator[None]:
    """What is built lies where setuptools copies it to, each file a link to the one it would be
    copied from. setuptools unlinks a file before it writes another in its place.
    """
    if not any(part.startswith(f"-C{BUILD_OPTION}") for part in compiled.wheel):
        yield
        return
    place = Path(compiled.build) / ASSEMBLY_FOLDER
    files.remove_owned(
        files.create_owned_folder(place)
    )  # a kill may have left it without its mark, and empty
    built = [path for path in place.parent.glob("lib.*") if path.is_dir()]
    try:
        if len(built) == 1:  # of several interpreters none is known to be the right one
            _link_tree(built[0], files.create_owned_folder(place) / "wheel")
        yield
    finally:
        files.remove_owned(place)


def _link_tree(source: Path, target: Path) -> None:
    try:
        shutil.copytree(source, target, copy_function=os.link)
    except (OSError, shutil.Error):  # a file system without links: setuptools then copies
        shutil.rmtree(target, ignore_errors=True)
