"""Fetch, build against the torch that was just installed, look at what came out, then install. A
companion's wheel is not built, and all the rest is the same.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

from tasks.core.deps_model import Deps
from tasks.core.digest import canonical
from tasks.core.errors import FetchError, redact
from tasks.knowledge import load
from tasks.stages.extensions import sources
from tasks.stages.extensions.build import build
from tasks.stages.extensions.job import Built, ExtensionJob
from tasks.stages.extensions.known import recognized
from tasks.stages.extensions.made import invocation, made_of
from tasks.stages.extensions.project import project_of
from tasks.stages.extensions.proof import archs, missing_code_error, needs_code
from tasks.stages.extensions.putting import prepare, put
from tasks.stages.wheel.job import Surface
from tasks.system import files, git, manifests, space
from tasks.system.clock import now
from tasks.system.git.command import is_local
from tasks.system.network import offline
from tasks.system.network.mirrors import mirrored
from tasks.system.python import environments
from tasks.system.voice import say, tick, warn
from tasks.wheels.files import wheelfile, wheelhouse
from tasks.wheels.files.enclose import enclose
from tasks.wheels.files.relabel import relabel
from tasks.wheels.provenance.sbom import PLACE, sbom
from tasks.wheels.provenance.statement import statement


def run(job: ExtensionJob) -> tuple[Built]:
    """Raises the compiler's first error, or `BadArtifactError` if a target has no code, all
    device code is missing, or the modules do not import; the one that was installed before is there
    still.
    """
    if job.optional and (away := _away(job)):
        return (_unreachable(job, away),)
    deps = manifests.read(job.deps, Deps)
    surface = manifests.read(job.surface, Surface)
    began = now()
    space.require_some(job.work, f"building {job.name}")
    try:
        tick("fetching it" if job.kind == "wheel" else "fetching its source")
        fetched, source = sources.fetch(job, deps)
        edits = "" if job.kind == "wheel" else sources.edits_suffix(job, source)
        job = _with_knowledge(job)
        prepare(job, deps)
    except FetchError as error:
        if not job.optional or job.kind != "sdist":
            raise
        return (_unreachable(job, error.what),)
    wheel = fetched if job.kind == "wheel" else build(job, deps, fetched)
    recorded = wheelfile.verify(wheel, deps.python_version)
    unpacked = _unpack(job, wheel)
    held = archs(job, deps, unpacked, recorded)
    needed = needs_code(job, unpacked, recorded)
    if needed and not held:
        raise missing_code_error(job)
    made = None
    if job.kind != "wheel":
        wheel = relabel(wheel, label_of(job, surface, has_code=bool(held)) + edits)
        made = made_of(job, deps, wheel, source, surface)
        enclose(wheel, {PLACE: sbom(made).encode()})
        recorded = wheelfile.verify(wheel, deps.python_version)
    artifact = put(job, deps, wheel, unpacked)
    if made:
        told = statement(made, artifact, invocation(job, deps, held, began))
        files.write_atomic(wheelhouse.statement_of(job.wheelhouse / artifact.name), canonical(told))
    for name, kinds in held.items():
        say(f"{Path(name).name} holds {', '.join(kinds)}")
    files.remove_owned(unpacked.parent)
    installed = _installed(deps, recorded)
    return (
        Built(
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


def label_of(job: ExtensionJob, surface: Surface, *, has_code: bool) -> str:
    """Return the local version of the wheel: `torch2.15.0.s1a2b3c4d.cu132.sm120`, without archs if
    it has no device code. It leaves out torch's commit: one that keeps the surface renames nothing.
    """
    label = job.label if has_code else job.label.partition(".")[0]
    return f"torch{surface.release}.s{surface.name}.{label}"


def _with_knowledge(job: ExtensionJob) -> ExtensionJob:
    """Return the job with the known build settings of its fetched source; report them."""
    if job.kind == "wheel":
        return job
    project = project_of(job)
    found = recognized(job, project.name, project.variables, load(Path(job.knowledge)))
    if found.known != job.known:
        say(f"recognized as {found.known}: its known build settings are used")
    for name in sorted(found.env.keys() - job.env.keys()):
        say(f"setting {name}={found.env[name]} for the build")
    return found


def _away(job: ExtensionJob) -> str:
    """Why its source is not to be had, "" where it is. An index is asked by fetching from it, and
    offline no host is asked.
    """
    place = mirrored(job.location, job.mirrors)
    if job.kind not in {"git", "path"}:
        return ""
    if offline.is_offline() and not is_local(place):
        return f"{job.location} is not in the bundle"
    return "" if git.reachable(place) else f"nothing answers at {job.location}"


def _unreachable(job: ExtensionJob, why: str) -> Built:
    """Said aloud each time, and tried again next time."""
    warn(f"{job.name} was NOT built: {why}")
    say("it is optional, so the build goes on; the next doit build tries it again")
    return Built(job.name, "unreachable", {job.kind: redact(job.location)})


def _unpack(job: ExtensionJob, wheel: Path) -> Path:
    """Its files, to look at and to try; `verify` saw that none of them leads outside."""
    folder = Path(job.work) / "landing" / "unpacked"
    files.remove_owned(folder)
    files.own(folder)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def _installed(deps: Deps, recorded: Mapping[str, str]) -> tuple[str, ...]:
    site = environments.site_packages(deps.python)
    return tuple(str(site / name) for name in wheelfile.libraries(recorded))
