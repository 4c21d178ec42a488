"""Complete the extensions in the settings with known facts. The user's keys take precedence."""

import re
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from msgspec import structs

from tasks.core.errors import KnowledgeError, SettingsError
from tasks.core.project import BUILT_IN_PREFIX
from tasks.core.text_formatting import format_did_you_mean
from tasks.knowledge import Knowledge, extension_facts
from tasks.settings.schema import Extension, Settings, Smoke
from tasks.stages.extensions.model import ExtensionJob

_FOREIGN_PACKAGES = {
    "unrelated": "{name} on the package index is a package of another project",
    "absent": "{name} is not on the package index: a package of that name is another project's",
}


def complete_extensions(settings: Settings, knowledge: Knowledge) -> Settings:
    """Return the settings, in which known facts fill the unset keys of extensions.

    Raises `SettingsError` for an unknown name, a name of another project on the package index, and
    a name or module that occurs twice.
    """
    for extension in settings.extensions:
        _require_own_names(extension, knowledge)
    extensions = tuple(_complete_extension(one, knowledge) for one in settings.extensions)
    _require_distinct(settings.companions, extensions, knowledge)
    return structs.replace(settings, extensions=extensions)


def find_extension_fact(
    extension: Extension, knowledge: Knowledge
) -> extension_facts.ExtensionFact | None:
    """Return the known facts for the extension's source or, if it is unknown, for its name."""
    labelled = extension_facts.find_extension(knowledge, extension.name)
    source = (extension.git or "", extension.ref, extension.sdist or "")
    same_source = extension_facts.find_extensions_by_source(knowledge, *source)
    return labelled if labelled in same_source or not same_source else same_source[0]


def apply_known_facts(
    job: ExtensionJob, name: str, reads: Collection[str], knowledge: Knowledge
) -> ExtensionJob:
    """Return the job with the known build settings of the distribution `name`.

    Known arch variables in `reads` (the variables that setup.py reads) are set to the targets,
    unless `job.env` sets them. Raises `KnowledgeError` if a variable cannot express a target.
    """
    fact = extension_facts.find_extension_by_distribution(knowledge, name)
    if fact and not job.known and job.combination:
        env = extension_facts.compute_build_variables(fact.settings, fact.archs, job.combination)
        job = replace(
            job,
            known=fact.name,
            env={**env, **job.env},
            includes=tuple(dict.fromkeys([*job.includes, *fact.headers])),
            requires=tuple(dict.fromkeys([*job.requires, *fact.requires])),
            nvcc=(*job.nvcc, *extension_facts.list_nvcc_options(fact.settings, job.combination)),
            own_jobs=fact.own_jobs,
            compiler_mib=fact.compiler_mib,
        )
    if not job.targets:
        return job
    try:
        archs = {
            known.archs.variable: extension_facts.format_arch_variable(known.archs, job.targets)
            for known in knowledge.extensions.values()
            if known.archs and known.archs.variable in reads and known.archs.variable not in job.env
        }
    except KnowledgeError as error:
        error.location = f"extensions ({job.name})"
        raise
    return replace(job, env={**job.env, **archs})


def _complete_extension(extension: Extension, knowledge: Knowledge) -> Extension:
    """Add known facts for unset keys. Raises `SettingsError` if a key does not fit the source."""
    fact = find_extension_fact(extension, knowledge)
    has_source = bool(extension.git or extension.path or extension.sdist)
    if fact is None and has_source:
        return extension
    if fact is None:
        names = knowledge.extensions
        raise SettingsError(
            f'unknown extension "{extension.name}"{format_did_you_mean(extension.name, names)}',
            location="extensions",
            hint=f"set its git, path or sdist, or choose one of: {', '.join(names)}",
        )
    keys: dict[str, Any] = {n: getattr(fact, n) for n in ("imports", "requires", "after")}
    if fact.check:
        keys["smoke"] = Smoke(script=f"{BUILT_IN_PREFIX}templates/checks/{fact.check}")
    if fact.sdist and not has_source:
        keys["sdist"] = fact.sdist
    elif not has_source:
        keys |= {"git": fact.git, "ref": fact.ref, "submodules": bool(fact.submodules)}
        keys["subdirectory"] = fact.subdirectory or None
    missing_keys = {key: value for key, value in keys.items() if key not in extension.set_keys}
    includes = tuple(dict.fromkeys([*extension.includes, *fact.headers]))
    completed = structs.replace(extension, **{**missing_keys, "includes": includes})
    for key, kind in {"ref": "git", "submodules": "git", "sha256": "sdist"}.items():
        if key in extension.set_keys and not getattr(completed, kind):
            source = completed.sdist or completed.git or completed.path
            raise SettingsError(
                f"{key} does not apply to {source}, the source of {extension.name}",
                location=f"extensions ({extension.name}).{key}",
                hint=f"remove {key}, or set {kind}",
            )
    return completed


def _require_own_names(extension: Extension, knowledge: Knowledge) -> None:
    """Raise `SettingsError` for a name that belongs to another project on the package index."""
    requires = (("requires", requirement) for requirement in extension.requires)
    for key, text in (("sdist", extension.sdist or ""), *requires):
        name = re.split(r"[^\w.-]", text)[0]
        fact = extension_facts.find_extension(knowledge, name)
        fact = fact or extension_facts.find_extension_by_distribution(knowledge, name)
        if fact and fact.pypi != "own":
            raise SettingsError(
                _FOREIGN_PACKAGES[fact.pypi].format(name=fact.name),
                location=f"extensions ({extension.name}).{key}",
                hint=f"set {fact.source}" if key == "sdist" else f"add {fact.name} to extensions",
            )


def _require_distinct(
    companions: tuple[str, ...], extensions: tuple[Extension, ...], knowledge: Knowledge
) -> None:
    names = {extension_facts.normalize_project_name(name) for name in companions}
    modules: dict[str, str] = {}
    for extension in extensions:
        if extension_facts.normalize_project_name(extension.name) in names:
            raise SettingsError(
                f"{extension.name} is in companions and in extensions",
                location="extensions",
                hint=f"remove {extension.name} from companions or from extensions",
            )
        fact = find_extension_fact(extension, knowledge)
        for module in fact.imports if fact else ():
            if module in modules:
                raise SettingsError(
                    f"{modules[module]} and {extension.name} both install the module {module}",
                    location="extensions",
                    hint="remove one of them; you can build it in another profile",
                )
            modules[module] = extension.name
