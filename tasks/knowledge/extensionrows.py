"""Rows of extensions.yaml to facts.

A key that is missing is a KeyError: `tasks.knowledge.load` says which one to a person.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tasks.core.model import Arch
from tasks.knowledge.archs import MachineCode
from tasks.knowledge.extensionfacts import (
    ArchVariable,
    BuildFailure,
    BuildSetting,
    CompanionFact,
    ExtensionFact,
    StableAbiWheel,
)
from tasks.knowledge.rows import parse_archs, read_texts

if TYPE_CHECKING:
    from collections.abc import Mapping


def read_extensions(data: Mapping[str, Any]) -> dict[str, ExtensionFact]:
    """extensions.yaml: extensions."""
    return {name: _read_extension(name, row) for name, row in data["extensions"].items()}


def read_companions(data: Mapping[str, Any]) -> dict[str, CompanionFact]:
    """extensions.yaml: companions."""
    return {name: _read_companion(name, row) for name, row in data["companions"].items()}


def _read_extension(name: str, row: Mapping[str, Any]) -> ExtensionFact:
    return ExtensionFact(
        name=name,
        distribution=row.get("distribution", name),
        git=row.get("git", ""),
        ref=row.get("ref", "HEAD"),
        sdist=row.get("sdist", ""),
        subdirectory=row.get("subdirectory", ""),
        submodules=read_texts(row["submodules"]),
        imports=read_texts(row["imports"]),
        headers=tuple(include["header"] for include in row["force_include"]),
        settings=tuple(map(_read_build_setting, row.get("settings", ()))),
        archs=_read_arch_variable(row["archs"]) if "archs" in row else None,
        requires=tuple(each["package"] for each in row.get("requires", ())),
        after=read_texts(row.get("after", ())),
        own_jobs="own_jobs" in row,
        compiler_mib=row["compiler_mib"]["value"] if "compiler_mib" in row else 0,
        fails=tuple(map(_read_build_failure, row.get("fails", ()))),
        check=row.get("check", ""),
        pypi=row["pypi"]["is"],
        warnings=tuple(warning["text"] for warning in row["warnings"]),
        status=row["status"],
    )


def _read_build_setting(row: Mapping[str, Any]) -> BuildSetting:
    env = dict(row.get("env", {}))
    read_texts(env.values())
    nvcc = read_texts(row.get("nvcc", ()))
    return BuildSetting(row["why"], env, nvcc, row.get("when", {}), row["status"])


def _read_arch_variable(row: Mapping[str, Any]) -> ArchVariable:
    known = tuple(Arch.parse_capability(text) for text in read_texts(row["known"]))
    return ArchVariable(row["variable"], known, row["why"], row["status"])


def _read_build_failure(row: Mapping[str, Any]) -> BuildFailure:
    return BuildFailure(row["what"], row["fix"], row["when"], row["status"])


def _read_companion(name: str, row: Mapping[str, Any]) -> CompanionFact:
    return CompanionFact(
        name=name,
        imports=read_texts(row["imports"]),
        source=_read_extension(name, row) if "git" in row else None,
        independent=tuple(map(_read_stable_abi_wheel, row.get("independent", ()))),
        packages=row.get("packages", {}),
        pins={key: value for key, value in row.get("pins", {}).items() if key != "status"},
        warnings=tuple(warning["text"] for warning in row["warnings"]),
        status=row["status"],
    )


def _read_stable_abi_wheel(row: Mapping[str, Any]) -> StableAbiWheel:
    same = ("wheel", "torch", "cuda", "system", "machine", "why", "beside_built", "status")
    code = MachineCode(parse_archs(row["archs"]), parse_archs(row["ptx"]))
    return StableAbiWheel(code=code, **{key: row[key] for key in same})
