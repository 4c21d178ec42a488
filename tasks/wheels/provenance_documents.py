"""Build the SBOM and the provenance statement of a wheel, and compare them.

The SBOM is CycloneDX 1.6, written by the CycloneDX library; equal inputs give equal bytes. Its
place: https://peps.python.org/pep-0770/. Its format: https://cyclonedx.org/docs/1.6/json/.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tasks import __version__
from tasks.core.canonical_json import compute_text_sha256, format_canonical_json
from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch, Artifact
from tasks.wheels.build_inputs import BuildInputs, Invocation, SourceInfo

if TYPE_CHECKING:
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component
    from packageurl import PackageURL

SBOM_PATH = "sboms/torchyard.cdx.json"  # in dist-info
_TORCHYARD_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://cyclonedx.org/torchyard")
_GITHUB_URL = "https://github.com/"


def build_sbom(made: BuildInputs) -> str:
    """Return the SBOM. Its serial number is derived from the rest of the document."""
    from cyclonedx.output.json import JsonV1Dot6  # noqa: PLC0415 - only for a new wheel

    bom = _build_bom(made)
    bom.serial_number = uuid.UUID(int=0)
    text = JsonV1Dot6(bom).output_as_string(indent=2)
    bom.serial_number = uuid.uuid5(_TORCHYARD_NAMESPACE, text)
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def build_purl(kind: str, name: str, version: str) -> PackageURL:
    """Return a package URL, also for a GitHub repository.

    See https://github.com/package-url/purl-spec.
    """
    from packageurl import PackageURL  # noqa: PLC0415

    namespace, _, rest = name.rpartition("/")
    return PackageURL(kind, namespace or None, rest, version)


def format_repository_purl(tree: SourceInfo) -> str:
    """Return the package URL of a source, "" unless it is a commit of a GitHub repository."""
    if not tree.url.startswith(_GITHUB_URL) or not tree.commit:
        return ""
    path = tree.url.removeprefix(_GITHUB_URL).removesuffix("/").removesuffix(".git").lower()
    return str(build_purl("github", path, tree.commit)) if path.count("/") == 1 else ""


def _build_bom(made: BuildInputs) -> Bom:
    from cyclonedx.model.bom import Bom, BomMetaData  # noqa: PLC0415
    from cyclonedx.model.component import Component  # noqa: PLC0415

    wheel = Component(
        name=made.name,
        version=made.version,
        bom_ref="wheel",
        purl=build_purl("pypi", made.name.lower(), made.version),
    )
    parts = [*_build_source_components(made.tree), *_build_tool_components(made)]
    when = datetime.datetime.fromtimestamp(made.epoch, datetime.UTC)
    bom = Bom(components=parts, metadata=BomMetaData(component=wheel, timestamp=when))
    bom.register_dependency(wheel, parts)
    return bom


def _build_source_components(tree: SourceInfo) -> Iterator[Component]:
    place = {"repository": tree.url} if tree.url else {}
    edits = {"edits": tree.edits} if tree.edits else {}
    yield _build_component(
        "source",
        tree.url.rpartition("/")[2].removesuffix(".git") or "source",
        tree.commit,
        sha256=tree.digest,
        url=format_repository_purl(tree),
        told={**place, **edits},
    )
    for path, commit in tree.submodules.items():
        yield _build_component(f"submodule:{path}", path, commit)
    for number, digest in enumerate(tree.patches, 1):
        yield _build_component(f"patch:{number}", f"patch {number}", "", sha256=digest)


def _build_tool_components(made: BuildInputs) -> Iterator[Component]:
    """Yield the tools of the build, which are excluded from the wheel's contents."""
    if made.torch:
        properties = {"surface": made.surface}
        url = str(build_purl("pypi", "torch", made.torch))
        yield _build_component("torch", "torch", made.torch, url=url, told=properties, inside=False)
    if made.cuda:
        yield _build_component(
            "cuda", "CUDA toolkit", made.cuda, told={"nvcc": made.cuda}, inside=False
        )
    for line in made.packages:
        requirement = Requirement(line)
        version = str(requirement.specifier).removeprefix("==")
        url = str(build_purl("pypi", requirement.name, version))
        yield _build_component(
            f"package:{requirement.name}", requirement.name, version, url=url, inside=False
        )
    for number, tool in enumerate(made.compilers, 1):
        properties = {"sha256-begins": tool.digest} if tool.digest else {}
        yield _build_component(
            f"compiler:{number}", tool.name, tool.version, told=properties, inside=False
        )


