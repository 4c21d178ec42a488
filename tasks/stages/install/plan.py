"""Plan the `install` stage from the settings and the resolution."""

from collections.abc import Mapping, Sequence

from tasks.core.errors import SettingsError
from tasks.core.model import Json, Layout, Stage
from tasks.core.resolution import Resolution
from tasks.settings.schema import Settings
from tasks.stages.install.model import InstallJob

RECIPE = 1


def plan(
    settings: Settings,
    layout: Layout,
    choice: Resolution,
    before: Sequence[Stage],
    sizes: Mapping[str, int],
) -> Stage:
    """Return the `install` stage for the environment in the setting install.into.

    `before` are the earlier stages. Raises `SettingsError` if they make no wheel of torch.
    """
    into = settings.install.into or ""
    if choice.strategy == "existing":
        kept = f"torch.strategy: existing uses the torch of {choice.python.path}"
        message = f"{kept}, so there is no wheel to install into another environment"
        hint = "set install.into: null (extensions are installed into that interpreter anyway), "
        hint += "or torch.strategy: prebuilt"
        raise SettingsError(message, location="install.into", hint=hint)
    if choice.strategy == "source" and settings.build.backend == "cmake":
        message = "backend cmake builds no torch for Python, so there is nothing to install"
        hint = "set install.into: null, or choose another build.backend"
        raise SettingsError(message, location="install.into", hint=hint)
    job = InstallJob(
        into=into,
        profile=layout.profile,
        root=layout.root,
        index=choice.index,
        builds=layout.build.parent,
        replaced=layout.build / "replaced",
        wheelhouse=layout.wheelhouse,
        sizes=sizes,
        deps=layout.compute_manifest_path("deps"),
        environment=layout.compute_manifest_path("extension-env"),
        wheel=layout.compute_manifest_path("wheel"),
        extensions={one.job.name: one.outputs[0] for one in before if one.kind == "extensions"},
        manifest=layout.compute_manifest_path("install"),
        log=layout.logs / "install.log",
        partial=settings.install.partial,
    )
    fingerprint: dict[str, Json] = {"recipe": RECIPE, "into": into, "index": choice.index}
    if job.partial:
        fingerprint["partial"] = True
    return Stage(
        name="install",
        kind="install",
        doc="install torch and the extensions into your own environment; undo: doit restore",
        job=job,
        fingerprint=fingerprint,
        outputs=(job.manifest,),
        inputs=(job.deps, job.environment, job.wheel, *job.extensions.values()),
        uptodate_check="stale",
        optional_inputs=tuple(job.extensions.values()) if job.partial else (),
    )
