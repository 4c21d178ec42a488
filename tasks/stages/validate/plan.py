"""Plan the `validate` stage."""

from collections.abc import Sequence
from typing import get_args

from tasks.core.model import Layout, Stage
from tasks.core.resolution import Resolution
from tasks.settings.schema import Settings
from tasks.settings.values import ValidationCheckName
from tasks.stages.validate.model import SmokeCheck, ValidateJob

RECIPE = 2
CHECKS: tuple[str, ...] = get_args(ValidationCheckName)


def plan(settings: Settings, layout: Layout, choice: Resolution, stages: Sequence[Stage]) -> Stage:
    """Return the stage that checks the outputs of the build `stages`."""
    requested = settings.validation.only
    built = [stage.job.name for stage in stages if stage.kind == "extensions"]  # and companions
    names = dict.fromkeys([*built, *(item.name for item in settings.extensions)])
    job = ValidateJob(
        layout=layout,
        system=choice.system,
        checks=tuple(name for name in CHECKS if requested == "all" or name in requested),
        timeout=settings.validation.timeout,
        targets=choice.targets,
        extensions={name: layout.compute_manifest_path(f"extensions:{name}") for name in names},
        smokes={
            item.name: SmokeCheck(layout.project.resolve_path(item.smoke.script), item.smoke.gpu)
            for item in settings.extensions
            if item.smoke
        },
        stages=tuple(stages),
        manifest=layout.compute_manifest_path("validate"),
        junit=layout.build / "validate.xml",
        log=layout.logs / "validate.log",
    )
    return Stage(
        name="validate",
        kind="validate",
        doc="check torch and its extensions; run the GPU checks if there is a GPU",
        job=job,
        fingerprint={
            "recipe": RECIPE,
            "checks": list(job.checks),
            "targets": [str(arch) for arch in job.targets],
        },
        outputs=(job.manifest,),
        extra_outputs=(job.junit,),
        uptodate_check="always",
    )
