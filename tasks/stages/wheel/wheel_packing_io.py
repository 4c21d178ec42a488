"""Pack the wheel of a torch that was compiled here, and describe its build inputs."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tasks.core.canonical_json import compute_text_sha256, convert_to_json
from tasks.core.deps_model import DepsManifest
from tasks.core.errors import CommandFailedError, TorchyardError, redact_secrets
from tasks.core.model import Command
from tasks.jobs.progress_io import create_line_handler
from tasks.stages.compile.model import ASSEMBLY_FOLDER, BUILD_OPTION, CompileResult
from tasks.stages.env.model import Environment
from tasks.stages.source.model import SourceTree
from tasks.stages.wheel import wheel_libraries_io
from tasks.stages.wheel.cuda_requirements import NO_REQUIREMENTS, CudaRequirements, add_requirements
from tasks.stages.wheel.model import BuiltJob
from tasks.system import files, manifests, shell
from tasks.system.git.git_command import is_local_url
from tasks.system.manifests import format_current_time
from tasks.system.output import show_progress
from tasks.wheels import wheel_archive_io, wheel_requirements_io, wheel_rewrite_io
from tasks.wheels.build_inputs import (
    EARLIEST_TIMESTAMP,
    BuildInputs,
    Invocation,
    SourceInfo,
    add_source_date,
    describe_tool,
    redact_json,
)
from tasks.wheels.provenance_documents import SBOM_PATH, build_sbom
from tasks.wheels.wheel_rewrite_io import add_dist_info_files


def read_build_inputs(job: BuiltJob, deps: DepsManifest) -> BuildInputs:
    """Return the build inputs from the manifests. How the wheel is built is recorded later."""
    tree = manifests.read_manifest(job.source, SourceTree)
    return BuildInputs(
        name="torch",
        version=format_wheel_version(job, tree),
        tree=SourceInfo(
            url=_find_source_url(job),
            commit=tree.commit,
            digest=tree.digest,
            edits=tree.edits,
            submodules=tree.submodules,
            patches=tree.patches,
        ),
        epoch=_find_source_epoch(job, tree),
        compilers=tuple(describe_tool(one.path, one.version, one.digest) for one in deps.compilers),
        cuda=deps.toolkit.version if deps.toolkit else "",
        packages=deps.toolkit.pins if deps.toolkit else (),
    )


def build_invocation(job: BuiltJob, deps: DepsManifest, began: str) -> Invocation:
    """Return the requested settings and what they resolved to, for the provenance statement."""
    compiled = manifests.read_manifest(job.compiled, CompileResult)
    folders = {
        str(job.wheelhouse): "{wheelhouse}",
        compiled.tree: "{source}",
        str(job.build): "{build}",
        str(job.build.parent.parent): "{checkout}",
        str(Path.home()): "~",
    }
    decisions = {
        "backend": compiled.backend,
        "archs": [str(arch) for arch in job.targets],
        "cuda": job.cuda,
        "environment": manifests.read_manifest(job.env, Environment).set,
    }
    installed = wheel_requirements_io.list_installed_packages(deps.python)
    settings = redact_json(convert_to_json(job.settings), folders)
    return Invocation(
        "torch",
        settings,
        redact_json(convert_to_json(decisions), folders),
        installed,
        began,
        format_current_time(),
    )


def format_wheel_version(job: BuiltJob, tree: SourceTree) -> str:
    """Return the version of the wheel, for example `2.6.0+cu130.sm120.g1a2b3c4`.

    A tree with local changes adds `.d` and six hex digits of a digest of the changes.
    """
    if job.local is None:
        return job.release
    if job.local_is_whole:
        return f"{job.release}+{job.local}"
    source = f"g{tree.commit[:7]}" if tree.commit else f"t{tree.digest[:7]}"
    dirty = f".d{compute_text_sha256(tree.edits)[:6]}" if tree.edits else ""
    return f"{job.release}+{job.local}.{source}{dirty}"


def _find_source_url(job: BuiltJob) -> str:
    """Return the URL that the tree was cloned from, "" for a local folder or a tarball."""
    source = job.settings.get("source")
    source_settings = source if isinstance(source, dict) else {}
    url = str(source_settings.get("git") or "")
    is_remote = not source_settings.get("path") and not source_settings.get("tarball")
    return redact_secrets(url) if is_remote and url and not is_local_url(url) else ""


def _find_source_epoch(job: BuiltJob, tree: SourceTree) -> int:
    """Return the build's SOURCE_DATE_EPOCH: the one in the environment or the tree's date."""
    epoch = manifests.read_manifest(job.env, Environment).set.get("SOURCE_DATE_EPOCH", "")
    return int(epoch) if epoch.isdecimal() else max(tree.date, EARLIEST_TIMESTAMP)


# printed by a tree whose own bdist_wheel does not know the option
_UNKNOWN_OPTION = re.compile(r"error: option --\S+ not recognized")


@dataclass(frozen=True)
class PackedWheel:
    """A finished wheel, its RECORD, and its CUDA requirements for machines without a toolkit."""

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
    """Build the wheel and verify every byte. `before` is the last good wheel.

    The wheel contains an SBOM of `made`, its build inputs. Raises `CommandFailedError`,
    `BadArtifactError`, and `TorchyardError` if the build did not produce exactly one wheel.
    """
    wheel = _build_wheel(job, compiled, made)
    added = {SBOM_PATH: build_sbom(made).encode()}
    with wheel_archive_io.open_wheel(wheel) as archive:
        recorded = wheel_archive_io.read_record(archive)
    requirements = wheel_libraries_io.find_cuda_requirements(job, deps, wheel, recorded)
    if not wheel_rewrite_io.is_uncompressed(wheel) and requirements == NO_REQUIREMENTS:
        show_progress(f"checking {wheel.name}")
        add_dist_info_files(wheel, added)
        return PackedWheel(
            wheel, wheel_archive_io.verify_wheel(wheel, deps.python_version), NO_REQUIREMENTS
        )
    show_progress(f"compressing {wheel.name}")
    wheel_archive_io.require_tags(wheel, deps.python_version)
    added |= build_metadata(wheel, requirements)
    replacements = wheel_libraries_io.prepare_patched_libraries(
        job, deps, wheel, recorded, requirements
    )
    packed_wheel = wheel_rewrite_io.compress_wheel(wheel, before, added, replacements)
    wheel_libraries_io.record_patched_libraries(job, recorded, packed_wheel, requirements)
    return PackedWheel(wheel, packed_wheel, requirements)


def build_metadata(wheel: Path, wanted: CudaRequirements) -> dict[str, bytes]:
    """Return METADATA with the requirements, by its file name; empty without requirements."""
    if not wanted.requires:
        return {}
    with wheel_archive_io.open_wheel(wheel) as archive:
        text = archive.read(wheel_archive_io.find_dist_info_file(archive, "METADATA")).decode(
            "utf-8"
        )
    return {"METADATA": add_requirements(text, wanted.requires).encode("utf-8")}


def _build_wheel(job: BuiltJob, compiled: CompileResult, made: BuildInputs) -> Path:
    files.remove_owned(job.landing)
    landing = files.create_owned_folder(job.landing)
    variables = {"PYTORCH_BUILD_VERSION": made.version, "PYTORCH_BUILD_NUMBER": "0"}
    try:
        run_backend(job, compiled, landing, variables)
    except CommandFailedError as error:
        if not _UNKNOWN_OPTION.search(error.output):
            raise
        run_backend(job, compiled, landing, variables, plain=True)
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
    """Run the backend's command for the wheel or the C++ libraries, with `more` variables."""
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
    """Remove copied Python modules that the sources no longer have.

    setuptools copies what it packs and keeps the copy of a module that was deleted from the
    sources. A module that is generated elsewhere is removed, too; setuptools copies it again.
    """
    for built in Path(compiled.build).glob("lib.*"):
        for module in built.rglob("*.py"):
            if not (Path(compiled.tree) / module.relative_to(built)).is_file():
                module.unlink()


@contextmanager
def _stage_built_files(compiled: CompileResult) -> Iterator[None]:
    """Hard-link the built files to where setuptools would copy them.

    setuptools unlinks a file before it overwrites it, so that the original is not changed.
    """
    if not any(part.startswith(f"-C{BUILD_OPTION}") for part in compiled.wheel):
        yield
        return
    place = Path(compiled.build) / ASSEMBLY_FOLDER
    files.remove_owned(
        files.create_owned_folder(place)
    )  # an interrupted build may have left the folder empty and without its marker
    built = [path for path in place.parent.glob("lib.*") if path.is_dir()]
    try:
        if len(built) == 1:  # with several interpreters, the right folder is not known
            _link_tree(built[0], files.create_owned_folder(place) / "wheel")
        yield
    finally:
        files.remove_owned(place)


def _link_tree(source: Path, target: Path) -> None:
    try:
        shutil.copytree(source, target, copy_function=os.link)
    except (OSError, shutil.Error):  # no hard links on this file system: setuptools copies
        shutil.rmtree(target, ignore_errors=True)
