"""The two documents of a wheel, read with care: anything may have been written into them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from packaging.utils import canonicalize_name

from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch, Artifact

# What both name; the SBOM also has the packages of the toolkit, the statement those of the build
_COMPARED = ("source", "submodule:", "patch:", "torch", "cuda", "compiler:")


def at(document: Any, *path: str) -> Any:
    """What lies there, None where nothing does."""
    for key in path:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document


def items(document: Any, *path: str) -> list[Any]:
    """The list that lies there, empty where none does."""
    found = at(document, *path)
    return found if isinstance(found, list) else []


def is_about(statement: Mapping[str, Any], artifact: Artifact) -> bool:
    """Whether a statement names these bytes."""
    wanted = {"name": artifact.name, "digest": {"sha256": artifact.sha256}}
    return wanted in items(statement, "subject")


def decided(statement: Mapping[str, Any] | None, key: str) -> Any:
    """What came of the settings, by the statement."""
    return at(statement, "predicate", "buildDefinition", "internalParameters", key)


def targets(statement: Mapping[str, Any] | None) -> list[Arch]:
    """The capabilities that the wheel was built for; what is none is passed over."""
    found = decided(statement, "archs")
    return list(_archs(found)) if isinstance(found, list) else []


def _archs(found: list[Any]) -> Iterator[Arch]:
    for one in found:
        try:
            yield Arch.parse(str(one))
        except KnowledgeError:
            continue


def held(statement: Mapping[str, Any] | None) -> dict[str, tuple[str, ...]]:
    """Library → archs as they were read when it was built."""
    found = decided(statement, "held")
    pairs = found.items() if isinstance(found, Mapping) else ()
    return {str(name): tuple(map(str, archs)) for name, archs in pairs if isinstance(archs, list)}


def torch_of(sbom: Mapping[str, Any] | None) -> str:
    """The torch that an extension was built against."""
    return dict(_of_sbom(sbom)).get("torch", "")


def differences(
    sbom: Mapping[str, Any], name: str, version: str, statement: Mapping[str, Any] | None
) -> Iterator[str]:
    """Where an SBOM is of another wheel than METADATA, or of other sources than the statement."""
    component = at(sbom, "metadata", "component")
    if canonicalize_name(str(at(component, "name"))) != canonicalize_name(name):
        yield f"it is about {at(component, 'name')}, and METADATA is about {name}"
    if at(component, "version") != version:
        yield f"it is about version {at(component, 'version')}, and METADATA says {version}"
    if statement is None:
        return
    here, there = dict(_of_sbom(sbom)), dict(_of_statement(statement))
    for ref in sorted({*here, *there}):
        one, other = here.get(ref, "nothing"), there.get(ref, "nothing")
        if one != other:
            yield f"{ref} is {one}, and by the statement {other}"


def _of_sbom(sbom: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    for part in items(sbom, "components"):
        ref = str(at(part, "bom-ref"))
        if ref.startswith(_COMPARED):
            hashed = [at(one, "content") for one in items(part, "hashes")]
            yield ref, str(at(part, "version") or next(iter(hashed), ""))


def _of_statement(statement: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for part in items(statement, "predicate", "buildDefinition", "resolvedDependencies"):
        ref, digest = str(at(part, "name")), at(part, "digest")
        if ref.startswith(_COMPARED):
            told = at(part, "annotations", "version")
            yield ref, str(at(digest, "gitCommit") or at(digest, "sha256") or told or "")
