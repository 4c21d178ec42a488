"""One extension's settings, the choice and the facts → its stage. Pure."""

from __future__ import annotations

from typing import Literal

from tasks.choice import Choice
from tasks.digest import plain
from tasks.errors import SettingsError
from tasks.knowledge import Knowledge
from tasks.model import Layout, Stage
from tasks.settings.schema import Extension, Settings
from tasks.stages.extensions.job import ExtensionJob

RECIPE = 1
_SHOWN = (
    "kind",
    "location",
    "ref",
    "submodules",
    "sha256",
    "subdirectory",
    "imports",
    "env",
    "includes",
    "label",
)


def plan(
    extension: Extension, settings: Settings, layout: Layout, choice: Choice, knowledge: Knowledge
) -> Stage:
    """The stage of one extension, for targets, and with arch lists of its own, that this torch can
    build for (`decide_grammar`). Raises `SettingsError` for a name that cannot be meant.
    """
    _require_own_name(knowledge, extension)
    job = _job(extension, settings, layout, choice, knowledge)
    reads = ("deps", "extension-env", "surface")
    return Stage(
        name=f"extensions:{extension.name}",
        room="extensions",
        doc=f"build {extension.name} against this torch, check its machine code, install it",
        job=job,
        inputs={
            "recipe": RECIPE,
            "targets": [str(arch) for arch in job.targets],
            **{name: plain(getattr(job, name)) for name in _SHOWN},
        },
        leaves=(job.manifest,),
        reads=tuple(layout.manifest(name) for name in reads),
        asks="moved",
        tells=(job.surface,),
    )


def _job(
    extension: Extension, settings: Settings, layout: Layout, choice: Choice, knowledge: Knowledge
) -> ExtensionJob:
    kind, location = _source(extension, layout)
    return ExtensionJob(
        name=extension.name,
        kind=kind,
        location=location,
        ref=extension.ref,
        submodules=extension.submodules,
        sha256=extension.sha256,
        subdirectory=extension.subdirectory or "",
        mirrors=settings.source.mirrors,
        imports=extension.imports,
        env=extension.env,
        includes=_includes(extension, knowledge),
        optional=extension.optional,
        system=choice.system,
        targets=choice.targets,
        label=_label(choice),
        jobs=None if settings.build.jobs == "auto" else settings.build.jobs,
        knowledge=layout.config / "knowledge",
        pool=layout.pool,
        runs=layout.build / "records" / "extensions" / f"{extension.name}.jsonl",
        work=layout.build / "extensions" / extension.name,
        wheelhouse=layout.wheelhouse,
        deps=layout.manifest("deps"),
        environment=layout.manifest("extension-env"),
        caching=layout.manifest("cache-env"),
        surface=layout.manifest("surface"),
        surfaces=layout.surfaces,
        manifest=layout.manifest(f"extensions:{extension.name}"),
        log=layout.logs / f"extension-{extension.name}.log",
    )


def _source(extension: Extension, layout: Layout) -> tuple[Literal["git", "path", "sdist"], str]:
    if extension.git:
        return "git", extension.git
    if extension.path:
        return "path", str(layout.root / extension.path)
    return "sdist", extension.sdist or ""


def _includes(extension: Extension, knowledge: Knowledge) -> tuple[str, ...]:
    """What the settings ask for, and what is known to be missing in this extension's code."""
    known = knowledge.extensions.get(extension.name)
    return tuple(dict.fromkeys([*extension.includes, *(known.headers if known else ())]))


def _label(choice: Choice) -> str:
    """CUDA and archs as they stand in a local version: `cu132.sm90.sm120`, or `cpu`."""
    if not choice.cuda:
        return "cpu"
    archs = (arch.sm.replace("_", "") for arch in choice.targets)
    return ".".join([f"cu{choice.cuda.replace('.', '')}", *archs])


def _require_own_name(knowledge: Knowledge, extension: Extension) -> None:
    known = knowledge.extensions.get(
        (extension.sdist or "").partition("==")[0].lower().replace("_", "-")
    )
    if known and known.warnings:
        raise SettingsError(
            known.warnings[0],
            where=f"extensions ({extension.name}).sdist",
            todo=f"write git: {known.git}",
        )
