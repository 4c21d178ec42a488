"""Pack the wheel of a torch that was built from source, and describe the build inputs."""

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


def read_build_inputs(job: BuiltJob, deps: DepsManifest) -> BuildInputs:
    """Return the build inputs of the wheel, read from the manifests of earlier stages."""
    tree = manifests.read_manifest(job.source, SourceTree)
    epoch = manifests.read_manifest(job.env, Environment).set.get("SOURCE_DATE_EPOCH", "")
    section = job.settings.get("source")
    source = section if isinstance(section, dict) else {}
    url = str(source.get("git") or "")
    is_remote = bool(url) and not source.get("path") and not source.get("tarball")
    return BuildInputs(
        name="torch",
        version=format_wheel_version(job, tree),
        tree=SourceInfo(
            url=redact_secrets(url) if is_remote and not is_local_url(url) else "",
            commit=tree.commit,
            digest=tree.digest,
            edits=tree.edits,
            submodules=tree.submodules,
            patches=tree.patches,
        ),
        epoch=int(epoch) if epoch.isdecimal() else max(tree.date, EARLIEST_TIMESTAMP),
        compilers=tuple(describe_tool(c.path, c.version, c.digest) for c in deps.compilers),
        cuda=deps.toolkit.version if deps.toolkit else "",
        packages=deps.toolkit.pins if deps.toolkit else (),
    )


def build_invocation(job: BuiltJob, deps: DepsManifest, start_time: str) -> Invocation:
    """Return the requested and the resolved settings, for the provenance statement."""
    compiled = manifests.read_manifest(job.compiled, CompileResult)
    folders = {
        str(job.wheelhouse): "{wheelhouse}",
        compiled.tree: "{source}",
        str(job.layout.build): "{build}",
        str(job.layout.root): "{checkout}",
        str(Path.home()): "~",
    }
    decisions = {
        "backend": compiled.backend,
        "archs": [str(arch) for arch in job.targets],
        "cuda": job.cuda,
        "environment": manifests.read_manifest(job.env, Environment).set,
    }
    settings = redact_json(convert_to_json(job.settings), folders)
    resolved = redact_json(convert_to_json(decisions), folders)
    installed = wheel_requirements_io.list_installed_packages(deps.python)
    end_time = manifests.format_current_time()
    return Invocation("torch", settings, resolved, installed, start_time, end_time)


def format_wheel_version(job: BuiltJob, tree: SourceTree) -> str:
    """Return the version of the wheel, for example `2.6.0+cu130.sm120.g1a2b3c4`."""
    if job.local is None:
        return job.release
    if job.local_is_whole:
        return f"{job.release}+{job.local}"
    source = f"g{tree.commit[:7]}" if tree.commit else f"t{tree.digest[:7]}"
    dirty = f".d{compute_text_sha256(tree.edits)[:6]}" if tree.edits else ""
    return f"{job.release}+{job.local}.{source}{dirty}"


# The error of a PyTorch tree whose bdist_wheel command does not support the option
_UNKNOWN_OPTION = re.compile(r"error: option --\S+ not recognized")


@dataclass(frozen=True)
class PackedWheel:
    """A packed wheel. `recorded` has digests by file name, `portable` the CUDA requirements."""

    wheel: Path
    recorded: Mapping[str, str]
    portable: CudaRequirements


def pack_wheel(
    job: BuiltJob,
    compiled: CompileResult,
    build_inputs: BuildInputs,
    deps: DepsManifest,
    previous: Path | None,
) -> PackedWheel:
    """Build the wheel with an SBOM, and verify it. `previous` is the last wheel, if any.

    Raises `TorchyardError` if the build did not produce exactly one wheel. Also raises
    `CommandFailedError` and `BadArtifactError`.
    """
    wheel = _build_wheel(job, compiled, build_inputs.version)
    added = {SBOM_PATH: build_sbom(build_inputs).encode()}
    with wheel_archive_io.open_wheel(wheel) as archive:
        recorded = wheel_archive_io.read_record(archive)
    requirements = wheel_libraries_io.find_cuda_requirements(job, deps, wheel, recorded)
    if not wheel_rewrite_io.is_uncompressed(wheel) and requirements == NO_REQUIREMENTS:
        show_progress(f"checking {wheel.name}")
        wheel_rewrite_io.add_dist_info_files(wheel, added)
        verified = wheel_archive_io.verify_wheel(wheel, deps.python_version)
        return PackedWheel(wheel, verified, NO_REQUIREMENTS)
    show_progress(f"compressing {wheel.name}")
    wheel_archive_io.require_tags(wheel, deps.python_version)
    added |= build_metadata(wheel, requirements)
    replacements = wheel_libraries_io.prepare_patched_libraries(
        job, deps, wheel, recorded, requirements
    )
    packed_wheel = wheel_rewrite_io.compress_wheel(wheel, previous, added, replacements)
    wheel_libraries_io.record_patched_libraries(job, recorded, packed_wheel, requirements)
    return PackedWheel(wheel, packed_wheel, requirements)


