"""Run the `wheel` stage: install and check torch, and return the two manifests."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from tasks.core.canonical_json import compute_text_sha256, format_canonical_json
from tasks.core.deps_model import DepsManifest
from tasks.core.errors import BadArtifactError, MissingCodeError
from tasks.core.model import Arch, Artifact, Command, InstalledTorch
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.knowledge.machine_code_rules import MachineCode, can_run_code
from tasks.stages.compile.model import CompileResult
from tasks.stages.env.model import Environment
from tasks.stages.source.model import SourceTree
from tasks.stages.wheel import model, wheel_libraries_io, wheel_packing_io
from tasks.stages.wheel.torch_abi_io import read_abi_fingerprint
from tasks.system import environments, files, interpreters, manifests, package_installer, shell
from tasks.system.hardware import toolchain
from tasks.system.output import print_line, print_warning, show_progress
from tasks.system.package_installer import DownloadRequest, InstallOptions, PackageInstaller
from tasks.wheels import (
    installed_wheel_io,
    machine_code_io,
    shared_wheels_io,
    wheel_archive_io,
    wheelhouse_io,
)
from tasks.wheels.incremental_install_io import WheelUpdate, update_installed_wheel
from tasks.wheels.library_linkage import needs_toolkit_libraries
from tasks.wheels.provenance_documents import build_statement

_IMPORT_CODE = "import torch; print(torch.__version__)"
_VERSION_FILES = ("torch/version.py", "torch/_version.py")


@dataclass(frozen=True)
class LastWheel:
    """The last wheel that was built and installed successfully.

    `digest` is a digest of the wheel's content without the version. `identity` is the identity of
    the environment. `asked` is the requested version without the commit. `record` is the sha256 of
    RECORD after the installation.
    """

    digest: str
    artifact: Artifact
    identity: str
    asked: str = ""
    record: str = ""


def run(
    job: model.PrebuiltJob | model.BuiltJob | model.ExistingJob,
) -> tuple[model.Wheel, model.AbiFingerprint]:
    """Install and check torch; return the manifests. Raises `FetchError`, `BadArtifactError`."""
    deps = manifests.read_manifest(job.deps, DepsManifest)
    if isinstance(job, model.PrebuiltJob):
        return _install_prebuilt(job, deps)
    if isinstance(job, model.BuiltJob):
        return _build_torch(job, deps)
    return _create_result(job, deps, _find_installed_torch(job.python), None)


def _create_result(
    job: model.PrebuiltJob | model.BuiltJob | model.ExistingJob,
    deps: DepsManifest,
    torch: InstalledTorch,
    artifact: Artifact | None,
) -> tuple[model.Wheel, model.AbiFingerprint]:
    """Print the installed torch; return the manifests. An existing torch has no `artifact`."""
    origin = f"({artifact.name}, sha256 {artifact.sha256[:12]}…)" if artifact else ""
    print_line(f"torch {torch.version} {origin or f'in {torch.folder}'}")
    kind: model.WheelKind = "wheel" if artifact else "existing"
    release = torch.version.partition("+")[0]
    wheel = model.Wheel(
        torch.version, release, torch.cuda, torch.folder, deps.python, kind, artifact
    )
    return wheel, read_abi_fingerprint(torch, deps, job.reading)


def _find_installed_torch(python: str) -> InstalledTorch:
    """Return the torch that an interpreter would import."""
    if torch := interpreters.find_interpreter(python).torch:
        return torch
    message = "this interpreter has no torch, although torch was just installed"
    hint = "run: doit clean wheel, then: doit build"
    raise BadArtifactError(message, location=python, hint=hint)


def _install_prebuilt(
    job: model.PrebuiltJob, deps: DepsManifest
) -> tuple[model.Wheel, model.AbiFingerprint]:
    files.require_minimum_space(job.landing, "installing torch and the libraries it needs")
    path, artifact = _fetch_wheel(job, deps)
    show_progress(f"checking {path.name}")
    wheel_archive_io.verify_wheel(path, deps.python_version)
    require_target_code(job, path)
    show_progress("installing torch and the libraries it needs")
    installer = PackageInstaller(deps.python, environments.find_uv(), job.log)
    installer.install_locked(job.locked, job.index)
    pins = deps.toolkit.pins if deps.toolkit else ()
    with shared_wheels_io.share_wheel(_locate_shared_wheel(job, deps), path, artifact) as shared:
        installer.install_wheel(shared, InstallOptions(pins, job.index))
    torch = _find_installed_torch(deps.python)
    require_release(torch, job.requirement.partition("==")[2].partition("+")[0], job.cuda)
    if deps.toolkit and pins:
        toolchain.link_new_libraries(Path(torch.folder).parent, Path(deps.toolkit.home))
    return _create_result(job, deps, torch, artifact)


def _describe_wheel(job: model.PrebuiltJob, deps: DepsManifest) -> str:
    return f"{job.requirement} for {deps.python_version.rpartition('.')[0]}"


def _locate_shared_wheel(job: model.PrebuiltJob, deps: DepsManifest) -> Path | None:
    cache = job.layout.project.cache
    return shared_wheels_io.locate_shared_wheel(cache, _describe_wheel(job, deps), job.index)


def _fetch_wheel(job: model.PrebuiltJob, deps: DepsManifest) -> tuple[Path, Artifact]:
    description = _describe_wheel(job, deps)
    stored_wheel = wheelhouse_io.find_stored_wheel(job.wheelhouse, description, job.index)
    if stored_wheel and job.locked_sha256 in ("", stored_wheel[1].sha256):
        wheelhouse_io.require_sha256(stored_wheel[1], job.sha256)
        print_line(f"{stored_wheel[0].name} is in the wheelhouse already")
        return stored_wheel
    entry, required = _locate_shared_wheel(job, deps), job.locked_sha256 or job.sha256 or ""
    if downloaded := shared_wheels_io.copy_shared_wheel(entry, job.landing, required):
        print_line(f"{downloaded.name} was downloaded for another project already")
    else:
        show_progress(f"fetching {job.requirement}")
        request = DownloadRequest(deps.python, job.requirement, job.index, job.landing, job.log)
        downloaded = package_installer.download_distribution(request)
    artifact = files.read_artifact(downloaded)
    wheelhouse_io.require_sha256(artifact, job.sha256)
    wheelhouse_io.require_locked_digest(artifact, job.locked_sha256, "torch")
    return wheelhouse_io.store_wheel(downloaded, job.wheelhouse, description, job.index)


def require_target_code(job: model.PrebuiltJob, wheel: Path) -> None:
    """Raise `MissingCodeError` if a target GPU cannot run the kernels of `wheel`.

    As in planning, the suffix of a target (as in sm_90a) is ignored. A library in an unknown format
    causes only a warning, because the `validate` stage checks it later.
    """
    if not job.targets:
        return
    try:
        code = _read_kernel_code(job, wheel)
    except BadArtifactError as error:
        print_warning(f"{wheel.name}: {error.message}; doit validate checks its machine code again")
        return
    gpus = [Arch(target.major, target.minor) for target in job.targets]
    knowledge = load_knowledge(Path(job.layout.project.knowledge))
    missing = [str(gpu) for gpu in gpus if not can_run_code(knowledge, code, gpu, maker=job.cuda)]
    found = f"{wheel.name} holds machine code for {', '.join(code.names) or 'no GPU'}"
    if missing:
        lack = f"none that runs on {', '.join(missing)}; the wheel was not installed"
        raise MissingCodeError(f"{found} and {lack}", location=str(job.wheelhouse))
    print_line(found)


def _read_kernel_code(job: model.PrebuiltJob, wheel: Path) -> MachineCode:
    """Return the archs for which most kernels in the wheel have code; empty without CUDA."""
    with wheel_archive_io.open_wheel(wheel) as archive:
        members = (f"torch/lib/{name}" for name in model.KERNELS[job.system])
        member = next((name for name in members if name in archive.namelist()), None)
        if member is None:
            return MachineCode(frozenset(), frozenset())
        show_progress(f"reading the machine code of {PurePosixPath(member).name}")
        folder = files.create_owned_folder(Path(job.landing) / "kernels")
        try:
            library = Path(archive.extract(member, folder))
            return machine_code_io.read_fatbin_images(library).common_code
        finally:
            files.remove_owned(folder)


def require_release(found: InstalledTorch, release: str, cuda: str | None) -> None:
    """Raise `BadArtifactError` if torch's release or CUDA differs from the plan."""
    if found.version.partition("+")[0] != release:
        message = f"torch {found.version} was installed instead of {release}"
        raise BadArtifactError(message, location=found.folder)
    if found.cuda != cuda:
        actual, planned = (f"CUDA {one}" if one else "no CUDA" for one in (found.cuda, cuda))
        message = f"the installed torch {found.version} has {actual} instead of {planned}"
        fitting = f'set toolkit.version: "{found.cuda}"'
        hint = fitting if found.cuda else "choose another torch.index"
        raise BadArtifactError(message, location=found.folder, hint=hint)