def _build_component(  # noqa: PLR0913 - a component has that many fields
    ref: str,
    name: str,
    version: str,
    *,
    sha256: str = "",
    url: str = "",
    told: dict[str, str] | None = None,
    inside: bool = True,
) -> Component:
    from cyclonedx.model import HashAlgorithm, HashType, Property  # noqa: PLC0415
    from cyclonedx.model.component import Component, ComponentScope, ComponentType  # noqa: PLC0415
    from packageurl import PackageURL  # noqa: PLC0415

    properties = {f"torchyard:{key}": text for key, text in (told or {}).items()}
    kinds = {"patch": ComponentType.FILE, "compiler": ComponentType.APPLICATION}
    return Component(
        name=name,
        version=version or None,
        type=kinds.get(ref.partition(":")[0], ComponentType.LIBRARY),
        bom_ref=ref,
        scope=ComponentScope.REQUIRED if inside else ComponentScope.EXCLUDED,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256)] if sha256 else [],
        purl=PackageURL.from_string(url) if url else None,
        properties=[Property(name=key, value=text) for key, text in properties.items()],
    )


STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"


def build_statement(made: BuildInputs, artifact: Artifact, how: Invocation) -> dict[str, Any]:
    """Return the provenance statement (in-toto, SLSA) as JSON values."""
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": artifact.name, "digest": {"sha256": artifact.sha256}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": {
                "buildType": f"pkg:generic/torchyard#{how.kind}-wheel/v1",
                "externalParameters": {"settings": how.settings},
                "internalParameters": {
                    **(how.resolution if isinstance(how.resolution, dict) else {}),
                    "version": made.version,
                    "sourceDateEpoch": made.epoch,
                    "lock": compute_text_sha256(
                        format_canonical_json(_select_other_packages(made, how))
                    ),
                },
                "resolvedDependencies": [
                    *_list_source_dependencies(made.tree),
                    *_list_tool_dependencies(made),
                    *_list_package_dependencies(made, how),
                ],
            },
            "runDetails": {
                "builder": {
                    "id": f"pkg:generic/torchyard@{__version__}",
                    "version": {"torchyard": __version__},
                },
                "metadata": {"startedOn": how.began, "finishedOn": how.ended},
            },
        },
    }


def _list_source_dependencies(tree: SourceInfo) -> Iterator[dict[str, Any]]:
    digest = {"gitCommit": tree.commit, "sha256": tree.digest}
    yield {
        "name": "source",
        **({"uri": format_repository_purl(tree) or f"git+{tree.url}"} if tree.url else {}),
        "digest": {kind: text for kind, text in digest.items() if text},
        **({"annotations": {"edits": tree.edits}} if tree.edits else {}),
    }
    for path, commit in tree.submodules.items():
        yield {"name": f"submodule:{path}", "digest": {"gitCommit": commit}}
    for number, digest_of in enumerate(tree.patches, 1):
        yield {"name": f"patch:{number}", "digest": {"sha256": digest_of}}


def _list_tool_dependencies(made: BuildInputs) -> Iterator[dict[str, Any]]:
    if made.torch:
        annotations = {"version": made.torch, "surface": made.surface}
        yield {
            "name": "torch",
            "uri": str(build_purl("pypi", "torch", made.torch)),
            "annotations": annotations,
        }
    if made.cuda:
        yield {"name": "cuda", "annotations": {"version": made.cuda}}
    for number, tool in enumerate(made.compilers, 1):
        annotations = {"tool": tool.name, "version": tool.version, "sha256-begins": tool.digest}
        yield {"name": f"compiler:{number}", "annotations": annotations}


def _list_package_dependencies(made: BuildInputs, how: Invocation) -> Iterator[dict[str, Any]]:
    """Yield the packages that provided the toolkit, then all others of the build environment."""
    pinned = {canonicalize_name(Requirement(line).name) for line in made.packages}
    for line in made.packages:
        requirement = Requirement(line)
        url = build_purl("pypi", requirement.name, str(requirement.specifier).removeprefix("=="))
        yield {"name": f"package:{requirement.name}", "uri": str(url)}
    for name, version in _select_other_packages(made, how).items():
        if name not in pinned:
            yield {"name": f"package:{name}", "uri": str(build_purl("pypi", name, version))}


