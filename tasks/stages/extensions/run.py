"""Fetch, build, check and install an extension, or install the wheel of a companion package."""

import zipfile
from collections.abc import Mapping
from pathlib import Path

from packaging.utils import parse_wheel_filename

from tasks.core.canonical_json import convert_to_json, format_canonical_json
from tasks.core.deps_model import DepsManifest
from tasks.core.errors import FetchError, redact_secrets
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.knowledge.mirrors import apply_mirror
from tasks.stages.env.model import Environment
from tasks.stages.extensions import (
    extension_code_io,
    extension_environment_io,
    extension_sources_io,
)
from tasks.stages.extensions.extension_build_io import build_extension
from tasks.stages.extensions.known_extensions import apply_known_facts
from tasks.stages.extensions.model import BuiltExtension, ExtensionJob
from tasks.stages.wheel.model import AbiFingerprint
from tasks.system import environments, files, manifests
from tasks.system.git import clones
from tasks.system.git.git_command import is_local_url
from tasks.system.manifests import format_current_time
from tasks.system.network import network_access
from tasks.system.output import print_line, print_warning, show_progress
from tasks.wheels import build_inputs, wheel_archive_io, wheel_requirements_io, wheelhouse_io
from tasks.wheels.provenance_documents import SBOM_PATH, build_sbom, build_statement
from tasks.wheels.wheel_rewrite_io import add_dist_info_files, relabel_wheel


def describe_build_inputs(
    job: ExtensionJob,
    deps: DepsManifest,
    wheel: Path,
    source: Mapping[str, str],
    surface: AbiFingerprint,
) -> build_inputs.BuildInputs:
    """Return the build inputs of the wheel. `source` is a result of `fetch_source`."""
    name, version, _, _ = parse_wheel_filename(wheel.name)
    epoch = job.env.get("SOURCE_DATE_EPOCH", "")
    date = max(extension_sources_io.read_commit_date(job), build_inputs.EARLIEST_TIMESTAMP)
    return build_inputs.BuildInputs(
        name=name,
        version=str(version),
        tree=extension_sources_io.describe_source(job, source),
        epoch=int(epoch) if epoch.isdecimal() else date,
        compilers=tuple(
            build_inputs.describe_tool(one.path, one.version, one.digest) for one in deps.compilers
        ),
        cuda=deps.toolkit.version if deps.toolkit else "",
        packages=deps.toolkit.pins if deps.toolkit else (),
        torch=surface.release,
        surface=surface.name,
    )


def build_invocation(
    job: ExtensionJob, deps: DepsManifest, archs: Mapping[str, tuple[str, ...]], start_time: str
) -> build_inputs.Invocation:
    """Return the requested settings and their resolved values. `archs` has the archs by library."""
    folders = {
        job.location if job.kind == "path" else "": "{source}",
        str(job.layout.wheelhouse): "{wheelhouse}",
        str(job.layout.build): "{build}",
        str(job.layout.root): "{checkout}",
        str(Path.home()): "~",
    }
    path = job.layout.compute_manifest_path("extension-env")
    environment = manifests.read_manifest(path, Environment)
    decisions = {
        "archs": [str(arch) for arch in job.targets],
        "held": archs,
        "label": job.label,
        "requires": job.requires,
        "environment": extension_environment_io.merge_environment(job, environment.set),
    }
    settings, resolved = (
        build_inputs.redact_json(convert_to_json(values), folders)
        for values in (job.settings_entry, decisions)
    )
    installed = wheel_requirements_io.list_installed_packages(deps.python)
    times = (start_time, format_current_time())
    return build_inputs.Invocation("extension", settings, resolved, installed, *times)


