"""A companion as the job of an extension: a wheel that is fetched, or a source that is built.
Pure.
"""

from __future__ import annotations

from dataclasses import replace

from tasks.knowledge.extensionfacts import CompanionFact, ExtensionFact
from tasks.settings.extension import Extension
from tasks.stages.companions import Companion
from tasks.stages.extensions.job import ExtensionJob


def build_wheel_job(one: Companion, fact: CompanionFact, bare: ExtensionJob) -> ExtensionJob:
    """Its wheel, nothing of it compiled. A pinned one waits for the tree's own manifest."""
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
    """What a person would write to build it."""
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
