"""Plan the stages of extensions and companion packages from settings, resolution and facts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import Literal

from tasks.core.canonical_json import convert_to_json
from tasks.core.errors import KnowledgeError, SettingsError
from tasks.core.model import Layout, Stage
from tasks.core.resolution import Combination, Resolution
from tasks.core.text_formatting import format_did_you_mean
from tasks.knowledge import Knowledge, extension_facts
from tasks.settings.compile_workers import build_distribution_settings
from tasks.settings.schema import Extension, Settings
from tasks.settings.values import dump_section
from tasks.stages.companions import resolve_companions
from tasks.stages.extensions.known_extensions import find_extension_fact
from tasks.stages.extensions.model import ExtensionJob

RECIPE = 2
_FINGERPRINT_FIELDS = (
    *("kind", "location", "ref", "submodules", "sha256", "subdirectory", "imports", "env"),
    *("includes", "label"),
)
# Only set fields are in the fingerprint, so that extensions without them keep their fingerprint
_OPTIONAL_FIELDS = ("index", "patches", "requires", "nvcc")


def sort_by_prerequisites(after: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Return `after` (name → prerequisites) in build order. Raises `SettingsError` for a cycle."""
    names = {extension_facts.normalize_project_name(name): name for name in after}

    def find_prerequisite(name: str, of: str) -> str:
        if prerequisite := names.get(extension_facts.normalize_project_name(name)):
            return prerequisite
        suggestion = format_did_you_mean(name, (one for one in after if one != of))
        raise SettingsError(
            f'{of} is built after "{name}", which is not in this profile{suggestion}',
            location=f"extensions ({of}).after",
            hint=f"add {name} to extensions or companions, or remove it from the key `after`",
        )

    before = {
        name: tuple(find_prerequisite(one, name) for one in ones) for name, ones in after.items()
    }
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        raise SettingsError(
            f"the build order of the extensions is a cycle: {' after '.join(error.args[1])}",
            location=f"extensions ({error.args[1][0]}).after",
            hint="remove one of these names from the key `after` of an extension",
        ) from error
    done: dict[str, tuple[str, ...]] = {}
    while waiting := [name for name in before if name not in done]:
        name = next(name for name in waiting if done.keys() >= {*before[name]})
        done[name] = before[name]
    return done


def plan_extensions(
    settings: Settings, layout: Layout, choice: Resolution, knowledge: Knowledge
) -> tuple[Stage, ...]:
    """Return the stages of extensions and companion packages, each after its prerequisites."""
    stages = dict(_plan_companions(settings, layout, choice, knowledge))
    after: dict[str, Sequence[str]] = dict.fromkeys(settings.companions, ())
    for item in settings.extensions:
        stages[item.name] = plan_extension(item, settings, layout, choice, knowledge)
        after[item.name] = item.after
    result = []
    for name, before in sort_by_prerequisites(after).items():
        if stage := stages.get(name):  # a companion package that came with torch has no stage
            manifests = (stages[one].outputs[0] for one in before if one in stages)
            result.append(replace(stage, inputs=(*stage.inputs, *manifests)))
    return tuple(result)


def plan_extension(
    extension: Extension,
    settings: Settings,
    layout: Layout,
    choice: Resolution,
    knowledge: Knowledge,
) -> Stage:
    """Return the stage of one extension. Raises `SettingsError` if the build is known to fail."""
    if failure := _find_failure(extension, choice, knowledge, verified=True):
        raise SettingsError(
            f"{extension.name} does not build with torch {choice.torch}: {failure.what}",
            location=f"extensions ({extension.name})",
            hint=failure.fix,
        )
    fact = find_extension_fact(extension, knowledge)
    return _build_stage(_build_job(extension, settings, layout, choice, fact))


def list_build_warnings(
    settings: Settings, choice: Resolution, knowledge: Knowledge
) -> Iterator[str]:
    """Yield a warning for each extension that may fail to build."""
    for extension in settings.extensions:
        if bad := _find_failure(extension, choice, knowledge, verified=False):
            yield f"{extension.name} may not build with torch {choice.torch}: {bad.what}. {bad.fix}"


def _find_failure(
    extension: Extension, choice: Resolution, knowledge: Knowledge, *, verified: bool
) -> extension_facts.BuildFailure | None:
    """Return the known build failure, if any. `verified` selects verified or unverified ones."""
    fact = find_extension_fact(extension, knowledge)
    if not fact or extension.patches:
        return None
    is_same_commit = fact.git and (extension.git, extension.ref) == (fact.git, fact.ref)
    if not is_same_commit and not (fact.sdist and extension.sdist == fact.sdist):
        return None
    failure = extension_facts.find_build_failure(fact, _build_combination(choice))
    is_requested = failure and failure.status.startswith("unverified") is not verified
    return failure if is_requested else None


