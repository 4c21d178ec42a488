"""Build the SBOM (CycloneDX 1.6, PEP 770) and the provenance statement of a wheel."""

import contextlib
import datetime
import uuid
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from cyclonedx.model.component import Component
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tasks import __version__
from tasks.core.canonical_json import compute_text_sha256, format_canonical_json
from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch, Artifact
from tasks.wheels.build_inputs import BuildInputs, Invocation, SourceInfo

_JsonObject = dict[str, Any]
SBOM_PATH = "sboms/torchyard.cdx.json"  # path relative to dist-info
_TORCHYARD_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://cyclonedx.org/torchyard")
_GITHUB_URL = "https://github.com/"


def build_sbom(inputs: BuildInputs) -> str:
    """Return the SBOM as JSON. Equal inputs give equal texts, including the serial number."""
    from cyclonedx.model.bom import Bom, BomMetaData  # noqa: PLC0415 - needed only for a new wheel
    from cyclonedx.model.component import Component  # noqa: PLC0415
    from cyclonedx.output.json import JsonV1Dot6  # noqa: PLC0415
    from packageurl import PackageURL  # noqa: PLC0415

    purl = PackageURL("pypi", name=inputs.name.lower(), version=inputs.version)
    wheel = Component(name=inputs.name, version=inputs.version, bom_ref="wheel", purl=purl)
    parts = list(_build_components(inputs))
    when = datetime.datetime.fromtimestamp(inputs.epoch, datetime.UTC)
    bom = Bom(components=parts, metadata=BomMetaData(component=wheel, timestamp=when))
    bom.register_dependency(wheel, parts)
    bom.serial_number = uuid.UUID(int=0)
    text = JsonV1Dot6(bom).output_as_string(indent=2)
    bom.serial_number = uuid.uuid5(_TORCHYARD_NAMESPACE, text)
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def _format_purl(kind: str, name: str, version: str) -> str:
    """Return a package URL (https://github.com/package-url/purl-spec) of type `kind`."""
    from packageurl import PackageURL  # noqa: PLC0415

    namespace, _, rest = name.rpartition("/")
    return str(PackageURL(kind, namespace or None, rest, version))


def _format_repository_purl(tree: SourceInfo) -> str:
    """Return the package URL of a commit on GitHub, or an empty string for any other source."""
    if not tree.url.startswith(_GITHUB_URL) or not tree.commit:
        return ""
    path = tree.url.removeprefix(_GITHUB_URL).removesuffix("/").removesuffix(".git").lower()
    return _format_purl("github", path, tree.commit) if path.count("/") == 1 else ""


def _build_components(inputs: BuildInputs) -> Iterator[Component]:
    """Yield the components: the sources, then the tools and packages that only the build used."""
    tree = inputs.tree
    properties = {"repository": tree.url, "edits": tree.edits}
    yield _build_component(
        "source",
        tree.url.rpartition("/")[2].removesuffix(".git") or "source",
        tree.commit,
        sha256=tree.digest,
        url=_format_repository_purl(tree),
        properties={key: text for key, text in properties.items() if text},
    )
    for path, commit in tree.submodules.items():
        yield _build_component(f"submodule:{path}", path, commit)
    for number, digest in enumerate(tree.patches, 1):
        yield _build_component(f"patch:{number}", f"patch {number}", "", sha256=digest)

    if version := inputs.torch:
        url, surface = _format_purl("pypi", "torch", version), {"surface": inputs.surface}
        yield _build_component("torch", "torch", version, url=url, properties=surface)
    if version := inputs.cuda:
        yield _build_component("cuda", "CUDA toolkit", version, properties={"nvcc": version})
    for name, version in _parse_pinned_packages(inputs).items():
        url = _format_purl("pypi", name, version)
        yield _build_component(f"package:{name}", name, version, url=url)
    for number, tool in enumerate(inputs.compilers, 1):
        ref, known = f"compiler:{number}", {"sha256-begins": tool.digest} if tool.digest else {}
        yield _build_component(ref, tool.name, tool.version, properties=known)