def _build_torch(
    job: model.BuiltJob, deps: DepsManifest
) -> tuple[model.Wheel, model.AbiFingerprint]:
    """Build the wheel. If the content is new, check the libraries, and install and import it."""
    compiled = manifests.read_manifest(job.compiled, CompileResult)
    if compiled.backend == "cmake":
        return _build_cpp_libraries(job, deps, compiled)
    PackageInstaller(deps.python, environments.find_uv(), job.log).install_locked(job.locked)
    build_inputs = wheel_packing_io.read_build_inputs(job, deps)
    start_time = manifests.format_current_time()
    last = _read_last_wheel(job)
    previous = _locate_wheel(job, last) if last else None
    packed = wheel_packing_io.pack_wheel(job, compiled, build_inputs, deps, previous)
    content = wheel_archive_io.compute_content_digest(packed.recorded, _VERSION_FILES)
    if requires := packed.portable.requires:
        content = compute_text_sha256(format_canonical_json([content, *requires]))
    version = f"{job.release}+{job.local}"
    artifact = _find_unchanged_wheel(job, last, (content, deps.identity, version), deps.python)
    if artifact is None:
        libraries = wheel_libraries_io.inspect_libraries(
            job, deps, packed.wheel, packed.recorded, packed.portable.promised
        )
        if job.cuda and not job.by_packages and needs_toolkit_libraries(libraries):
            print_line(
                "this wheel needs an installed CUDA toolkit; "
                "to build a wheel that needs none, set wheel.cuda: packages"
            )
        manifests.remove_manifests(job.content, job.libraries)
        site = environments.find_site_packages(deps.python)
        _install_or_restore(job, deps, packed.wheel, site, last)
        # the wheelhouse is shared with other profiles and users: only a wheel that imports is added
        stored_wheel, artifact = wheelhouse_io.store_wheel(
            packed.wheel, job.wheelhouse, f"torch {job.release} as built", str(job.compiled)
        )
        invocation = wheel_packing_io.build_invocation(job, deps, start_time)
        statement = format_canonical_json(build_statement(build_inputs, artifact, invocation))
        files.write_atomic(wheelhouse_io.resolve_statement_path(stored_wheel), statement)
        record = installed_wheel_io.hash_installed_record(site, "torch")
        new = LastWheel(content, artifact, deps.identity, version, record)
        manifests.write_manifest(job.content, new)
        manifests.write_manifest(job.libraries, libraries)
    return _create_result(job, deps, _find_installed_torch(deps.python), artifact)


