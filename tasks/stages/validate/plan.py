"""Settings and choice → validation. Pure."""

from __future__ import annotations

from typing import get_args

from tasks.choice import Choice
from tasks.model import Layout, Stage
from tasks.settings.schema import Settings
from tasks.settings.values import Check
from tasks.stages.validate.job import SmokeCheck, ValidateJob

RECIPE = 1
CHECKS: tuple[str, ...] = get_args(Check)


def plan(settings: Settings, layout: Layout, choice: Choice) -> Stage:
    """The stage that looks at everything the others left. It runs each time it is asked for."""
    asked = settings.validation.checks
    extensions = settings.extensions
    job = ValidateJob(
        system=choice.system,
        checks=CHECKS if asked == "all" else tuple(name for name in CHECKS if name in asked),
        timeout=settings.validation.timeout,
        targets=choice.targets,
        deps=layout.manifest("deps"),
        wheel=layout.manifest("wheel"),
        environment=layout.manifest("extension-env"),
        extensions={item.name: layout.manifest(f"extensions:{item.name}") for item in extensions},
        smokes={
            item.name: SmokeCheck(layout.root / item.smoke.script, item.smoke.gpu)
            for item in extensions
            if item.smoke
        },
        knowledge=layout.config / "knowledge",
        templates=layout.templates / "libtorch",
        work=layout.build / "validate",
        manifest=layout.manifest("validate"),
        log=layout.logs / "validate.log",
    )
    return Stage(
        name="validate",
        room="validate",
        doc="check the built torch and its extensions; GPU checks where there is a card",
        job=job,
        inputs={
            "recipe": RECIPE,
            "checks": list(job.checks),
            "targets": [str(arch) for arch in job.targets],
        },
        leaves=(job.manifest,),
        reads=(job.deps, job.wheel, job.environment, *job.extensions.values()),
        asks="always",
    )
