"""What an extension's wheel is made from, and how."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from packaging.utils import parse_wheel_filename

from tasks.core.deps_model import Deps
from tasks.core.digest import plain
from tasks.stages.env.job import Environment
from tasks.stages.extensions import sources
from tasks.stages.extensions.job import ExtensionJob
from tasks.stages.extensions.variables import own_over
from tasks.stages.wheel.job import Surface
from tasks.system import manifests
from tasks.system.clock import now
from tasks.wheels.files import requirements
from tasks.wheels.provenance.made import EARLIEST, Invocation, Made, tool
from tasks.wheels.provenance.shown import shown


def made_of(
    job: ExtensionJob, deps: Deps, wheel: Path, source: Mapping[str, str], surface: Surface
) -> Made:
    """`source` is what `sources.fetch` told."""
    name, version, _, _ = parse_wheel_filename(wheel.name)
    asked = job.env.get("SOURCE_DATE_EPOCH", "")
    return Made(
        name=name,
        version=str(version),
        tree=sources.tree_of(job, source),
        epoch=int(asked) if asked.isdecimal() else max(sources.date(job), EARLIEST),
        compilers=tuple(tool(one.path, one.version, one.digest) for one in deps.compilers),
        cuda=deps.toolkit.version if deps.toolkit else "",
        packages=deps.toolkit.pins if deps.toolkit else (),
        torch=surface.release,
        surface=surface.name,
    )


def invocation(
    job: ExtensionJob, deps: Deps, held: Mapping[str, tuple[str, ...]], began: str
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
        "environment": own_over(job, manifests.read(job.environment, Environment).set),
    }
    installed = requirements.installed(deps.python)
    asked = shown(plain(job.asked), folders)
    return Invocation("extension", asked, shown(plain(decided), folders), installed, began, now())
