"""Rows of extensions.yaml to facts.

A key that is missing is a KeyError: `tasks.knowledge.load` says which one to a person.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tasks.core.model import Arch
from tasks.knowledge.archs import MachineCode
from tasks.knowledge.extensionfacts import (
    BuildFailure,
    BuildSetting,
    CompanionFact,
    ExtensionFact,
    IndependentWheel,
    OwnArchs,
)
from tasks.knowledge.rows import archs, texts

if TYPE_CHECKING:
    from collections.abc import Mapping


def read_extensions(data: Mapping[str, Any]) -> dict[str, ExtensionFact]:
    """extensions.yaml: extensions."""
    return {name: _extension(name, row) for name, row in data["extensions"].items()}


def read_companions(data: Mapping[str, Any]) -> dict[str, CompanionFact]:
    """extensions.yaml: companions."""
    return {name: _companion(name, row) for name, row in data["companions"].items()}


def _extension(name: str, row: Mapping[str, Any]) -> ExtensionFact:
    return ExtensionFact(
        name=name,
        distribution=row.get("distribution", name),
        git=row.get("git", ""),
        ref=row.get("ref", "HEAD"),
        sdist=row.get("sdist", ""),
        subdirectory=row.get("subdirectory", ""),
        submodules=texts(row["submodules"]),
        imports=texts(row["imports"]),
        headers=tuple(include["header"] for include in row["force_include"]),
        settings=tuple(map(_setting, row.get("settings", ()))),
        archs=_own_archs(row["archs"]) if "archs" in row else None,
        requires=tuple(each["package"] for each in row.get("requires", ())),
        after=texts(row.get("after", ())),
        own_jobs="own_jobs" in row,
        compiler_mib=row["compiler_mib"]["value"] if "compiler_mib" in row else 0,
        fails=tuple(map(_failure, row.get("fails", ()))),
        check=row.get("check", ""),
        pypi=row["pypi"]["is"],
        warnings=tuple(warning["text"] for warning in row["warnings"]),
        status=row["status"],
    )


def _setting(row: Mapping[str, Any]) -> BuildSetting:
    env = dict(row.get("env", {}))
    texts(env.values())
    nvcc = texts(row.get("nvcc", ()))
    return BuildSetting(row["why"], env, nvcc, row.get("when", {}), row["status"])


def _own_archs(row: Mapping[str, Any]) -> OwnArchs:
    known = tuple(Arch.parse(text) for text in texts(row["known"]))
    return OwnArchs(row["variable"], known, row["why"], row["status"])


def _failure(row: Mapping[str, Any]) -> BuildFailure:
    return BuildFailure(row["what"], row["fix"], row["when"], row["status"])


def _companion(name: str, row: Mapping[str, Any]) -> CompanionFact:
    return CompanionFact(
        name=name,
        imports=texts(row["imports"]),
        source=_extension(name, row) if "git" in row else None,
        independent=tuple(map(_independent, row.get("independent", ()))),
        packages=row.get("packages", {}),
        pins={key: value for key, value in row.get("pins", {}).items() if key != "status"},
        warnings=tuple(warning["text"] for warning in row["warnings"]),
        status=row["status"],
    )


def _independent(row: Mapping[str, Any]) -> IndependentWheel:
    same = ("wheel", "torch", "cuda", "system", "machine", "why", "beside_built", "status")
    code = MachineCode(archs(row["archs"]), archs(row["ptx"]))
    return IndependentWheel(code=code, **{key: row[key] for key in same})
