"""Install and check torch for each kind of wheel job, and return its two manifests."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from tasks.core.canonical_json import compute_text_sha256, format_canonical_json
from tasks.core.deps_model import DepsManifest
from tasks.core.errors import BadArtifactError, MissingCodeError, TorchyardError
from tasks.core.model import Arch, Artifact, Command, InstalledTorch
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.knowledge.machine_code_rules import MachineCode, can_run_code
from tasks.stages.compile.model import CompileResult
from tasks.stages.env.model import Environment
from tasks.stages.source.model import SourceTree
from tasks.stages.wheel import wheel_libraries_io, wheel_packing_io
from tasks.stages.wheel.model import (
    KERNELS,
    AbiFingerprint,
    BuiltJob,
    ExistingJob,
    PrebuiltJob,
    Wheel,
    WheelKind,
)
from tasks.stages.wheel.torch_abi_io import read_abi_fingerprint
from tasks.stages.wheel.wheel_packing_io import (
    PackedWheel,
    build_invocation,
    format_wheel_version,
    read_build_inputs,
)
from tasks.system import environments, files, interpreters, manifests, package_installer, shell
from tasks.system.hardware import toolchain
from tasks.system.manifests import format_current_time
from tasks.system.output import print_line, print_warning, show_progress
from tasks.system.package_installer import DownloadRequest, InstallOptions, PackageInstaller
from tasks.wheels import (
    incremental_install_io,
    installed_wheel_io,
    machine_code_io,
    wheel_archive_io,
    wheelhouse_io,
)
from tasks.wheels.build_inputs import BuildInputs
from tasks.wheels.incremental_install_io import WheelUpdate
from tasks.wheels.library_linkage import needs_toolkit_libraries
from tasks.wheels.provenance_documents import build_statement


@dataclass(frozen=True)
class LastWheel:
    """The last wheel that was built and installed successfully.

    `digest` is the digest of its content without its version, `asked` its version without the
    commit, `record` the sha256 of RECORD after the installation.
    """

    digest: str
    artifact: Artifact
    identity: str
    asked: str = ""
    record: str = ""


def read_last_wheel(job: BuiltJob) -> LastWheel | None:
    """Return the last installed wheel, None if its file is missing or has changed."""
    try:
        last = manifests.read_manifest(job.content, LastWheel)
    except TorchyardError:
        return None
    path = locate_last_wheel(job, last)
    return last if path.is_file() and files.read_artifact(path) == last.artifact else None


def locate_last_wheel(job: BuiltJob, content: LastWheel) -> Path:
    """Return the path of the wheel in the wheelhouse."""
    return Path(job.wheelhouse) / content.artifact.name


def format_base_version(job: BuiltJob) -> str:
    """Return the release and the local version, without the commit."""
    return f"{job.release}+{job.local}"


def find_installed_torch(python: str) -> InstalledTorch:
    """Return the torch that an interpreter would import.

    Raises `BadArtifactError` if torch is missing.
    """
    torch = interpreters.find_interpreter(python).torch
    if torch is None:
        raise BadArtifactError(
            "torch is not there after it was installed",
            location=python,
            hint="doit clean wheel, then doit build",
        )
    return torch


def require_release(found: InstalledTorch, release: str, cuda: str | None) -> None:
    """Raise `BadArtifactError` if torch's release or CUDA differs from the plan."""
    if found.version.partition("+")[0] != release:
        raise BadArtifactError(
            f"torch {found.version} was installed, and {release} was meant", location=found.folder
        )
    if found.cuda != cuda:
        raise BadArtifactError(
            f"this torch {found.version} has {_format_cuda(found.cuda)}, and "
            f"{_format_cuda(cuda)} was meant",
            location=found.folder,
            hint=f'set toolkit.version: "{found.cuda}"'
            if found.cuda
            else "choose another torch.index",
        )


def _format_cuda(cuda: str | None) -> str:
    return f"CUDA {cuda}" if cuda else "no CUDA"


_IMPORT_CODE = "import torch; print(torch.__version__)"


def require_torch_import(job: BuiltJob, python: str, version: str) -> None:
    """Raise `BadArtifactError` if the installed torch does not import, or is not `version`.

    A torch that is linked with the driver cannot be imported on a machine without one: that is a
    warning.
    """
    show_progress("importing torch")
    env = manifests.read_manifest(job.env, Environment).build_child_environment(
        shell.build_host_env()
    )
    # the working directory must not be a source tree that contains a torch package
    command = Command((), env, "import torch", cwd=job.landing, log=job.log)
    result = environments.try_import(python, _IMPORT_CODE, command)
    if result.needs_driver:
        print_warning(f"torch {version} was installed and NOT imported: {result.problem}")
        return
    if result.error:
        raise BadArtifactError(
            f"torch {version} was installed and does not import: {result.problem}",
            location=result.error.location,
            hint="that log has the whole traceback; once its cause is gone, run the same command "
            "again: torch is then installed and imported anew",
        ) from result.error
    if version not in result.lines:  # the output may contain warnings, too
        raise BadArtifactError(
            f"torch {version} was installed, and what is imported says "
            f"{' '.join(result.lines[-1:])!r}",
            location=str(job.log),
            hint="remove the other torch from this environment, then run the same command again",
        )


