"""Plan the stages of extensions and companions from settings, resolution and facts."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import Literal

from tasks.core.canonical_json import convert_to_json
from tasks.core.errors import KnowledgeError, SettingsError
from tasks.core.model import Layout, Stage
from tasks.core.resolution import Combination, Resolution
from tasks.core.text_formatting import format_did_you_mean
from tasks.knowledge import Knowledge
from tasks.knowledge.extension_facts import (
    BuildFailure,
    CompanionFact,
    ExtensionFact,
    compute_build_variables,
    find_build_failure,
    list_nvcc_options,
    normalize_project_name,
)
from tasks.settings import compile_workers
from tasks.settings.schema import Extension, Settings
from tasks.settings.values import dump_section
from tasks.stages.companions import Companion, resolve_companions
from tasks.stages.extensions.known_extensions import find_extension_fact, is_known_source
from tasks.stages.extensions.model import ExtensionJob


def sort_by_prerequisites(after: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Return the names of `after` in build order, each with its prerequisites.

    `after` maps each name to the names it comes after. In the result, prerequisites are spelled as
    the keys of `after`. Raises `SettingsError` for an unknown name and for a cycle.
    """
    names_by_project = {normalize_project_name(name): name for name in after}
    before = {
        name: tuple(_resolve_prerequisite(one, name, names_by_project) for one in ones)
        for name, ones in after.items()
    }
    places = {name: place for place, name in enumerate(after)}
    names = list(after)
    sorter = TopologicalSorter(before)
    try:
        sorter.prepare()
    except CycleError as error:
        raise SettingsError(
            f"they wait for one another: {' after '.join(error.args[1])}",
            location=f"extensions ({error.args[1][0]}).after",
            hint="take one of these names out",
        ) from error
    ready: list[int] = []
    done: dict[str, tuple[str, ...]] = {}
    while sorter.is_active():
        for free in sorter.get_ready():
            heapq.heappush(ready, places[free])
        name = names[heapq.heappop(ready)]
        done[name] = before[name]
        sorter.done(name)
    return done


def _resolve_prerequisite(name: str, of: str, meant: Mapping[str, str]) -> str:
    prerequisite = meant.get(normalize_project_name(name))
    if prerequisite is None:
        suggestion = format_did_you_mean(name, (one for one in meant.values() if one != of))
        raise SettingsError(
            f'it comes after "{name}", which is not in this profile{suggestion}',
            location=f"extensions ({of}).after",
            hint=f"add {name} to extensions or companions, or take the name out of after",
        )
    return prerequisite


def build_wheel_job(one: Companion, fact: CompanionFact, bare: ExtensionJob) -> ExtensionJob:
    """Return the job that installs a companion's wheel without compiling.

    A pinned companion depends on the manifest of PyTorch's source tree.
    """
    return replace(
        bare,
        kind="wheel",
        location=one.requirement,
        index=one.index,
        pinned=bare.manifest.parent.with_name("source.json") if one.pinned else None,
        imports=fact.imports,
        why=one.why,
    )


def build_source_entry(one: Companion, fact: ExtensionFact) -> Extension:
    """Return the extension entry, as in the settings, that builds the companion from source."""
    version = {"BUILD_VERSION": one.version} if one.version else {}
    return Extension(
        name=one.name,
        git=fact.git,
        ref=one.ref,
        submodules=bool(fact.submodules),
        imports=fact.imports,
        requires=fact.requires,
        includes=fact.headers,
        env=version,
    )