def _read_last_wheel(job: model.BuiltJob) -> LastWheel | None:
    """Return the last installed wheel, or None if the wheel file is missing or changed."""
    if last := manifests.find_manifest(job.content, LastWheel):
        path = _locate_wheel(job, last)
        return last if path.is_file() and files.read_artifact(path) == last.artifact else None
    return None


def _locate_wheel(job: model.BuiltJob, last: LastWheel) -> Path:
    return Path(job.wheelhouse) / last.artifact.name


def _find_unchanged_wheel(
    job: model.BuiltJob, last: LastWheel | None, content: tuple[str, str, str], python: str
) -> Artifact | None:
    """Return the installed wheel if the new one has the same content, except for the commit."""
    is_same = last and (last.digest, last.identity, last.asked) == content
    if last is None or not is_same or not Path(job.libraries).is_file():
        return None
    torch = interpreters.find_interpreter(python).torch
    if torch is None or not last.artifact.name.startswith(f"torch-{torch.version}-"):
        return None  # the user removed or replaced torch with pip
    if not installed_wheel_io.has_all_files(Path(torch.folder).parent, "torch"):
        return None
    print_line(f"kept {last.artifact.name}: the new wheel has the same content")
    return last.artifact


def _install_or_restore(
    job: model.BuiltJob, deps: DepsManifest, wheel: Path, site: Path, last: LastWheel | None
) -> None:
    """Install and import a new wheel. If the import fails, reinstall the previous wheel."""
    show_progress(f"installing {wheel.name}")
    try:
        if last and last.identity == deps.identity and _update_torch(job, deps, wheel, site, last):
            try:
                require_torch_import(job, deps.python, _find_installed_torch(deps.python).version)
            except BadArtifactError:
                print_line("the updated torch does not import; installing the whole wheel")
            else:
                return
        _install_full_wheel(job, deps, wheel)
        require_torch_import(job, deps.python, _find_installed_torch(deps.python).version)
    except BadArtifactError:
        if last:
            _install_full_wheel(job, deps, _locate_wheel(job, last))
            record = installed_wheel_io.hash_installed_record(site, "torch")
            manifests.write_manifest(job.content, replace(last, record=record))
            print_line(f"installed the previous wheel again: {last.artifact.name}")
        raise