@dataclass(frozen=True)
class NewWheel:
    """A wheel that was just built. `content` is the digest of what it installs."""

    wheel: Path
    content: str
    build_inputs: BuildInputs
    began: str


def install_new_wheel(
    job: BuiltJob, deps: DepsManifest, fresh: NewWheel, before: LastWheel | None
) -> Artifact:
    """Install and import a new wheel, then store it in the wheelhouse.

    The wheelhouse is shared with other profiles and users, so only a wheel that imports is stored
    there. A wheel that does not import is replaced by the previous one.
    """
    manifests.remove_manifests(job.content, job.libraries)
    site = environments.find_site_packages(deps.python)
    try:
        _install_and_import(job, deps, fresh.wheel, site, before)
    except BadArtifactError:
        if before:
            _install_full_wheel(job, deps, locate_last_wheel(job, before))
            record = installed_wheel_io.hash_installed_record(site, "torch")
            manifests.write_manifest(job.content, replace(before, record=record))
            print_line(f"installed again instead: {before.artifact.name}")
        raise
    stored_wheel, artifact = wheelhouse_io.store_wheel(
        fresh.wheel, job.wheelhouse, f"torch {job.release} as built", str(job.compiled)
    )
    statement = build_statement(
        fresh.build_inputs, artifact, build_invocation(job, deps, fresh.began)
    )
    files.write_atomic(
        wheelhouse_io.resolve_statement_path(stored_wheel), format_canonical_json(statement)
    )
    record = installed_wheel_io.hash_installed_record(site, "torch")
    installed = LastWheel(fresh.content, artifact, deps.identity, format_base_version(job), record)
    manifests.write_manifest(job.content, installed)
    return artifact


def _install_and_import(
    job: BuiltJob, deps: DepsManifest, wheel: Path, site: Path, before: LastWheel | None
) -> None:
    show_progress(f"installing {wheel.name}")
    if (
        before
        and before.identity == deps.identity
        and _install_changed_files(job, deps, wheel, site, before)
    ):
        try:
            return _require_import(job, deps)
        except BadArtifactError:
            print_line("it does not import: installed in full, to be sure")
    _install_full_wheel(job, deps, wheel)
    return _require_import(job, deps)


def _install_changed_files(
    job: BuiltJob, deps: DepsManifest, wheel: Path, site: Path, before: LastWheel
) -> bool:
    unmodified_wheel = installed_wheel_io.find_unmodified_wheel(site, "torch", before.record)
    if unmodified_wheel is None:
        return False
    stored_wheel = locate_last_wheel(job, before)
    places = (Path(job.landing) / stored_wheel.name, stored_wheel)
    scratch = Path(job.landing) / "install"
    updated_files = incremental_install_io.update_installed_wheel(
        WheelUpdate(unmodified_wheel, stored_wheel, places, wheel, scratch, deps.python, job.log)
    )
    if updated_files is not None:
        print_line(
            f"installed what changed: {updated_files:,} file{'s' if updated_files != 1 else ''}"
        )
    return updated_files is not None


def _install_full_wheel(job: BuiltJob, deps: DepsManifest, wheel: Path) -> None:
    installer = PackageInstaller(deps.python, environments.find_uv(), job.log)
    installer.install_wheel(wheel, InstallOptions(deps.toolkit.pins if deps.toolkit else ()))


def _require_import(job: BuiltJob, deps: DepsManifest) -> None:
    require_torch_import(job, deps.python, find_installed_torch(deps.python).version)


def require_target_code(job: PrebuiltJob, wheel: Path) -> None:
    """Raise `MissingCodeError` if a GPU of the targets cannot run the kernels of `wheel`.

    As in planning, the suffix of a target is ignored. A library in an unknown format is left to
    validate, with a warning.
    """
    if not job.targets:
        return
    try:
        code = _read_kernel_code(job, wheel)
    except BadArtifactError as error:
        print_warning(f"{wheel.name}: {error.message}; doit validate checks it again")
        return
    gpus = [Arch(target.major, target.minor) for target in job.targets]
    knowledge = load_knowledge(Path(job.knowledge))
    missing = [gpu for gpu in gpus if not can_run_code(knowledge, code, gpu, maker=job.cuda)]
    archs = ", ".join(code.names)
    if missing:
        raise MissingCodeError(
            f"{wheel.name} holds machine code for {archs or 'no GPU'} and none that runs on "
            f"{', '.join(map(str, missing))}; it was not installed",
            location=str(job.wheelhouse),
        )
    print_line(f"{wheel.name} holds machine code for {archs}")