def _plan_companions(
    settings: Settings, layout: Layout, choice: Resolution, knowledge: Knowledge
) -> Iterator[tuple[str, Stage]]:
    """Yield the name and stage of each companion package, except those installed with torch."""
    for companion in resolve_companions(settings, choice, knowledge):
        name, fact = companion.name, knowledge.companions[companion.name]
        if companion.strategy == "wheel":
            job = _build_settings_job(Extension(name=name), settings, layout, choice)
            job = replace(
                job,
                kind="wheel",
                location=companion.requirement,
                index=companion.index,
                pinned=job.manifest.parent.with_name("source.json") if companion.pinned else None,
                imports=fact.imports,
            )
        elif companion.strategy == "git" and (source := fact.source):
            extension = Extension(
                name=name,
                git=source.git,
                ref=companion.ref,
                submodules=bool(source.submodules),
                imports=source.imports,
                requires=source.requires,
                includes=source.headers,
                env={"BUILD_VERSION": companion.version} if companion.version else {},
            )
            job = _build_job(extension, settings, layout, choice, source)
        else:
            continue
        yield name, _build_stage(job)


def _build_stage(job: ExtensionJob) -> Stage:
    is_wheel = job.kind == "wheel"
    step = f"fetch {job.name} for" if is_wheel else f"build {job.name} against"
    inputs = ("deps", "surface") if is_wheel else ("deps", "extension-env", "surface")
    fields = [*_FINGERPRINT_FIELDS, *(name for name in _OPTIONAL_FIELDS if getattr(job, name))]
    fields += ["cuda"] if job.cuda != "auto" else []
    return Stage(
        name=f"extensions:{job.name}",
        kind="extensions",
        doc=f"{step} this torch, check its machine code, install it",
        job=job,
        fingerprint={
            "recipe": RECIPE,
            "targets": [str(arch) for arch in job.targets],
            **{name: convert_to_json(getattr(job, name)) for name in fields},
            "location": job.layout.project.identify_location(job.location),
        },
        outputs=(job.manifest,),
        inputs=(
            *(job.layout.compute_manifest_path(name) for name in inputs),
            *((job.pinned,) if job.pinned else ()),
            *job.patches,
        ),
        uptodate_check="stale",
        explained_inputs=(job.layout.compute_manifest_path("surface"),),
    )


def _build_job(
    extension: Extension,
    settings: Settings,
    layout: Layout,
    choice: Resolution,
    fact: extension_facts.ExtensionFact | None,
) -> ExtensionJob:
    combination = _build_combination(choice)
    job = _build_settings_job(extension, settings, layout, choice)
    job = replace(job, combination=combination)
    # Also set on machines with a GPU: adding or removing a GPU must not rebuild everything
    cuda = {"FORCE_CUDA": "1"} if job.targets and job.cuda != "none" else {}
    if fact is None:
        return replace(job, env={**cuda, **extension.env})
    try:
        env = extension_facts.compute_build_variables(fact.settings, fact.archs, combination)
    except KnowledgeError as error:
        place = f"extensions ({extension.name})"
        raise SettingsError(error.message, location=place, hint=error.hint) from error
    return replace(
        job,
        known=fact.name,
        env={**cuda, **env, **extension.env},
        nvcc=extension_facts.list_nvcc_options(fact.settings, combination),
        own_jobs=fact.own_jobs,
        compiler_mib=fact.compiler_mib,
    )


def _build_settings_job(
    extension: Extension, settings: Settings, layout: Layout, choice: Resolution
) -> ExtensionJob:
    """Return the job according to the settings, without known facts."""
    kind: Literal["git", "path", "sdist"]
    if extension.git:
        kind, location = "git", extension.git
    elif extension.path:
        kind, location = "path", str(layout.project.resolve_path(extension.path))
    else:
        kind, location = "sdist", extension.sdist or ""
    build = settings.build
    return ExtensionJob(
        layout=layout,
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
        jobs=None if build.jobs == "auto" else build.jobs,
        jobs_exact=build.jobs_exact,
        knowledge=layout.project.knowledge,
        runs=layout.build / "records" / "extensions" / f"{extension.name}.jsonl",
        work=layout.build / "extensions" / extension.name,
        manifest=layout.compute_manifest_path(f"extensions:{extension.name}"),
        log=layout.logs / f"extension-{extension.name}.log",
        patches=tuple(layout.root / patch for patch in extension.patches),
        requires=extension.requires,
        settings_entry=dump_section(extension, with_defaults=False),
        cache_remote=build.cache_remote or "",
        workers=build_distribution_settings(build.distribute, build.hosts, layout.build),
    )


def _build_combination(choice: Resolution) -> Combination:
    """Return the versions that decide which facts about extensions apply."""
    return Combination(
        system=choice.system,
        cuda=(choice.toolkit.version or choice.cuda) if choice.targets else None,
        torch=choice.torch,
        archs=choice.targets,
        strategy=choice.strategy,
        python=choice.python.version,
        extensions=True,
    )