def _update_torch(
    job: model.BuiltJob, deps: DepsManifest, wheel: Path, site: Path, last: LastWheel
) -> bool:
    """Install only the changed files, or return False if the whole wheel must be installed."""
    unmodified_wheel = installed_wheel_io.find_unmodified_wheel(site, "torch", last.record)
    if unmodified_wheel is None:
        return False
    stored, landing = _locate_wheel(job, last), Path(job.landing)
    places, scratch = (landing / stored.name, stored), landing / "install"
    update = WheelUpdate(unmodified_wheel, stored, places, wheel, scratch, deps.python, job.log)
    count = update_installed_wheel(update)
    if count is not None:
        print_line(f"installed only the changes: {count:,} file{'s' if count != 1 else ''}")
    return count is not None


def _install_full_wheel(job: model.BuiltJob, deps: DepsManifest, wheel: Path) -> None:
    installer = PackageInstaller(deps.python, environments.find_uv(), job.log)
    installer.install_wheel(wheel, InstallOptions(deps.toolkit.pins if deps.toolkit else ()))


def require_torch_import(job: model.BuiltJob, python: str, version: str) -> None:
    """Raise `BadArtifactError` if torch cannot be imported. A missing GPU driver is no error."""
    show_progress("importing torch")
    environment = manifests.read_manifest(job.env, Environment)
    env = environment.build_child_environment(shell.build_host_env())
    # the working directory must not be a source tree that contains a torch package
    command = Command((), env, "import torch", cwd=job.landing, log=job.log)
    result = environments.try_import(python, _IMPORT_CODE, command)
    if result.needs_driver:
        print_warning(
            f"torch {version} was installed, but its import needs a GPU: {result.problem}"
        )
    elif error := result.error:
        message = f"torch {version} was installed but does not import: {result.problem}"
        cause = "read the traceback in this log and remove the cause"
        hint = f"{cause}, then run the same command again"
        raise BadArtifactError(message, location=error.location, hint=hint) from error
    elif version not in result.lines:  # the output may contain warnings, too
        found = " ".join(result.lines[-1:])
        message = f"torch {version} was installed, but python imports torch {found!r}"
        hint = "remove the other torch from this environment, then run the same command again"
        raise BadArtifactError(message, location=str(job.log), hint=hint)


def _build_cpp_libraries(
    job: model.BuiltJob, deps: DepsManifest, compiled: CompileResult
) -> tuple[model.Wheel, model.AbiFingerprint]:
    """Install the C++ libraries into a prefix for find_package(Torch), and pack the prefix."""
    files.remove_owned(job.layout.build / "libtorch")
    prefix = files.create_owned_folder(job.layout.build / "libtorch")
    wheel_packing_io.run_backend(job, compiled, prefix, {})
    tree = manifests.read_manifest(job.source, SourceTree)
    version = wheel_packing_io.format_wheel_version(job, tree)
    wheelhouse, archive_format = Path(job.wheelhouse), "zip" if prefix.drive else "gztar"
    wheelhouse.mkdir(parents=True, exist_ok=True)
    name = str(Path(job.landing).with_name(f"libtorch-{version}"))
    archive = Path(shutil.make_archive(name, archive_format, prefix.parent, prefix.name))
    archive = archive.replace(wheelhouse / archive.name)
    print_line(f"installed the C++ libraries into {prefix} and packed them into {archive}")
    artifact, folder = files.read_artifact(archive), str(prefix)
    release, cuda, standard = version.partition("+")[0], job.cuda, job.reading.cxx_standard
    digest = compute_text_sha256(format_canonical_json(compiled.products))
    wheel = model.Wheel(version, release, cuda, folder, deps.python, "libtorch", artifact, folder)
    abi = model.AbiFingerprint(release, cuda, "", digest, digest, None, standard, deps.identity)
    return wheel, abi