def _read_kernel_code(job: PrebuiltJob, wheel: Path) -> MachineCode:
    """Return the archs that most kernels are compiled for, empty for a wheel without CUDA."""
    names = [f"torch/lib/{name}" for name in KERNELS[job.system]]
    with wheel_archive_io.open_wheel(wheel) as archive:
        member = next((name for name in names if name in archive.namelist()), None)
        if member is None:
            return MachineCode(frozenset(), frozenset())
        show_progress(f"reading the machine code of {PurePosixPath(member).name}")
        folder = files.create_owned_folder(Path(job.landing) / "kernels")
        library = folder / PurePosixPath(member).name
        try:
            with archive.open(member) as source, library.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            return machine_code_io.read_fatbin_images(library).common_code
        finally:
            files.remove_owned(folder)


VERSION_FILES = ("torch/version.py", "torch/_version.py")


def build_torch(job: BuiltJob, deps: DepsManifest) -> tuple[Wheel, AbiFingerprint]:
    """Build and check the wheel, then install and import it if its content is new.

    The libraries of a wheel with new content are inspected before it is installed.
    """
    compiled = manifests.read_manifest(job.compiled, CompileResult)
    if compiled.backend == "cmake":
        return _build_cpp_libraries(job, deps, compiled)
    PackageInstaller(deps.python, environments.find_uv(), job.log).install_locked(job.locked)
    build_inputs, start_time = read_build_inputs(job, deps), format_current_time()
    before = read_last_wheel(job)
    previous_wheel = locate_last_wheel(job, before) if before else None
    packed_wheel = wheel_packing_io.pack_wheel(job, compiled, build_inputs, deps, previous_wheel)
    content = _compute_content_digest(packed_wheel)
    artifact = _find_unchanged_wheel(job, deps, content, before)
    if artifact is None:
        libraries = wheel_libraries_io.inspect_libraries(
            job, deps, packed_wheel.wheel, packed_wheel.recorded, packed_wheel.portable.promised
        )
        if job.cuda and not job.by_packages and needs_toolkit_libraries(libraries):
            print_line(
                "wheel.cuda: packages makes one for machines that have a driver and no toolkit"
            )
        artifact = install_new_wheel(
            job, deps, NewWheel(packed_wheel.wheel, content, build_inputs, start_time), before
        )
        manifests.write_manifest(job.libraries, libraries)
    installed = find_installed_torch(deps.python)
    print_line(f"torch {installed.version} ({artifact.name}, sha256 {artifact.sha256[:12]}…)")
    release = installed.version.partition("+")[0]
    torch = Wheel(
        installed.version, release, installed.cuda, installed.folder, deps.python, "wheel", artifact
    )
    return torch, read_abi_fingerprint(installed, deps, job.reading)


def _compute_content_digest(packed: PackedWheel) -> str:
    """Return a digest of what the wheel installs, including the packages it requires."""
    content = wheel_archive_io.compute_content_digest(packed.recorded, VERSION_FILES)
    requires = packed.portable.requires
    return compute_text_sha256(format_canonical_json([content, *requires])) if requires else content


def _find_unchanged_wheel(
    job: BuiltJob, deps: DepsManifest, content: str, last: LastWheel | None
) -> Artifact | None:
    """Return the installed wheel if the new one differs only in the commit in its name."""
    if last is None or not Path(job.libraries).is_file():
        return None
    if (last.digest, last.identity, last.asked) != (
        content,
        deps.identity,
        format_base_version(job),
    ):
        return None
    installed = interpreters.find_interpreter(deps.python).torch
    if installed is None or not last.artifact.name.startswith(f"torch-{installed.version}-"):
        return None  # the user removed or replaced torch with pip
    if not installed_wheel_io.has_all_files(Path(installed.folder).parent, "torch"):
        return None
    print_line(f"the same content as {last.artifact.name}: kept")
    return last.artifact