def _parse_pinned_packages(inputs: BuildInputs) -> dict[str, str]:
    """Return the name and version of each package from which the CUDA toolkit was installed."""
    requirements = map(Requirement, inputs.packages)
    return {one.name: str(one.specifier).removeprefix("==") for one in requirements}


def _build_component(  # noqa: PLR0913 - a component has that many fields
    ref: str,
    name: str,
    version: str,
    *,
    sha256: str = "",
    url: str = "",
    properties: Mapping[str, str] = MappingProxyType({}),
) -> Component:
    from cyclonedx.model import HashAlgorithm, HashType, Property  # noqa: PLC0415
    from cyclonedx.model.component import Component, ComponentScope, ComponentType  # noqa: PLC0415
    from packageurl import PackageURL  # noqa: PLC0415

    kinds = {"patch": ComponentType.FILE, "compiler": ComponentType.APPLICATION}
    kind = ref.partition(":")[0]
    is_source = kind in ("source", "submodule", "patch")  # other components are not in the wheel
    return Component(
        name=name,
        version=version or None,
        type=kinds.get(kind, ComponentType.LIBRARY),
        bom_ref=ref,
        scope=ComponentScope.REQUIRED if is_source else ComponentScope.EXCLUDED,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256)] if sha256 else [],
        purl=PackageURL.from_string(url) if url else None,
        properties=[Property(name=f"torchyard:{k}", value=text) for k, text in properties.items()],
    )


STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"


def build_statement(inputs: BuildInputs, artifact: Artifact, invocation: Invocation) -> _JsonObject:
    """Return the provenance statement (in-toto, SLSA) of a wheel as a JSON object."""
    # The built package is excluded, because it may be installed already
    excluded = {"torch", canonicalize_name(inputs.name)}
    installed = {n: v for n, v in sorted(invocation.installed.items()) if n not in excluded}
    resolution = invocation.resolution if isinstance(invocation.resolution, dict) else {}
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": artifact.name, "digest": {"sha256": artifact.sha256}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": {
                "buildType": f"pkg:generic/torchyard#{invocation.kind}-wheel/v1",
                "externalParameters": {"settings": invocation.settings},
                "internalParameters": {
                    **resolution,
                    "version": inputs.version,
                    "sourceDateEpoch": inputs.epoch,
                    "lock": compute_text_sha256(format_canonical_json(installed)),
                },
                "resolvedDependencies": list(_list_dependencies(inputs, installed)),
            },
            "runDetails": {
                "builder": {
                    "id": f"pkg:generic/torchyard@{__version__}",
                    "version": {"torchyard": __version__},
                },
                "metadata": {"startedOn": invocation.began, "finishedOn": invocation.ended},
            },
        },
    }


def _list_dependencies(inputs: BuildInputs, installed: Mapping[str, str]) -> Iterator[_JsonObject]:
    """Yield the dependencies: sources, torch, tools, packages of the toolkit, other packages."""
    tree = inputs.tree
    digest = {"gitCommit": tree.commit, "sha256": tree.digest}
    yield {
        "name": "source",
        **({"uri": _format_repository_purl(tree) or f"git+{tree.url}"} if tree.url else {}),
        "digest": {kind: text for kind, text in digest.items() if text},
        **({"annotations": {"edits": tree.edits}} if tree.edits else {}),
    }
    for path, commit in tree.submodules.items():
        yield {"name": f"submodule:{path}", "digest": {"gitCommit": commit}}
    for number, patch in enumerate(tree.patches, 1):
        yield {"name": f"patch:{number}", "digest": {"sha256": patch}}
    if inputs.torch:
        annotations = {"version": inputs.torch, "surface": inputs.surface}
        url = _format_purl("pypi", "torch", inputs.torch)
        yield {"name": "torch", "uri": url, "annotations": annotations}
    if inputs.cuda:
        yield {"name": "cuda", "annotations": {"version": inputs.cuda}}
    for number, tool in enumerate(inputs.compilers, 1):
        annotations = {"tool": tool.name, "version": tool.version, "sha256-begins": tool.digest}
        yield {"name": f"compiler:{number}", "annotations": annotations}
    pinned = _parse_pinned_packages(inputs)
    names = set(map(canonicalize_name, pinned))
    others = {name: version for name, version in installed.items() if name not in names}
    for name, version in (*pinned.items(), *others.items()):
        yield {"name": f"package:{name}", "uri": _format_purl("pypi", name, version)}


