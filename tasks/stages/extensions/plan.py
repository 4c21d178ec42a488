"""Extensions and companions of the settings, the choice and the facts → their stages. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from tasks.core.digest import plain
from tasks.core.errors import KnowledgeError, SettingsError
from tasks.core.model import Layout, Stage
from tasks.core.resolution import Choice, Combination
from tasks.knowledge import Knowledge
from tasks.knowledge.extensionfacts import BuildFailure, ExtensionFact
from tasks.knowledge.extensions import failure, nvcc_options, variables
from tasks.settings import workers
from tasks.settings.extension import Extension
from tasks.settings.schema import Settings
from tasks.stages.companions import companions
from tasks.stages.extensions.companion import fetched, source_of
from tasks.stages.extensions.job import ExtensionJob
from tasks.stages.extensions.known import fact_of, own_source
from tasks.stages.extensions.order import in_order

RECIPE = 2
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
# What most have none of: an input only where it is there, so that the others' stay what they were
_SHOWN_IF_ANY = ("index", "patches", "requires", "nvcc")


def plan_all(
    settings: Settings, layout: Layout, choice: Choice, knowledge: Knowledge
) -> tuple[Stage, ...]:
    """The stages of what the completed settings list, each after those that it needs. Raises
    `SettingsError` for what cannot be meant, or is known not to build.
    """
    stages = dict(_companions(settings, layout, choice, knowledge))
    after: dict[str, Sequence[str]] = dict.fromkeys(settings.companions, ())
    for item in settings.extensions:
        stages[item.name] = plan(item, settings, layout, choice, knowledge)
        after[item.name] = item.after
    before = in_order(after)
    return tuple(_after(stages[name], before[name], stages) for name in before if name in stages)


def plan(
    extension: Extension, settings: Settings, layout: Layout, choice: Choice, knowledge: Knowledge
) -> Stage:
    """The stage of one extension, for targets, and with arch lists of its own, that this torch can
    build for (`tasks.planning.grammar`).
    """
    fact = fact_of(extension, knowledge)
    if fact and (bad := known_failure(extension, fact, choice)) and _is_verified(bad):
        raise SettingsError(
            f"{extension.name} does not build with torch {choice.torch}: {bad.what}",
            where=f"extensions ({extension.name})",
            todo=bad.fix,
        )
    return _stage(_job(extension, settings, layout, choice, fact), layout)


def warnings(settings: Settings, choice: Choice, knowledge: Knowledge) -> Iterator[str]:
    """What is said of extensions whose build may fail, as far as anybody knows."""
    for extension in settings.extensions:
        fact = fact_of(extension, knowledge)
        bad = known_failure(extension, fact, choice) if fact else None
        if bad and not _is_verified(bad):
            yield f"{extension.name} may not build with torch {choice.torch}: {bad.what}. {bad.fix}"


def known_failure(extension: Extension, fact: ExtensionFact, choice: Choice) -> BuildFailure | None:
    """That of the entry's own source, as it is: another one, or a patch, may be mended."""
    if extension.patches or not own_source(extension, fact):
        return None
    return failure(fact, _met(choice))


def _is_verified(bad: BuildFailure) -> bool:
    return not bad.status.startswith("unverified")


def _companions(
    settings: Settings, layout: Layout, choice: Choice, knowledge: Knowledge
) -> Iterator[tuple[str, Stage]]:
    """Without those that came with torch."""
    for one in companions(settings, choice, knowledge):
        fact = knowledge.companions[one.name]
        if one.way == "wheel":
            job = fetched(one, fact, _bare(Extension(name=one.name), settings, layout, choice))
            yield one.name, _stage(job, layout)
        elif one.way == "git" and fact.source:
            built = _job(source_of(one, fact.source), settings, layout, choice, fact.source)
            yield one.name, _stage(replace(built, why=one.why), layout)


def _stage(job: ExtensionJob, layout: Layout) -> Stage:
    fetches = job.kind == "wheel"
    verb = "fetch {} for" if fetches else "build {} against"
    reads = ("deps", "surface") if fetches else ("deps", "extension-env", "surface")
    more = {name: plain(getattr(job, name)) for name in _SHOWN_IF_ANY if getattr(job, name)}
    more |= {"cuda": job.cuda} if job.cuda != "auto" else {}
    return Stage(
        name=f"extensions:{job.name}",
        room="extensions",
        doc=f"{verb.format(job.name)} this torch, check its machine code, install it",
        job=job,
        inputs={
            "recipe": RECIPE,
            "targets": [str(arch) for arch in job.targets],
            **{name: plain(getattr(job, name)) for name in _SHOWN},
            **more,
        },
        leaves=(job.manifest,),
        reads=(
            *(layout.manifest(name) for name in reads),
            *((job.pinned,) if job.pinned else ()),
            *job.patches,
        ),
        asks="moved",
        tells=(job.surface,),
    )


def _after(stage: Stage, before: Sequence[str], stages: Mapping[str, Stage]) -> Stage:
    """It reads what those before it left; what came with torch leaves nothing."""
    manifests = tuple(stages[name].leaves[0] for name in before if name in stages)
    job = replace(stage.job, after=manifests)
    return replace(stage, job=job, reads=(*stage.reads, *manifests))


def _job(
    extension: Extension,
    settings: Settings,
    layout: Layout,
    choice: Choice,
    fact: ExtensionFact | None,
) -> ExtensionJob:
    job = replace(_bare(extension, settings, layout, choice), met=_met(choice))
    # Even with a GPU: adding or removing one must not rebuild everything
    cuda = {"FORCE_CUDA": "1"} if job.targets and job.cuda != "none" else {}
    if fact is None:
        return replace(job, env={**cuda, **extension.env})
    try:
        env = variables(fact.settings, fact.archs, _met(choice))
    except KnowledgeError as error:
        where = f"extensions ({extension.name})"
        raise SettingsError(error.what, where=where, todo=error.todo) from error
    return replace(
        job,
        known=fact.name,
        env={**cuda, **env, **extension.env},
        nvcc=nvcc_options(fact.settings, _met(choice)),
        own_jobs=fact.own_jobs,
        compiler_mib=fact.compiler_mib,
    )


def _bare(extension: Extension, settings: Settings, layout: Layout, choice: Choice) -> ExtensionJob:
    """As the settings have it, whatever is known."""
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
        includes=extension.includes,
        cuda=extension.cuda,
        optional=extension.optional,
        system=choice.system,
        targets=choice.targets,
        label=choice.label,
        jobs=None if settings.build.jobs == "auto" else settings.build.jobs,
        jobs_exact=settings.build.jobs_exact,
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
        patches=tuple(layout.root / patch for patch in extension.patches),
        requires=extension.requires,
        asked=extension.model_dump(mode="json", exclude_defaults=True),
        cache_remote=settings.build.cache_remote or "",
        workers=workers.asked(settings.build.distribute, settings.build.hosts, layout.build),
    )


def _source(extension: Extension, layout: Layout) -> tuple[Literal["git", "path", "sdist"], str]:
    if extension.git:
        return "git", extension.git
    if extension.path:
        return "path", str(layout.root / extension.path)
    return "sdist", extension.sdist or ""


def _met(choice: Choice) -> Combination:
    """What the build meets, as facts about extensions ask for it: CUDA only where that compiles."""
    cuda = choice.toolkit.version or choice.cuda
    return Combination(
        system=choice.system,
        cuda=cuda if choice.targets else None,
        torch=choice.torch,
        archs=choice.targets,
        strategy=choice.strategy,
        python=choice.python.version,
        extensions=True,
    )