def _build_cpp_libraries(
    job: BuiltJob, deps: DepsManifest, compiled: CompileResult
) -> tuple[Wheel, AbiFingerprint]:
    """Build an install prefix for find_package(Torch) and an archive of it."""
    files.remove_owned(job.prefix)
    prefix = files.create_owned_folder(job.prefix)
    wheel_packing_io.run_backend(job, compiled, prefix, {})
    version = format_wheel_version(job, manifests.read_manifest(job.source, SourceTree))
    archive = _archive_prefix(job, prefix, version)
    print_line(f"{prefix} and {archive}")
    archive_artifact = files.read_artifact(archive)
    release = version.partition("+")[0]
    torch = Wheel(
        version,
        release,
        job.cuda,
        str(prefix),
        deps.python,
        "libtorch",
        archive_artifact,
        str(prefix),
    )
    digest = compute_text_sha256(format_canonical_json(compiled.products))
    standard = job.reading.cxx_standard
    return torch, AbiFingerprint(
        release, job.cuda, "", digest, digest, None, standard, deps.identity
    )


def _archive_prefix(job: BuiltJob, prefix: Path, version: str) -> Path:
    wheelhouse = Path(job.wheelhouse)
    wheelhouse.mkdir(parents=True, exist_ok=True)
    archive_format = "zip" if prefix.drive else "gztar"
    name = str(Path(job.landing).with_name(f"libtorch-{version}"))
    archive = Path(shutil.make_archive(name, archive_format, prefix.parent, prefix.name))
    return archive.replace(wheelhouse / archive.name)


def run(job: PrebuiltJob | BuiltJob | ExistingJob) -> tuple[Wheel, AbiFingerprint]:
    """Install and check torch. Raises `FetchError`, `BadArtifactError`."""
    deps = manifests.read_manifest(job.deps, DepsManifest)
    match job:
        case PrebuiltJob():
            return _install_prebuilt(job, deps)
        case BuiltJob():
            return build_torch(job, deps)
    installed = find_installed_torch(job.python)
    print_line(f"torch {installed.version} in {installed.folder}")
    return _build_manifests(
        deps, read_abi_fingerprint(installed, deps, job.reading), installed, None
    )


def _install_prebuilt(job: PrebuiltJob, deps: DepsManifest) -> tuple[Wheel, AbiFingerprint]:
    files.require_minimum_space(job.landing, "installing torch and the libraries it needs")
    path, artifact = _fetch_wheel(job, deps)
    show_progress(f"checking {path.name}")
    wheel_archive_io.verify_wheel(path, deps.python_version)
    require_target_code(job, path)
    show_progress("installing torch and the libraries it needs")
    installer = PackageInstaller(deps.python, environments.find_uv(), job.log)
    installer.install_locked(job.locked, job.index)
    installer.install_wheel(
        path, InstallOptions(deps.toolkit.pins if deps.toolkit else (), job.index)
    )
    installed = find_installed_torch(deps.python)
    release = job.requirement.partition("==")[2].partition("+")[0]
    require_release(installed, release, job.cuda)
    if deps.toolkit and deps.toolkit.pins:
        toolchain.link_new_libraries(Path(installed.folder).parent, Path(deps.toolkit.home))
    print_line(f"torch {installed.version} ({artifact.name}, sha256 {artifact.sha256[:12]}…)")
    return _build_manifests(
        deps, read_abi_fingerprint(installed, deps, job.reading), installed, artifact
    )


def _fetch_wheel(job: PrebuiltJob, deps: DepsManifest) -> tuple[Path, Artifact]:
    description = f"{job.requirement} for {deps.python_version.rpartition('.')[0]}"
    stored_wheel = wheelhouse_io.find_stored_wheel(job.wheelhouse, description, job.index)
    if stored_wheel and job.locked_sha256 in ("", stored_wheel[1].sha256):
        wheelhouse_io.require_sha256(stored_wheel[1], job.sha256)
        print_line(f"{stored_wheel[0].name} is in the wheelhouse")
        return stored_wheel
    show_progress(f"fetching {job.requirement}")
    downloaded = package_installer.download_distribution(
        DownloadRequest(deps.python, job.requirement, job.index, job.landing, job.log)
    )
    artifact = files.read_artifact(downloaded)
    wheelhouse_io.require_sha256(artifact, job.sha256)
    wheelhouse_io.require_locked_digest(artifact, job.locked_sha256, "torch")
    return wheelhouse_io.store_wheel(downloaded, job.wheelhouse, description, job.index)


def _build_manifests(
    deps: DepsManifest, shown: AbiFingerprint, found: InstalledTorch, artifact: Artifact | None
) -> tuple[Wheel, AbiFingerprint]:
    kind: WheelKind = "wheel" if artifact else "existing"
    release = found.version.partition("+")[0]
    wheel = Wheel(found.version, release, found.cuda, found.folder, deps.python, kind, artifact)
    return wheel, shown
