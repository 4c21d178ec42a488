"""The two documents of a wheel are reproducible and leak no secrets."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

from cyclonedx.model.bom import Bom
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tasks.core.model import Artifact
from tasks.wheels.build_inputs import (
    EARLIEST_TIMESTAMP,
    BuildInputs,
    BuildTool,
    Invocation,
    SourceInfo,
    add_source_date,
    redact_json,
)
from tasks.wheels.provenance_documents import build_sbom, build_statement

TREE = SourceInfo(
    url="https://github.com/pytorch/pytorch.git",
    commit="1a2b" * 10,
    edits="ed" * 32,
    submodules={"third_party/fmt": "3c4d" * 10, "third_party/gloo": "5e6f" * 10},
    patches=("aa" * 32, "bb" * 32),
)
TORCH = BuildInputs(
    "torch",
    "2.6.0+cu130.sm120.g1a2b1a2",
    TREE,
    1_795_321_330,
    (BuildTool("gcc", "12.2.0", "75e997ec62297a64"), BuildTool("gcc", "12.2.0")),
    cuda="13.0.88",
    packages=("nvidia-cuda-nvcc==13.0.88", "nvidia-cuda-runtime==13.0.96"),
)
EXTENSION = BuildInputs(
    "toy",
    "1.0+torch2.6.0",
    SourceInfo(digest="cc" * 32),
    EARLIEST_TIMESTAMP,
    (),
    torch="2.6.0",
    surface="3af753f7",
)
HOW = Invocation(
    "torch",
    {"torch": {"version": "2.6.0"}},
    {"archs": ["12.0"]},
    {"torch": "2.6.0", "ninja": "1.13.2", "nvidia-cuda-nvcc": "13.0.88"},
    "2026-11-21T14:00:00+00:00",
    "2026-11-21T14:01:00+00:00",
)


def parts(made: BuildInputs) -> dict[str, Any]:
    return {one["bom-ref"]: one for one in json.loads(build_sbom(made))["components"]}


def test_sbom_is_valid_by_cyclonedx_schema() -> None:
    for made in (TORCH, EXTENSION):
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(build_sbom(made)) is None
        bom = cast(Any, Bom).from_json(json.loads(build_sbom(made)))
        assert bom.metadata.component.version == made.version
        assert str(bom.metadata.component.purl).startswith(f"pkg:pypi/{made.name}@")


def test_same_inputs_give_same_bytes_and_other_inputs_another_serial() -> None:
    assert build_sbom(TORCH) == build_sbom(TORCH)
    other = replace(TORCH, tree=replace(TREE, commit="9" * 40))
    serials = {json.loads(build_sbom(made))["serialNumber"] for made in (TORCH, other, EXTENSION)}
    assert len(serials) == 3
    assert all(serial.split("-")[2].startswith("5") for serial in serials)


def test_sbom_lists_source_submodules_patches_toolkit_and_compilers() -> None:
    found = parts(TORCH)
    assert found["source"]["version"] == TREE.commit
    assert found["source"]["purl"] == f"pkg:github/pytorch/pytorch@{TREE.commit}"
    assert {"name": "torchyard:edits", "value": TREE.edits} in found["source"]["properties"]
    assert found["submodule:third_party/fmt"]["version"] == "3c4d" * 10
    assert found["patch:2"]["hashes"] == [{"alg": "SHA-256", "content": "bb" * 32}]
    assert found["cuda"]["version"] == "13.0.88"
    assert found["package:nvidia-cuda-nvcc"]["purl"] == "pkg:pypi/nvidia-cuda-nvcc@13.0.88"
    assert [found[f"compiler:{number}"]["name"] for number in (1, 2)] == ["gcc", "gcc"]
    excluded = {ref for ref, one in found.items() if one["scope"] == "excluded"}
    assert {ref.partition(":")[0] for ref in excluded} == {"cuda", "package", "compiler"}
    assert json.loads(build_sbom(TORCH))["metadata"]["timestamp"] == "2026-11-22T04:22:10+00:00"


def test_extension_sbom_names_the_torch_it_was_built_against() -> None:
    torch = parts(EXTENSION)["torch"]
    assert torch["version"] == "2.6.0"
    assert torch["properties"] == [{"name": "torchyard:surface", "value": "3af753f7"}]


def test_statement_is_in_toto_with_slsa_provenance() -> None:
    result = build_statement(TORCH, Artifact("torch.whl", "ab" * 32, 1), HOW)
    assert result["_type"] == "https://in-toto.io/Statement/v1"
    assert result["predicateType"] == "https://slsa.dev/provenance/v1"
    assert result["subject"] == [{"name": "torch.whl", "digest": {"sha256": "ab" * 32}}]
    definition = result["predicate"]["buildDefinition"]
    assert definition["externalParameters"]["settings"] == {"torch": {"version": "2.6.0"}}
    assert definition["internalParameters"]["archs"] == ["12.0"]
    named = {one["name"]: one for one in definition["resolvedDependencies"]}
    assert named["source"]["digest"] == {"gitCommit": TREE.commit}
    assert named["submodule:third_party/gloo"]["digest"]["gitCommit"] == "5e6f" * 10
    assert named["package:ninja"]["uri"] == "pkg:pypi/ninja@1.13.2"
    names = [one["name"] for one in definition["resolvedDependencies"]]
    assert len(names) == len(set(names))
    assert "package:torch" not in named
    details = result["predicate"]["runDetails"]
    assert details["metadata"]["startedOn"] == HOW.began
    assert details["builder"]["id"].startswith("pkg:generic/torchyard@")


def test_lock_digest_covers_build_inputs_but_not_outputs() -> None:
    def lock(installed: dict[str, str]) -> str:
        result = build_statement(TORCH, Artifact("a", "b", 1), replace(HOW, installed=installed))
        return str(result["predicate"]["buildDefinition"]["internalParameters"]["lock"])

    assert lock({"ninja": "1"}) == lock({"ninja": "1", "torch": "2.6.0"})
    assert lock({"ninja": "1"}) != lock({"ninja": "2"})


def test_documents_contain_no_secrets_or_local_paths() -> None:
    folders = {"/home/me": "~", "/home/me/yard": "{checkout}", "": "{nothing}"}
    settings = {
        "git": "https://me:hunter2@example.org/a.git",
        "env": {"MY_TOKEN": "hunter2", "LIKE": "-I/home/me/yard/x -L/home/me/y"},
        "list": ["/home/me/yard", 1, None],
    }
    result = redact_json(settings, folders)
    assert "hunter2" not in json.dumps(result)
    assert result == {
        "git": "https://***@example.org/a.git",
        "env": {"MY_TOKEN": "***", "LIKE": "-I{checkout}/x -L~/y"},
        "list": ["{checkout}", 1, None],
    }


def test_user_source_date_epoch_is_used_but_not_before_1980() -> None:
    assert add_source_date({"A": "b"}, 2_000_000_000)["SOURCE_DATE_EPOCH"] == "2000000000"
    assert add_source_date({}, 0)["SOURCE_DATE_EPOCH"] == str(EARLIEST_TIMESTAMP)
    assert add_source_date({"SOURCE_DATE_EPOCH": "7"}, 2_000_000_000)["SOURCE_DATE_EPOCH"] == "7"
