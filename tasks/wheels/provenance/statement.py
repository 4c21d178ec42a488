"""The statement beside a wheel: in-toto's, with the provenance of SLSA in it.

Forms: https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md and
https://slsa.dev/spec/v1.0/provenance. It is not signed: it says what was done, and proves nothing
to who does not trust this machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tasks import __version__
from tasks.core.digest import compute_text_sha256, format_canonical_json
from tasks.core.model import Artifact
from tasks.wheels.provenance.made import BuildInputs, Invocation, SourceInfo
from tasks.wheels.provenance.sbom import build_purl, format_repository_purl

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"


def build_statement(made: BuildInputs, artifact: Artifact, how: Invocation) -> dict[str, Any]:
    """The whole document, as JSON values."""
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
        told = {"version": made.torch, "surface": made.surface}
        yield {
            "name": "torch",
            "uri": str(build_purl("pypi", "torch", made.torch)),
            "annotations": told,
        }
    if made.cuda:
        yield {"name": "cuda", "annotations": {"version": made.cuda}}
    for number, tool in enumerate(made.compilers, 1):
        told = {"tool": tool.name, "version": tool.version, "sha256-begins": tool.digest}
        yield {"name": f"compiler:{number}", "annotations": told}


def _list_package_dependencies(made: BuildInputs, how: Invocation) -> Iterator[dict[str, Any]]:
    """Those that made the toolkit, and all else that was in the environment of the build."""
    pinned = {canonicalize_name(Requirement(line).name) for line in made.packages}
    for line in made.packages:
        asked = Requirement(line)
        url = build_purl("pypi", asked.name, str(asked.specifier).removeprefix("=="))
        yield {"name": f"package:{asked.name}", "uri": str(url)}
    for name, version in _select_other_packages(made, how).items():
        if name not in pinned:
            yield {"name": f"package:{name}", "uri": str(build_purl("pypi", name, version))}


def _select_other_packages(made: BuildInputs, how: Invocation) -> dict[str, str]:
    """Without what was built: it, or one before it, may be there already."""
    ours = {"torch", canonicalize_name(made.name)}
    return {name: one for name, one in sorted(how.installed.items()) if name not in ours}