def run(job: ExtensionJob) -> tuple[BuiltExtension]:
    """Fetch, build, check and install the extension. A failed check prevents the install."""
    if job.optional and (reason := _find_unreachable_reason(job)):
        return (_report_unreachable(job, reason),)
    deps = manifests.read_manifest(job.layout.compute_manifest_path("deps"), DepsManifest)
    surface = manifests.read_manifest(job.layout.compute_manifest_path("surface"), AbiFingerprint)
    start_time = format_current_time()
    files.require_minimum_space(job.work, f"building {job.name}")
    try:
        show_progress("fetching the wheel" if job.kind == "wheel" else "fetching the source")
        fetched_path, source = extension_sources_io.fetch_source(job, deps)
        edits = "" if job.kind == "wheel" else extension_sources_io.format_edits_suffix(job, source)
        job = _apply_known_settings(job)
        extension_environment_io.prepare_build(job, deps)
    except FetchError as error:
        if not job.optional or job.kind != "sdist":
            raise
        return (_report_unreachable(job, error.message),)
    wheel = fetched_path if job.kind == "wheel" else build_extension(job, deps, fetched_path)
    recorded = wheel_archive_io.verify_wheel(wheel, deps.python_version)
    unpacked = Path(job.work, "landing", "unpacked")  # `verify_wheel` has checked the paths
    files.remove_owned(unpacked)
    files.create_owned_folder(unpacked)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    library_archs = extension_code_io.read_library_archs(job, deps, unpacked, recorded)
    needed = extension_code_io.needs_device_code(job, unpacked, recorded)
    if needed and not library_archs:
        raise extension_code_io.build_missing_code_error(job)
    inputs = None
    if job.kind != "wheel":
        label = format_local_label(job, surface, has_code=bool(library_archs))
        wheel = relabel_wheel(wheel, label + edits)
        inputs = describe_build_inputs(job, deps, wheel, source, surface)
        add_dist_info_files(wheel, {SBOM_PATH: build_sbom(inputs).encode()})
        recorded = wheel_archive_io.verify_wheel(wheel, deps.python_version)
    artifact = extension_environment_io.install_extension(job, deps, wheel, unpacked)
    if inputs:
        invocation = build_invocation(job, deps, library_archs, start_time)
        statement = build_statement(inputs, artifact, invocation)
        statement_path = wheelhouse_io.resolve_statement_path(job.layout.wheelhouse / artifact.name)
        files.write_atomic(statement_path, format_canonical_json(statement))
    for name, kinds in library_archs.items():
        print_line(f"{Path(name).name} contains code for {', '.join(kinds)}")
    files.remove_owned(unpacked.parent)
    site = environments.find_site_packages(deps.python)
    built = BuiltExtension(
        name=job.name,
        status="built",
        source=source,
        artifact=artifact,
        libraries=tuple(str(site / name) for name in wheel_archive_io.list_libraries(recorded)),
        imports=job.imports,
        archs=library_archs,
        surface=surface.name,
        needs_code=needed,
    )
    return (built,)


def format_local_label(job: ExtensionJob, surface: AbiFingerprint, *, has_code: bool) -> str:
    """Return the local version of the wheel: `torch2.15.0.s1a2b3c4d.cu132.sm120`.

    The label omits torch's commit: a new commit with the same ABI fingerprint keeps the label.
    """
    label = job.label if has_code else job.label.partition(".")[0]
    return f"torch{surface.release}.s{surface.name}.{label}"


def _apply_known_settings(job: ExtensionJob) -> ExtensionJob:
    if job.kind == "wheel":
        return job
    project = extension_code_io.locate_project(job)
    knowledge = load_knowledge(Path(job.knowledge))
    completed = apply_known_facts(job, project.name, project.variables, knowledge)
    if completed.known != job.known:
        print_line(f"recognized as {completed.known}; using its known build settings")
    for name in sorted(completed.env.keys() - job.env.keys()):
        print_line(f"setting {name}={completed.env[name]} for the build")
    return completed


def _find_unreachable_reason(job: ExtensionJob) -> str:
    """Return why a source of kind git or path is unreachable. The result is "" for other kinds."""
    if job.kind not in {"git", "path"}:
        return ""
    url = apply_mirror(job.location, job.mirrors)
    if network_access.is_offline() and not is_local_url(url):
        return f"{job.location} is not in the bundle"
    return "" if clones.is_reachable(url) else f"{job.location} does not answer"


def _report_unreachable(job: ExtensionJob, why: str) -> BuiltExtension:
    print_warning(f"{job.name} was not built: {why}")
    print_line("this extension is optional: the build continues; the next build tries it again")
    return BuiltExtension(job.name, "unreachable", {job.kind: redact_secrets(job.location)})