# The entries that the SBOM and the statement must share. Packages may be in only one of them
_COMPARED_PARTS = ("source", "submodule:", "patch:", "torch", "cuda", "compiler:")


def _find_value(document: Any, *path: str) -> Any:
    """Return the value at a path of keys in a JSON document, or None if a key is missing."""
    for key in path:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document


def find_list(document: Any, *path: str) -> list[Any]:
    """Return the list at a path of keys in a JSON document, or [] if there is no list."""
    value = _find_value(document, *path)
    return value if isinstance(value, list) else []


_PARAMETERS_PATH = ("predicate", "buildDefinition", "internalParameters")


def read_target_archs(statement: Mapping[str, Any] | None) -> list[Arch]:
    """Return the target GPU architectures in a statement; skip malformed entries."""
    archs = []
    for text in find_list(statement, *_PARAMETERS_PATH, "archs"):
        with contextlib.suppress(KnowledgeError):
            archs.append(Arch.parse_capability(str(text)))
    return archs


def read_built_archs(statement: Mapping[str, Any] | None) -> dict[str, tuple[str, ...]]:
    """Return the GPU architectures of each library, as the build recorded them in the statement."""
    recorded = _find_value(statement, *_PARAMETERS_PATH, "held")
    pairs = recorded.items() if isinstance(recorded, Mapping) else ()
    return {str(name): tuple(map(str, archs)) for name, archs in pairs if isinstance(archs, list)}


def find_torch_version(sbom: Mapping[str, Any] | None) -> str:
    """Return the torch version that an extension was built against, or an empty string."""
    return _list_sbom_versions(sbom).get("torch", "")


def find_differences(
    sbom: Mapping[str, Any], name: str, version: str, statement: Mapping[str, Any] | None
) -> Iterator[str]:
    """Yield the contradictions between an SBOM and METADATA (`name`, `version`) or `statement`."""
    component = _find_value(sbom, "metadata", "component")
    sbom_name, sbom_version = (_find_value(component, key) for key in ("name", "version"))
    if canonicalize_name(str(sbom_name)) != canonicalize_name(name):
        yield f"the SBOM is about {sbom_name}, but METADATA names {name}"
    if sbom_version != version:
        yield f"the SBOM is about version {sbom_version}, but METADATA names version {version}"
    if statement is None:
        return
    in_sbom, in_statement = _list_sbom_versions(sbom), {}
    for part in find_list(statement, "predicate", "buildDefinition", "resolvedDependencies"):
        digest = _find_value(part, "digest")
        commit = _find_value(digest, "gitCommit") or _find_value(digest, "sha256")
        found = commit or _find_value(part, "annotations", "version") or ""
        in_statement[str(_find_value(part, "name"))] = str(found)
    for ref in sorted(in_sbom.keys() | in_statement.keys()):
        versions = in_sbom.get(ref, "missing"), in_statement.get(ref, "missing")
        if ref.startswith(_COMPARED_PARTS) and versions[0] != versions[1]:
            yield f"{ref} is {versions[0]} in the SBOM, but {versions[1]} in the statement"


def _list_sbom_versions(sbom: Mapping[str, Any] | None) -> dict[str, str]:
    versions = {}
    for part in find_list(sbom, "components"):
        digests = [_find_value(one, "content") for one in find_list(part, "hashes")]
        found = _find_value(part, "version") or next(iter(digests), "")
        versions[str(_find_value(part, "bom-ref"))] = str(found)
    return versions
