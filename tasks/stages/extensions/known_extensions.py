"""Complete the extensions of the settings with known facts, so that a name is enough.

The user's settings take precedence, key by key. The plan adds what depends on torch and the GPUs
(variables). Facts that need the fetched source are added before the build.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from msgspec import structs

from tasks.core.errors import KnowledgeError, SettingsError
from tasks.core.text_formatting import format_did_you_mean
from tasks.knowledge import Knowledge, extension_facts
from tasks.settings.schema import Extension, Settings, Smoke
from tasks.stages.extensions.model import ExtensionJob

_SOURCE_KEYS = ("git", "path", "sdist")
_FOREIGN_PACKAGES = {
    "unrelated": "{name} on the package index is an unrelated package of that name",
    "absent": "{name} has no package of its own on the package index: what comes by that name is "
    "another project's",
}


def complete_extensions(settings: Settings, knowledge: Knowledge) -> Settings:
    """Return the settings with the source of every extension.

    Raises `SettingsError` for an unknown name, and for a name that is another project's on a
    package index.
    """
    for extension in settings.extensions:
        _require_own_names(extension, knowledge)
    extensions = tuple(
        _complete_extension(extension, knowledge) for extension in settings.extensions
    )
    _require_distinct(settings.companions, extensions, knowledge)
    return structs.replace(settings, extensions=extensions)


def find_extension_fact(
    extension: Extension, knowledge: Knowledge
) -> extension_facts.ExtensionFact | None:
    """Return the facts about the extension's source, whatever `name` it has.

    Returns the facts about its name if the source is unknown or not set.
    """
    labelled = extension_facts.find_extension(knowledge, extension.name)
    same_source = extension_facts.find_extensions_by_source(
        knowledge, extension.git or "", extension.ref, extension.sdist or ""
    )
    return labelled if labelled in same_source or not same_source else same_source[0]


def is_known_source(extension: Extension, fact: extension_facts.ExtensionFact) -> bool:
    """Return True if the extension is built from the source that the facts describe."""
    return bool(fact.git and (extension.git, extension.ref) == (fact.git, fact.ref)) or bool(
        fact.sdist and extension.sdist == fact.sdist
    )


def apply_known_facts(
    job: ExtensionJob, name: str, reads: Collection[str], knowledge: Knowledge
) -> ExtensionJob:
    """Return the job with the facts about the distribution `name`.

    The targets are added in each arch variable that its setup.py `reads`. The settings take
    precedence. Raises `KnowledgeError` for a target that such a variable cannot hold.
    """
    fact = (
        None
        if job.known or job.combination is None
        else extension_facts.find_extension_by_distribution(knowledge, name)
    )
    if fact and job.combination:
        job = replace(
            job,
            known=fact.name,
            env={
                **extension_facts.compute_build_variables(
                    fact.settings, fact.archs, job.combination
                ),
                **job.env,
            },
            includes=tuple(dict.fromkeys([*job.includes, *fact.headers])),
            requires=tuple(dict.fromkeys([*job.requires, *fact.requires])),
            nvcc=(*job.nvcc, *extension_facts.list_nvcc_options(fact.settings, job.combination)),
            own_jobs=fact.own_jobs,
            compiler_mib=fact.compiler_mib,
        )
    archs_by_variable = {
        known_extension.archs.variable: known_extension.archs
        for known_extension in knowledge.extensions.values()
        if known_extension.archs
    }
    new_variables = [
        variable for variable in archs_by_variable if variable in reads and variable not in job.env
    ]
    if not new_variables or not job.targets:
        return job
    try:
        archs = {
            variable: extension_facts.format_arch_variable(archs_by_variable[variable], job.targets)
            for variable in new_variables
        }
    except KnowledgeError as error:
        error.location = f"extensions ({job.name})"
        raise
    return replace(job, env={**job.env, **archs})


def _complete_extension(extension: Extension, knowledge: Knowledge) -> Extension:
    fact = find_extension_fact(extension, knowledge)
    has_source = any(getattr(extension, key) for key in _SOURCE_KEYS)
    if fact is None and not has_source:
        raise _build_unknown_error(extension, knowledge)
    if fact is None:
        return extension
    known_keys = dict(_list_default_keys(fact)) | ({} if has_source else _build_source_keys(fact))
    missing_keys = {
        key: value for key, value in known_keys.items() if key not in extension.set_keys
    }
    includes = tuple(dict.fromkeys([*extension.includes, *fact.headers]))
    completed = structs.replace(extension, **{**missing_keys, "includes": includes})
    _require_fitting_keys(extension, completed)
    return completed


def _require_fitting_keys(extension: Extension, completed: Extension) -> None:
    """Raise `SettingsError` for a key that applies to another kind of source."""
    kinds = {"ref": completed.git, "submodules": completed.git, "sha256": completed.sdist}
    for key, fits in kinds.items():
        if key in extension.set_keys and not fits:
            source = completed.sdist or completed.git or completed.path
            raise SettingsError(
                f"{key} says nothing of {source}, which {extension.name} is built from",
                location=f"extensions ({extension.name}).{key}",
                hint=f"take it out, or give the source that it is of: "
                f"{'sdist' if key == 'sha256' else 'git'}",
            )


def _build_source_keys(fact: extension_facts.ExtensionFact) -> dict[str, Any]:
    if fact.sdist:
        return {"sdist": fact.sdist}
    submodules = bool(fact.submodules)
    keys = {"git": fact.git, "ref": fact.ref, "submodules": submodules}
    return {**keys, "subdirectory": fact.subdirectory or None}


def _list_default_keys(fact: extension_facts.ExtensionFact) -> Iterator[tuple[str, Any]]:
    yield "imports", fact.imports
    yield "requires", fact.requires
    yield "after", fact.after
    if fact.check:
        yield "smoke", Smoke(script=f"templates/checks/{fact.check}")


def _build_unknown_error(extension: Extension, knowledge: Knowledge) -> SettingsError:
    names = knowledge.extensions
    return SettingsError(
        f'no extension "{extension.name}" is known{format_did_you_mean(extension.name, names)}',
        location="extensions",
        hint=f"give it one of git, path and sdist, or choose one of: {', '.join(names)}",
    )


def _require_own_names(extension: Extension, knowledge: Knowledge) -> None:
    """Raise `SettingsError` for a name that is not the project's on the package index.

    An index is asked by name: another project may have that name there, now or later. The hint
    names the known source.
    """
    requirements = [
        ("sdist", extension.sdist or ""),
        *(("requires", one) for one in extension.requires),
    ]
    for key, text in requirements:
        name = re.split(r"[^\w.-]", text)[0]
        fact = extension_facts.find_extension(
            knowledge, name
        ) or extension_facts.find_extension_by_distribution(knowledge, name)
        if fact and fact.pypi != "own":
            raise SettingsError(
                _FOREIGN_PACKAGES[fact.pypi].format(name=fact.name),
                location=f"extensions ({extension.name}).{key}",
                hint=f"write {fact.source}" if key == "sdist" else "build it: list it by its name",
            )


def _require_distinct(
    companions: tuple[str, ...], extensions: tuple[Extension, ...], knowledge: Knowledge
) -> None:
    """Raise `SettingsError` if two entries have the same task name or install the same module."""
    names = {extension_facts.normalize_project_name(name) for name in companions}
    modules: dict[str, str] = {}
    for extension in extensions:
        if extension_facts.normalize_project_name(extension.name) in names:
            raise SettingsError(
                f'the name "{extension.name}" is used twice',
                location="extensions",
                hint=f"take {extension.name} out of companions, or out of extensions",
            )
        fact = find_extension_fact(extension, knowledge)
        for module in fact.imports if fact else ():
            if module in modules:
                raise SettingsError(
                    f"{modules[module]} and {extension.name} both install the module {module}",
                    location="extensions",
                    hint="keep one of them; another profile has an environment of its own",
                )
            modules[module] = extension.name