def _select_other_packages(made: BuildInputs, how: Invocation) -> dict[str, str]:
    """Return the installed packages without the built one, which may be installed already."""
    excluded = {"torch", canonicalize_name(made.name)}
    return {
        name: version for name, version in sorted(how.installed.items()) if name not in excluded
    }


# In both documents; the SBOM also lists the toolkit's packages, the statement those of the build
_COMPARED_PARTS = ("source", "submodule:", "patch:", "torch", "cuda", "compiler:")


def find_value(document: Any, *path: str) -> Any:
    """Return the value at a path of keys, None if there is no such key."""
    for key in path:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document


def find_list(document: Any, *path: str) -> list[Any]:
    """Return the list at a path of keys, empty if there is no such list."""
    value = find_value(document, *path)
    return value if isinstance(value, list) else []


def is_about_artifact(statement: Mapping[str, Any], artifact: Artifact) -> bool:
    """Return True if the statement is about this artifact."""
    subject = {"name": artifact.name, "digest": {"sha256": artifact.sha256}}
    return subject in find_list(statement, "subject")


def read_internal_parameter(statement: Mapping[str, Any] | None, key: str) -> Any:
    """Return an internal parameter of the statement: a result of the resolution."""
    return find_value(statement, "predicate", "buildDefinition", "internalParameters", key)


def read_target_archs(statement: Mapping[str, Any] | None) -> list[Arch]:
    """Return the compute capabilities that the wheel was built for; skip malformed ones."""
    archs = read_internal_parameter(statement, "archs")
    return list(_parse_archs(archs)) if isinstance(archs, list) else []


def _parse_archs(found: list[Any]) -> Iterator[Arch]:
    for one in found:
        try:
            yield Arch.parse_capability(str(one))
        except KnowledgeError:
            continue


def read_built_archs(statement: Mapping[str, Any] | None) -> dict[str, tuple[str, ...]]:
    """Return the architectures of each library, as read when it was built."""
    recorded = read_internal_parameter(statement, "held")
    pairs = recorded.items() if isinstance(recorded, Mapping) else ()
    return {str(name): tuple(map(str, archs)) for name, archs in pairs if isinstance(archs, list)}


def find_torch_version(sbom: Mapping[str, Any] | None) -> str:
    """Return the version of torch that an extension was built against."""
    return dict(_list_sbom_versions(sbom)).get("torch", "")


def find_differences(
    sbom: Mapping[str, Any], name: str, version: str, statement: Mapping[str, Any] | None
) -> Iterator[str]:
    """Yield each difference between an SBOM and METADATA or the statement.

    METADATA is compared by name and version, the statement by the sources and tools.
    """
    component = find_value(sbom, "metadata", "component")
    if canonicalize_name(str(find_value(component, "name"))) != canonicalize_name(name):
        yield f"it is about {find_value(component, 'name')}, and METADATA is about {name}"
    if find_value(component, "version") != version:
        yield f"it is about version {find_value(component, 'version')}, and METADATA says {version}"
    if statement is None:
        return
    components, dependencies = (
        dict(_list_sbom_versions(sbom)),
        dict(_list_statement_versions(statement)),
    )
    for ref in sorted({*components, *dependencies}):
        one, other = components.get(ref, "nothing"), dependencies.get(ref, "nothing")
        if one != other:
            yield f"{ref} is {one}, and by the statement {other}"


def _list_sbom_versions(sbom: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    for part in find_list(sbom, "components"):
        ref = str(find_value(part, "bom-ref"))
        if ref.startswith(_COMPARED_PARTS):
            digests = [find_value(one, "content") for one in find_list(part, "hashes")]
            yield ref, str(find_value(part, "version") or next(iter(digests), ""))


def _list_statement_versions(statement: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for part in find_list(statement, "predicate", "buildDefinition", "resolvedDependencies"):
        ref, digest = str(find_value(part, "name")), find_value(part, "digest")
        if ref.startswith(_COMPARED_PARTS):
            version = find_value(part, "annotations", "version")
            yield (
                ref,
                str(
                    find_value(digest, "gitCommit") or find_value(digest, "sha256") or version or ""
                ),
            )
