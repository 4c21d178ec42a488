"""Make the plan of a profile from settings, host and knowledge.

The stages of each strategy:

prebuilt   deps ─► env ─► wheel ─► extensions ─► validate
source     deps ─► source ─► env ─► compile ─► wheel ─► extensions ─► validate
existing   deps ─► env ─► wheel ─► extensions ─► validate

With "existing", the wheel stage only records the installed torch. If install.into is set, the
`install` stage comes after the extensions.
"""

from msgspec import structs

from tasks.core.errors import SettingsError
from tasks.core.model import STAGE_VERBS, Host, Layout, Plan, Stage
from tasks.core.project import Project
from tasks.core.resolution import Resolution
from tasks.knowledge import Knowledge
from tasks.knowledge.mirrors import collect_mirror_replacements
from tasks.planning.resolve import is_partial_build, resolve_settings
from tasks.settings.schema import Settings
from tasks.stages.compile.plan import plan as plan_compile
from tasks.stages.deps.plan import plan as plan_deps
from tasks.stages.env.plan import plan as plan_env
from tasks.stages.extensions.known_extensions import complete_extensions
from tasks.stages.extensions.plan import list_build_warnings as extension_warnings
from tasks.stages.extensions.plan import plan_extensions
from tasks.stages.install.plan import plan as plan_install
from tasks.stages.source.plan import plan as plan_source
from tasks.stages.validate.plan import plan as plan_validate
from tasks.stages.wheel.plan import plan as plan_wheel

_LOCAL_TORCH_ORIGINS = {"source": "built here", "existing": "the one of the Python in python"}
STAGE_KINDS = tuple(STAGE_VERBS)


def make_plan(
    settings: Settings, host: Host, knowledge: Knowledge, layout: Layout
) -> tuple[Resolution, Plan]:
    """Return the resolution and the plan. Raises `SettingsError` if the settings allow no plan."""
    settings = add_mirrors(complete_extensions(settings, knowledge), knowledge)
    resolution = resolve_settings(settings, host, knowledge)
    _require_consistent_torch(settings, resolution)
    is_source = resolution.strategy == "source"
    stages = [plan_deps(settings, layout, resolution, knowledge)]
    stages += [plan_source(settings, layout, resolution)] if is_source else []
    stages.append(plan_env(settings, layout, resolution, knowledge))
    stages += [plan_compile(settings, layout, resolution)] if is_source else []
    if not is_partial_build(settings, resolution.strategy):
        stages.append(plan_wheel(settings, layout, resolution, knowledge))
        stages += plan_extensions(settings, layout, resolution, knowledge)
        if settings.install.into:
            sizes = knowledge.package_sizes
            stages.append(plan_install(settings, layout, resolution, stages, sizes))
    plan = Plan(
        stages=tuple(stages),
        validate=plan_validate(settings, layout, resolution, tuple(stages)),
        headline=tuple(_build_headline(settings, layout, resolution, stages)),
        absent=_explain_absent_stages(settings, resolution, stages),
        warnings=tuple(extension_warnings(settings, resolution, knowledge)),
    )
    return resolution, plan


def add_mirrors(settings: Settings, knowledge: Knowledge) -> Settings:
    """Add the presets named in `mirrors` to source.mirrors, except URLs that are already there."""
    presets = collect_mirror_replacements(settings.mirrors, knowledge)
    mirrors = {**presets, **settings.source.mirrors}
    source = structs.replace(settings.source, mirrors=mirrors)
    return structs.replace(settings, source=source)


def build_layout(project: Project, profile: str, settings: Settings) -> Layout:
    """Return the paths of a profile."""
    wheelhouse = settings.wheel.wheelhouse
    is_default = wheelhouse == "auto"
    folder = project.outputs / "wheelhouse" if is_default else project.root / wheelhouse
    return Layout(project, profile, folder)


def _require_consistent_torch(settings: Settings, choice: Resolution) -> None:
    """Raise `SettingsError` for a setting that does not fit the strategy or the build backend."""
    is_library = choice.strategy == "source" and settings.build.backend == "cmake"
    names = [(item.name, "extensions") for item in settings.extensions]
    names += [(name, "companions") for name in settings.companions]
    if is_library and names:
        name, key = names[0]
        message = f"backend cmake builds no torch for Python, which {name} needs"
        hint = f"remove the {key}, or choose another build.backend"
        raise SettingsError(message, location=key, hint=hint)
    if settings.torch.local and choice.strategy != "prebuilt":
        message = "torch.local selects a wheel of a package index, but this torch is "
        message += _LOCAL_TORCH_ORIGINS[choice.strategy]
        hint = "remove torch.local, or set torch.strategy: prebuilt; to name the version of a "
        hint += "built torch, set wheel.local_version"
        raise SettingsError(message, location="torch.local", hint=hint)


def _explain_absent_stages(
    settings: Settings, choice: Resolution, stages: list[Stage]
) -> dict[str, str]:
    absent = {}
    if choice.strategy != "source":
        absent = dict.fromkeys(("source", "compile"), f"strategy {choice.strategy} builds no torch")
    elif target := settings.build.target:
        reason = f"build.target {target} builds a part of PyTorch, which has no wheel"
        absent = dict.fromkeys(("wheel", "extensions", "install", "validate"), reason)
    if not any(stage.kind == "extensions" for stage in stages):
        companions = " and ".join(settings.companions)
        note = f", and {companions} came with torch" if companions else ""
        absent.setdefault("extensions", f"this profile lists no extensions{note}")
    if not settings.install.into:
        absent.setdefault("install", "install.into is not set")
    return absent


def _build_headline(
    settings: Settings, layout: Layout, choice: Resolution, stages: list[Stage]
) -> list[tuple[str, str]]:
    archs = ", ".join(f"{arch} ({arch.sm})" for arch in choice.targets) or "CPU"
    cuda = f"CUDA {choice.cuda}" if choice.cuda else "CPU"
    lines = [
        ("profile", layout.profile),
        ("strategy", f"{choice.strategy}: {choice.strategy_why}"),
        ("target", f"{archs}: {choice.targets_why}"),
        ("torch", f"{choice.torch} ({cuda})"),
    ]
    lines += [("facts", "; ".join(choice.facts))] if choice.facts else []
    jobs = {stage.kind: stage.job for stage in stages}
    if source := jobs.get("source"):
        ref = f" at {source.ref}" if source.kind == "git" else ""
        count = len(source.patches)
        patches = f", with {count} patch{'es' * (count > 1)}" if count else ""
        lines.append(("source", f"{source.location}{ref}{patches}"))
    lines += [
        ("toolkit", choice.toolkit.reason),
        ("into", f"{layout.build}, wheels in {layout.wheelhouse}"),
    ]
    return [*lines, ("install into", str(settings.install.into))] if "install" in jobs else lines
