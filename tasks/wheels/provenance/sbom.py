"""The SBOM that a wheel carries: CycloneDX 1.6, by its own library, the same bytes for the same
inputs.

Where it lies: https://peps.python.org/pep-0770/. Form: https://cyclonedx.org/docs/1.6/json/.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from tasks.wheels.provenance.made import BuildInputs, SourceInfo

if TYPE_CHECKING:
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component
    from packageurl import PackageURL

SBOM_PATH = "sboms/torchyard.cdx.json"  # in dist-info
_TORCHYARD_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://cyclonedx.org/torchyard")
_GITHUB_URL = "https://github.com/"


def build_sbom(made: BuildInputs) -> str:
    """The document; its serial number is made from all else that is in it."""
    from cyclonedx.output.json import JsonV1Dot6  # noqa: PLC0415 - only where a wheel is made

    bom = _build_bom(made)
    bom.serial_number = uuid.UUID(int=0)
    text = JsonV1Dot6(bom).output_as_string(indent=2)
    bom.serial_number = uuid.uuid5(_TORCHYARD_NAMESPACE, text)
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def build_purl(kind: str, name: str, version: str) -> PackageURL:
    """A package URL (https://github.com/package-url/purl-spec); of a GitHub repository too."""
    from packageurl import PackageURL  # noqa: PLC0415

    namespace, _, rest = name.rpartition("/")
    return PackageURL(kind, namespace or None, rest, version)


def format_repository_purl(tree: SourceInfo) -> str:
    """The package URL of a source, "" where its place may not be told or has no such name."""
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
    """What the wheel was made with, and is no part of it."""
    if made.torch:
        told = {"surface": made.surface}
        url = str(build_purl("pypi", "torch", made.torch))
        yield _build_component("torch", "torch", made.torch, url=url, told=told, inside=False)
    if made.cuda:
        yield _build_component(
            "cuda", "CUDA toolkit", made.cuda, told={"nvcc": made.cuda}, inside=False
        )
    for line in made.packages:
        asked = Requirement(line)
        version = str(asked.specifier).removeprefix("==")
        url = str(build_purl("pypi", asked.name, version))
        yield _build_component(f"package:{asked.name}", asked.name, version, url=url, inside=False)
    for number, tool in enumerate(made.compilers, 1):
        told = {"sha256-begins": tool.digest} if tool.digest else {}
        yield _build_component(
            f"compiler:{number}", tool.name, tool.version, told=told, inside=False
        )


def _build_component(  # noqa: PLR0913 - a component is that much
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

    more = {f"torchyard:{key}": text for key, text in (told or {}).items()}
    kinds = {"patch": ComponentType.FILE, "compiler": ComponentType.APPLICATION}
    return Component(
        name=name,
        version=version or None,
        type=kinds.get(ref.partition(":")[0], ComponentType.LIBRARY),
        bom_ref=ref,
        scope=ComponentScope.REQUIRED if inside else ComponentScope.EXCLUDED,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256)] if sha256 else [],
        purl=PackageURL.from_string(url) if url else None,
        properties=[Property(name=key, value=text) for key, text in more.items()],
    )
