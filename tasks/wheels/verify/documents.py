"""The two documents of a wheel, read with care: anything may have been written into them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from packaging.utils import canonicalize_name

from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch, Artifact

# What both name; the SBOM also has the packages of the toolkit, the statement those of the build
_COMPARED_PARTS = ("source", "submodule:", "patch:", "torch", "cuda", "compiler:")


def find_value(document: Any, *path: str) -> Any:
    """What lies there, None where nothing does."""
    for key in path:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document


def find_list(document: Any, *path: str) -> list[Any]:
    """The list that lies there, empty where none does."""
    found = find_value(document, *path)
    return found if isinstance(found, list) else []


def is_about_artifact(statement: Mapping[str, Any], artifact: Artifact) -> bool:
    """Whether a statement names these bytes."""
    wanted = {"name": artifact.name, "digest": {"sha256": artifact.sha256}}
    return wanted in find_list(statement, "subject")


def read_internal_parameter(statement: Mapping[str, Any] | None, key: str) -> Any:
    """What came of the settings, by the statement."""
    return find_value(statement, "predicate", "buildDefinition", "internalParameters", key)


def read_target_archs(statement: Mapping[str, Any] | None) -> list[Arch]:
    """The capabilities that the wheel was built for; what is none is passed over."""
    found = read_internal_parameter(statement, "archs")
    return list(_parse_archs(found)) if isinstance(found, list) else []


def _parse_archs(found: list[Any]) -> Iterator[Arch]:
    for one in found:
        try:
            yield Arch.parse_capability(str(one))
        except KnowledgeError:
            continue


def read_built_archs(statement: Mapping[str, Any] | None) -> dict[str, tuple[str, ...]]:
    """Library → archs as they were read when it was built."""
    found = read_internal_parameter(statement, "held")
    pairs = found.items() if isinstance(found, Mapping) else ()
    return {str(name): tuple(map(str, archs)) for name, archs in pairs if isinstance(archs, list)}


def find_torch_version(sbom: Mapping[str, Any] | None) -> str:
    """The torch that an extension was built against."""
    return dict(_list_sbom_versions(sbom)).get("torch", "")


def find_differences(
    sbom: Mapping[str, Any], name: str, version: str, statement: Mapping[str, Any] | None
) -> Iterator[str]:
    """Where an SBOM is of another wheel than METADATA, or of other sources than the statement."""
    component = find_value(sbom, "metadata", "component")
    if canonicalize_name(str(find_value(component, "name"))) != canonicalize_name(name):
        yield f"it is about {find_value(component, 'name')}, and METADATA is about {name}"
    if find_value(component, "version") != version:
        yield f"it is about version {find_value(component, 'version')}, and METADATA says {version}"
    if statement is None:
        return
    here, there = dict(_list_sbom_versions(sbom)), dict(_list_statement_versions(statement))
    for ref in sorted({*here, *there}):
        one, other = here.get(ref, "nothing"), there.get(ref, "nothing")
        if one != other:
            yield f"{ref} is {one}, and by the statement {other}"


def _list_sbom_versions(sbom: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    for part in find_list(sbom, "components"):
        ref = str(find_value(part, "bom-ref"))
        if ref.startswith(_COMPARED_PARTS):
            hashed = [find_value(one, "content") for one in find_list(part, "hashes")]
            yield ref, str(find_value(part, "version") or next(iter(hashed), ""))


def _list_statement_versions(statement: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for part in find_list(statement, "predicate", "buildDefinition", "resolvedDependencies"):
        ref, digest = str(find_value(part, "name")), find_value(part, "digest")
        if ref.startswith(_COMPARED_PARTS):
            told = find_value(part, "annotations", "version")
            yield (
                ref,
                str(find_value(digest, "gitCommit") or find_value(digest, "sha256") or told or ""),
            )
