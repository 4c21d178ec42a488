"""Fetch, build against the torch that was just installed, look at what came out, then install. A
companion's wheel is not built, and all the rest is the same.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

from tasks.core.deps_model import DepsManifest
from tasks.core.digest import format_canonical_json
from tasks.core.errors import FetchError, redact_secrets
from tasks.knowledge import load_knowledge
from tasks.stages.extensions import sources
from tasks.stages.extensions.build import build_extension
from tasks.stages.extensions.job import BuiltExtension, ExtensionJob
from tasks.stages.extensions.known import apply_known_facts
from tasks.stages.extensions.made import build_invocation, describe_build_inputs
from tasks.stages.extensions.project import locate_project
from tasks.stages.extensions.proof import (
    build_missing_code_error,
    needs_device_code,
    read_library_archs,
)
from tasks.stages.extensions.putting import install_extension, prepare_build
from tasks.stages.wheel.job import AbiFingerprint
from tasks.system import files, git, manifests, space
from tasks.system.clock import format_current_time
from tasks.system.git.command import is_local_url
from tasks.system.network import offline
from tasks.system.network.mirrors import apply_mirror
from tasks.system.python import environments
from tasks.system.voice import print_line, print_warning, show_progress
from tasks.wheels.files import wheelfile, wheelhouse
from tasks.wheels.files.enclose import add_dist_info_files
from tasks.wheels.files.relabel import relabel_wheel
from tasks.wheels.provenance.sbom import SBOM_PATH, build_sbom
from tasks.wheels.provenance.statement import build_statement


def run(job: ExtensionJob) -> tuple[BuiltExtension]:
    """Raises the compiler's first error, or `BadArtifactError` if a target has no code, all
    device code is missing, or the modules do not import; the one that was installed before is there
    still.
    """
    if job.optional and (away := _find_unreachable_reason(job)):
        return (_report_unreachable(job, away),)
    deps = manifests.read_manifest(job.deps, DepsManifest)
    surface = manifests.read_manifest(job.abi_manifest, AbiFingerprint)
    began = format_current_time()
    space.require_minimum_space(job.work, f"building {job.name}")
    try:
        show_progress("fetching it" if job.kind == "wheel" else "fetching its source")
        fetched, source = sources.fetch_source(job, deps)
        edits = "" if job.kind == "wheel" else sources.format_edits_suffix(job, source)
        job = _apply_known_settings(job)
        prepare_build(job, deps)
    except FetchError as error:
        if not job.optional or job.kind != "sdist":
            raise
        return (_report_unreachable(job, error.message),)
    wheel = fetched if job.kind == "wheel" else build_extension(job, deps, fetched)
    recorded = wheelfile.verify_wheel(wheel, deps.python_version)
    unpacked = _unpack_wheel(job, wheel)
    held = read_library_archs(job, deps, unpacked, recorded)
    needed = needs_device_code(job, unpacked, recorded)
    if needed and not held:
        raise build_missing_code_error(job)
    made = None
    if job.kind != "wheel":
        wheel = relabel_wheel(wheel, format_local_label(job, surface, has_code=bool(held)) + edits)
        made = describe_build_inputs(job, deps, wheel, source, surface)
        add_dist_info_files(wheel, {SBOM_PATH: build_sbom(made).encode()})
        recorded = wheelfile.verify_wheel(wheel, deps.python_version)
    artifact = install_extension(job, deps, wheel, unpacked)
    if made:
        told = build_statement(made, artifact, build_invocation(job, deps, held, began))
        files.write_atomic(
            wheelhouse.resolve_statement_path(job.wheelhouse / artifact.name),
            format_canonical_json(told),
        )
    for name, kinds in held.items():
        print_line(f"{Path(name).name} holds {', '.join(kinds)}")
    files.remove_owned(unpacked.parent)
    installed = _list_installed_libraries(deps, recorded)
    return (
        BuiltExtension(
            job.name,
            "built",
            source,
            artifact,
            installed,
            job.imports,
            held,
            surface.name,
            needs_code=needed,
        ),
    )


def format_local_label(job: ExtensionJob, surface: AbiFingerprint, *, has_code: bool) -> str:
    """Return the local version of the wheel: `torch2.15.0.s1a2b3c4d.cu132.sm120`, without archs if
    it has no device code. It leaves out torch's commit: one that keeps the surface renames nothing.
    """
    label = job.label if has_code else job.label.partition(".")[0]
    return f"torch{surface.release}.s{surface.name}.{label}"


def _apply_known_settings(job: ExtensionJob) -> ExtensionJob:
    """Return the job with the known build settings of its fetched source; report them."""
    if job.kind == "wheel":
        return job
    project = locate_project(job)
    found = apply_known_facts(
        job, project.name, project.variables, load_knowledge(Path(job.knowledge))
    )
    if found.known != job.known:
        print_line(f"recognized as {found.known}: its known build settings are used")
    for name in sorted(found.env.keys() - job.env.keys()):
        print_line(f"setting {name}={found.env[name]} for the build")
    return found


def _find_unreachable_reason(job: ExtensionJob) -> str:
    """Why its source is not to be had, "" where it is. An index is asked by fetching from it, and
    offline no host is asked.
    """
    place = apply_mirror(job.location, job.mirrors)
    if job.kind not in {"git", "path"}:
        return ""
    if offline.is_offline() and not is_local_url(place):
        return f"{job.location} is not in the bundle"
    return "" if git.is_reachable(place) else f"nothing answers at {job.location}"


def _report_unreachable(job: ExtensionJob, why: str) -> BuiltExtension:
    """Said aloud each time, and tried again next time."""
    print_warning(f"{job.name} was NOT built: {why}")
    print_line("it is optional, so the build goes on; the next doit build tries it again")
    return BuiltExtension(job.name, "unreachable", {job.kind: redact_secrets(job.location)})


def _unpack_wheel(job: ExtensionJob, wheel: Path) -> Path:
    """Its files, to look at and to try; `verify` saw that none of them leads outside."""
    folder = Path(job.work) / "landing" / "unpacked"
    files.remove_owned(folder)
    files.create_owned_folder(folder)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def _list_installed_libraries(deps: DepsManifest, recorded: Mapping[str, str]) -> tuple[str, ...]:
    site = environments.find_site_packages(deps.python)
    return tuple(str(site / name) for name in wheelfile.list_libraries(recorded))