def build_metadata(wheel: Path, requirements: CudaRequirements) -> dict[str, bytes]:
    """Return {"METADATA": its new content}, or {} if `requirements` adds nothing."""
    if not requirements.requires:
        return {}
    with wheel_archive_io.open_wheel(wheel) as archive:
        text = archive.read(wheel_archive_io.find_dist_info_file(archive, "METADATA")).decode()
    return {"METADATA": add_requirements(text, requirements.requires).encode()}


def _build_wheel(job: BuiltJob, compiled: CompileResult, version: str) -> Path:
    files.remove_owned(job.landing)
    landing = files.create_owned_folder(job.landing)
    variables = {"PYTORCH_BUILD_VERSION": version, "PYTORCH_BUILD_NUMBER": "0"}
    try:
        run_backend(job, compiled, landing, variables)
    except CommandFailedError as error:
        if not _UNKNOWN_OPTION.search(error.output):
            raise
        run_backend(job, compiled, landing, variables, plain=True)
    wheels = list(landing.glob("*.whl"))
    if len(wheels) != 1:
        message = f"the build made {len(wheels)} wheels instead of one"
        raise TorchyardError(message, location=str(job.log), hint="read the end of this log")
    return wheels[0]


def run_backend(
    job: BuiltJob,
    compiled: CompileResult,
    dest: Path,
    more: Mapping[str, str],
    *,
    plain: bool = False,
) -> None:
    """Run the build backend. `more` are variables, `plain` omits the options of bdist_wheel."""
    environment = manifests.read_manifest(job.env, Environment)
    env = environment.build_child_environment(shell.build_host_env())
    source_date = manifests.read_manifest(job.source, SourceTree).date
    env = add_source_date({**env, **compiled.variables, **more}, source_date)
    argv = compiled.build_wheel_command(dest, plain=plain)
    command = Command(argv, env, "make the wheel", cwd=Path(compiled.tree), log=job.log)
    build, tree = Path(compiled.build), Path(compiled.tree)
    with files.lock_folder(build):
        # setuptools keeps its copy of a module that was deleted from the sources
        for module in build.glob("lib.*/**/*.py"):
            if not (tree / Path(*module.relative_to(build).parts[1:])).is_file():
                module.unlink()
        with _stage_built_files(compiled):
            shell.run_command(command, create_line_handler())


@contextmanager
def _stage_built_files(compiled: CompileResult) -> Iterator[None]:
    """Hard-link the built files into the folder that setuptools would copy them to.

    setuptools unlinks a file before it overwrites it, so the original does not change.
    """
    if not any(part.startswith(f"-C{BUILD_OPTION}") for part in compiled.wheel):
        yield
        return
    place = Path(compiled.build) / ASSEMBLY_FOLDER
    # an interrupted build may have left the folder empty and without its marker
    files.remove_owned(files.create_owned_folder(place))
    built = [path for path in place.parent.glob("lib.*") if path.is_dir()]
    try:
        if len(built) == 1:  # with several interpreters, the right folder is not known
            target = files.create_owned_folder(place) / "wheel"
            try:
                shutil.copytree(built[0], target, copy_function=os.link)
            except (OSError, shutil.Error):  # this file system has no hard links: setuptools copies
                shutil.rmtree(target, ignore_errors=True)
        yield
    finally:
        files.remove_owned(place)
