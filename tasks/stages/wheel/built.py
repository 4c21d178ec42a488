"""A wheel, or the C++ libraries, out of the build folder.

The local version names CUDA, archs and the commit of the last build whose installed content
changed: a commit that only touches documents makes a wheel with the same content, which is thrown
away, and the old one keeps its name.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tasks.core.deps_model import DepsManifest
from tasks.core.digest import compute_text_sha256, format_canonical_json
from tasks.core.model import Artifact
from tasks.stages.compile.job import CompileResult
from tasks.stages.source.job import SourceTree
from tasks.stages.wheel import installed, installing, lastgood, libraries, packing
from tasks.stages.wheel.installing import NewWheel
from tasks.stages.wheel.job import AbiFingerprint, BuiltJob, Wheel
from tasks.stages.wheel.lastgood import LastWheel
from tasks.stages.wheel.made import format_wheel_version, read_build_inputs
from tasks.stages.wheel.packing import PackedWheel
from tasks.stages.wheel.surface import read_abi_fingerprint
from tasks.system import files, manifests
from tasks.system.clock import format_current_time
from tasks.system.python import environments, pythons
from tasks.system.python.packages import PackageInstaller
from tasks.system.voice import print_line
from tasks.wheels.files import distribution, wheelfile
from tasks.wheels.linking.linkage import needs_toolkit_libraries

VERSION_FILES = ("torch/version.py", "torch/_version.py")


def build_torch(job: BuiltJob, deps: DepsManifest) -> tuple[Wheel, AbiFingerprint]:
    """Make it, check it, and where it holds something new look at its libraries, install it and
    import it.
    """
    compiled = manifests.read_manifest(job.compiled, CompileResult)
    if compiled.backend == "cmake":
        return _build_cpp_libraries(job, deps, compiled)
    PackageInstaller(deps.python, environments.find_uv(), job.log).install_locked(job.locked)
    made, began = read_build_inputs(job, deps), format_current_time()
    before = lastgood.read_last_wheel(job)
    known = lastgood.locate_last_wheel(job, before) if before else None
    packed = packing.pack_wheel(job, compiled, made, deps, known)
    content = _compute_content_digest(packed)
    artifact = _find_unchanged_wheel(job, deps, content, before)
    if artifact is None:
        found_in = libraries.inspect_libraries(
            job, deps, packed.wheel, packed.recorded, packed.portable.promised
        )
        if job.cuda and not job.by_packages and needs_toolkit_libraries(found_in):
            print_line(
                "wheel.cuda: packages makes one for machines that have a driver and no toolkit"
            )
        artifact = installing.install_new_wheel(
            job, deps, NewWheel(packed.wheel, content, made, began), before
        )
        manifests.write_manifest(job.libraries, found_in)
    found = installed.find_installed_torch(deps.python)
    print_line(f"torch {found.version} ({artifact.name}, sha256 {artifact.sha256[:12]}…)")
    release = found.version.partition("+")[0]
    torch = Wheel(found.version, release, found.cuda, found.folder, deps.python, "wheel", artifact)
    return torch, read_abi_fingerprint(found, deps, job.reading)


def _compute_content_digest(packed: PackedWheel) -> str:
    """What would be installed, with the packages that it brings along."""
    content = wheelfile.compute_content_digest(packed.recorded, VERSION_FILES)
    requires = packed.portable.requires
    return compute_text_sha256(format_canonical_json([content, *requires])) if requires else content


def _find_unchanged_wheel(
    job: BuiltJob, deps: DepsManifest, content: str, last: LastWheel | None
) -> Artifact | None:
    """The wheel that is installed, where the new one differs in nothing but the commit in its
    name.
    """
    if last is None or not Path(job.libraries).is_file():
        return None
    if (last.digest, last.identity, last.asked) != (
        content,
        deps.identity,
        lastgood.format_base_version(job),
    ):
        return None
    found = pythons.find_interpreter(deps.python).torch
    if found is None or not last.artifact.name.startswith(f"torch-{found.version}-"):
        return None  # a person's pip took it away, or put another one there
    if not distribution.has_all_files(Path(found.folder).parent, "torch"):
        return None
    print_line(f"the same content as {last.artifact.name}: kept")
    return last.artifact


def _build_cpp_libraries(
    job: BuiltJob, deps: DepsManifest, compiled: CompileResult
) -> tuple[Wheel, AbiFingerprint]:
    """An install prefix for find_package(Torch), and an archive of it."""
    files.remove_owned(job.prefix)
    prefix = files.create_owned_folder(job.prefix)
    packing.run_backend(job, compiled, prefix, {})
    version = format_wheel_version(job, manifests.read_manifest(job.source, SourceTree))
    archive = _archive_prefix(job, prefix, version)
    print_line(f"{prefix} and {archive}")
    known = files.read_artifact(archive)
    release = version.partition("+")[0]
    torch = Wheel(
        version, release, job.cuda, str(prefix), deps.python, "libtorch", known, str(prefix)
    )
    digest = compute_text_sha256(format_canonical_json(compiled.products))
    standard = job.reading.cxx_standard
    return torch, AbiFingerprint(
        release, job.cuda, "", digest, digest, None, standard, deps.identity
    )


def _archive_prefix(job: BuiltJob, prefix: Path, version: str) -> Path:
    house = Path(job.wheelhouse)
    house.mkdir(parents=True, exist_ok=True)
    form = "zip" if prefix.drive else "gztar"
    name = str(Path(job.landing).with_name(f"libtorch-{version}"))
    made = Path(shutil.make_archive(name, form, prefix.parent, prefix.name))
    return made.replace(house / made.name)
