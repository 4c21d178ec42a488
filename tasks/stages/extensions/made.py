"""What an extension's wheel is made from, and how."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from packaging.utils import parse_wheel_filename

from tasks.core.deps_model import DepsManifest
from tasks.core.digest import convert_to_json
from tasks.stages.env.job import Environment
from tasks.stages.extensions import sources
from tasks.stages.extensions.job import ExtensionJob
from tasks.stages.extensions.variables import merge_environment
from tasks.stages.wheel.job import AbiFingerprint
from tasks.system import manifests
from tasks.system.clock import format_current_time
from tasks.wheels.files import requirements
from tasks.wheels.provenance.made import EARLIEST_TIMESTAMP, BuildInputs, Invocation, describe_tool
from tasks.wheels.provenance.shown import redact_json


def describe_build_inputs(
    job: ExtensionJob,
    deps: DepsManifest,
    wheel: Path,
    source: Mapping[str, str],
    surface: AbiFingerprint,
) -> BuildInputs:
    """`source` is what `sources.fetch` told."""
    name, version, _, _ = parse_wheel_filename(wheel.name)
    asked = job.env.get("SOURCE_DATE_EPOCH", "")
    return BuildInputs(
        name=name,
        version=str(version),
        tree=sources.describe_source(job, source),
        epoch=int(asked)
        if asked.isdecimal()
        else max(sources.read_commit_date(job), EARLIEST_TIMESTAMP),
        compilers=tuple(describe_tool(one.path, one.version, one.digest) for one in deps.compilers),
        cuda=deps.toolkit.version if deps.toolkit else "",
        packages=deps.toolkit.pins if deps.toolkit else (),
        torch=surface.release,
        surface=surface.name,
    )


def build_invocation(
    job: ExtensionJob, deps: DepsManifest, held: Mapping[str, tuple[str, ...]], began: str
) -> Invocation:
    """What was asked, and what it came to; `held` are the archs of each library."""
    checkout = job.knowledge.parent.parent
    folders = {
        job.location if job.kind == "path" else "": "{source}",
        str(job.wheelhouse): "{wheelhouse}",
        str(job.deps.parent): "{build}",
        str(checkout): "{checkout}",
        str(Path.home()): "~",
    }
    decided = {
        "archs": [str(arch) for arch in job.targets],
        "held": held,
        "label": job.label,
        "requires": job.requires,
        "environment": merge_environment(
            job, manifests.read_manifest(job.environment, Environment).set
        ),
    }
    installed = requirements.list_installed_packages(deps.python)
    asked = redact_json(convert_to_json(job.settings_entry), folders)
    return Invocation(
        "extension",
        asked,
        redact_json(convert_to_json(decided), folders),
        installed,
        began,
        format_current_time(),
    )