RECIPE = 2
_FINGERPRINT_FIELDS = (
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
# Most extensions do not set these. They are in the fingerprint only if set, so that the
# fingerprints of other extensions do not change.
_OPTIONAL_FIELDS = ("index", "patches", "requires", "nvcc")


def plan_extensions(
    settings: Settings, layout: Layout, choice: Resolution, knowledge: Knowledge
) -> tuple[Stage, ...]:
    """Return the stages of the extensions and companions, each after its prerequisites.

    The settings must be completed. Raises `SettingsError` for invalid settings and for an extension
    that is known not to build.
    """
    stages = dict(_plan_companions(settings, layout, choice, knowledge))
    after: dict[str, Sequence[str]] = dict.fromkeys(settings.companions, ())
    for item in settings.extensions:
        stages[item.name] = plan_extension(item, settings, layout, choice, knowledge)
        after[item.name] = item.after
    before = sort_by_prerequisites(after)
    return tuple(
        _add_prerequisites(stages[name], before[name], stages) for name in before if name in stages
    )


def plan_extension(
    extension: Extension,
    settings: Settings,
    layout: Layout,
    choice: Resolution,
    knowledge: Knowledge,
) -> Stage:
    """Return the stage of one extension.

    Its targets and arch lists are limited to what this torch can build for
    (`tasks.planning.target_resolution`). Raises `SettingsError` if the extension is known not to
    build.
    """
    fact = find_extension_fact(extension, knowledge)
    if fact and (failure := find_known_failure(extension, fact, choice)) and _is_verified(failure):
        raise SettingsError(
            f"{extension.name} does not build with torch {choice.torch}: {failure.what}",
            location=f"extensions ({extension.name})",
            hint=failure.fix,
        )
    return _build_stage(_build_job(extension, settings, layout, choice, fact), layout)


def list_build_warnings(
    settings: Settings, choice: Resolution, knowledge: Knowledge
) -> Iterator[str]:
    """Yield a warning for each extension whose build may fail according to unverified facts."""
    for extension in settings.extensions:
        fact = find_extension_fact(extension, knowledge)
        bad = find_known_failure(extension, fact, choice) if fact else None
        if bad and not _is_verified(bad):
            yield f"{extension.name} may not build with torch {choice.torch}: {bad.what}. {bad.fix}"


def find_known_failure(
    extension: Extension, fact: ExtensionFact, choice: Resolution
) -> BuildFailure | None:
    """Return the known failure of the extension's source with this torch.

    Returns None for another source or a patched one: either may fix the failure.
    """
    if extension.patches or not is_known_source(extension, fact):
        return None
    return find_build_failure(fact, _build_combination(choice))


def _is_verified(bad: BuildFailure) -> bool:
    return not bad.status.startswith("unverified")


def _plan_companions(
    settings: Settings, layout: Layout, choice: Resolution, knowledge: Knowledge
) -> Iterator[tuple[str, Stage]]:
    """Yield the stages of the companions that did not come with torch."""
    for companion in resolve_companions(settings, choice, knowledge):
        fact = knowledge.companions[companion.name]
        if companion.strategy == "wheel":
            job = build_wheel_job(
                companion,
                fact,
                _build_settings_job(Extension(name=companion.name), settings, layout, choice),
            )
            yield companion.name, _build_stage(job, layout)
        elif companion.strategy == "git" and fact.source:
            build_job = _build_job(
                build_source_entry(companion, fact.source), settings, layout, choice, fact.source
            )
            yield companion.name, _build_stage(replace(build_job, why=companion.why), layout)


def _build_stage(job: ExtensionJob, layout: Layout) -> Stage:
    fetches = job.kind == "wheel"
    verb = "fetch {} for" if fetches else "build {} against"
    inputs = ("deps", "surface") if fetches else ("deps", "extension-env", "surface")
    optional_inputs = {
        name: convert_to_json(getattr(job, name)) for name in _OPTIONAL_FIELDS if getattr(job, name)
    }
    optional_inputs |= {"cuda": job.cuda} if job.cuda != "auto" else {}
    return Stage(
        name=f"extensions:{job.name}",
        kind="extensions",
        doc=f"{verb.format(job.name)} this torch, check its machine code, install it",
        job=job,
        fingerprint={
            "recipe": RECIPE,
            "targets": [str(arch) for arch in job.targets],
            **{name: convert_to_json(getattr(job, name)) for name in _FINGERPRINT_FIELDS},
            **optional_inputs,
        },
        outputs=(job.manifest,),
        inputs=(
            *(layout.compute_manifest_path(name) for name in inputs),
            *((job.pinned,) if job.pinned else ()),
            *job.patches,
        ),
        uptodate_check="stale",
        explained_inputs=(job.abi_manifest,),
    )


def _add_prerequisites(stage: Stage, before: Sequence[str], stages: Mapping[str, Stage]) -> Stage:
    """Add the manifests of its prerequisites to a stage's inputs.

    A companion that came with torch has no manifest.
    """
    manifests = tuple(stages[name].outputs[0] for name in before if name in stages)
    job = replace(stage.job, after=manifests)
    return replace(stage, job=job, inputs=(*stage.inputs, *manifests))


def _build_job(
    extension: Extension,
    settings: Settings,
    layout: Layout,
    choice: Resolution,
    fact: ExtensionFact | None,
) -> ExtensionJob:
    job = replace(
        _build_settings_job(extension, settings, layout, choice),
        combination=_build_combination(choice),
    )
    # Set it on machines with a GPU, too: adding or removing a GPU must not rebuild everything
    cuda = {"FORCE_CUDA": "1"} if job.targets and job.cuda != "none" else {}
    if fact is None:
        return replace(job, env={**cuda, **extension.env})
    try:
        env = compute_build_variables(fact.settings, fact.archs, _build_combination(choice))
    except KnowledgeError as error:
        where = f"extensions ({extension.name})"
        raise SettingsError(error.message, location=where, hint=error.hint) from error
    return replace(
        job,
        known=fact.name,
        env={**cuda, **env, **extension.env},
        nvcc=list_nvcc_options(fact.settings, _build_combination(choice)),
        own_jobs=fact.own_jobs,
        compiler_mib=fact.compiler_mib,
    )


def _build_settings_job(
    extension: Extension, settings: Settings, layout: Layout, choice: Resolution
) -> ExtensionJob:
    """Return the job with the settings only, without known facts."""
    kind, location = _find_source(extension, layout)
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
        pool=layout.jobserver,
        runs=layout.build / "records" / "extensions" / f"{extension.name}.jsonl",
        work=layout.build / "extensions" / extension.name,
        wheelhouse=layout.wheelhouse,
        deps=layout.compute_manifest_path("deps"),
        environment=layout.compute_manifest_path("extension-env"),
        caching=layout.compute_manifest_path("cache-env"),
        abi_manifest=layout.compute_manifest_path("surface"),
        abi_folder=layout.abi_fingerprints,
        manifest=layout.compute_manifest_path(f"extensions:{extension.name}"),
        log=layout.logs / f"extension-{extension.name}.log",
        patches=tuple(layout.root / patch for patch in extension.patches),
        requires=extension.requires,
        settings_entry=dump_section(extension, with_defaults=False),
        cache_remote=settings.build.cache_remote or "",
        workers=compile_workers.build_distribution_settings(
            settings.build.distribute, settings.build.hosts, layout.build
        ),
    )


def _find_source(
    extension: Extension, layout: Layout
) -> tuple[Literal["git", "path", "sdist"], str]:
    if extension.git:
        return "git", extension.git
    if extension.path:
        return "path", str(layout.root / extension.path)
    return "sdist", extension.sdist or ""


def _build_combination(choice: Resolution) -> Combination:
    """Return the combination that facts about extensions are selected by.

    CUDA is set only if the extension is compiled for targets.
    """
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
