"""Tests of rebuild reasons: which header or symbol of torch changed."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePath

import pytest

from tasks.cli.commands.explain import explain_stages
from tasks.cli.running import rebuild_reason
from tasks.core.model import Layout, Plan, Stage
from tasks.core.project import Project
from tasks.runlog import stage_record_io
from tasks.settings.schema import parse_settings
from tasks.stages import abi_fingerprint_store_io
from tasks.stages.extensions.explain_changes import find_abi_differences
from tasks.stages.extensions.model import BuiltExtension, ExtensionJob
from tasks.stages.extensions.plan import plan_extension
from tasks.stages.wheel.model import AbiDetails, AbiFingerprint
from tasks.system import manifests
from tests.support.actionyard import CHOICE
from tests.support.checkout import KNOWLEDGE

C10, CPU = "torch/lib/libc10.so", "torch/lib/libtorch_cpu.so"
FAIL = (
    "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
)
HEADERS = {"torch/include/c10/util/Exception.h": "1", "torch/include/ATen/a.h": "1",
           "torch/share/cmake/Torch/TorchConfig.cmake": "1"}  # fmt: skip
BEFORE = AbiDetails(
    AbiFingerprint("2.15.0", "13.2", "cp312", "h", "s", True, 20, "env-1"),
    HEADERS,
    {C10: ("answer", FAIL), CPU: ("add",)},
)


def after(
    headers: Mapping[str, str] | None = None,
    symbols: Mapping[str, tuple[str, ...]] | None = None,
    **facts: object,
) -> AbiDetails:
    surface = replace(BEFORE.surface, headers="h2", symbols="s2", **facts)  # type: ignore[arg-type]
    return AbiDetails(surface, headers or HEADERS, symbols or BEFORE.symbols)


def differences(now: AbiDetails) -> list[str]:
    return list(find_abi_differences(BEFORE, now, str))


def test_first_header_is_named_and_others_are_counted() -> None:
    edited = dict.fromkeys(HEADERS, "2")
    assert differences(after(edited)) == ["torch/include/ATen/a.h changed (and 2 more files)"]
    del edited["torch/share/cmake/Torch/TorchConfig.cmake"]
    more = {**edited, "torch/include/b.h": "1"}
    assert differences(after({**HEADERS, **more})) == [
        "torch/include/ATen/a.h changed (and 2 more headers)"
    ]
    gone = {name: digest for name, digest in HEADERS.items() if "Exception" not in name}
    assert differences(after(gone)) == ["torch/include/c10/util/Exception.h was removed"]
    assert differences(after({**HEADERS, "torch/include/new.h": "1"})) == [
        "torch/include/new.h was added"
    ]


def test_removed_and_added_symbols_are_named_by_library() -> None:
    now = {C10: ("answer", "one", "other"), CPU: ("add",), "torch/lib/libtorch_python.so": ()}
    assert differences(after(symbols=now)) == [
        f"libc10.so no longer exports {FAIL}",
        "libc10.so now exports one (and 1 more symbol)",
        "libtorch_python.so was added",
    ]
    assert differences(after(symbols={C10: BEFORE.symbols[C10]})) == ["libtorch_cpu.so was removed"]


def test_changed_release_hides_its_consequences() -> None:
    now = after({}, {C10: ("another",)}, release="2.16.0")
    assert differences(now) == ["torch: now 2.16.0, was 2.15.0"]
    assert differences(after(cuda="13.0", cxx_standard=23)) == [
        "CUDA: now 13.0, was 13.2",
        "C++ standard: now 23, was 20",
    ]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """Return the stage of an extension that was built for the ABI fingerprint BEFORE."""
    listed = parse_settings({"extensions": [{"name": "toy", "path": "toy"}]})
    layout = Layout(Project.of_checkout(tmp_path), "p", tmp_path / "wheelhouse")
    found = plan_extension(listed.extensions[0], listed, layout, CHOICE, KNOWLEDGE)
    for path in found.inputs:
        manifests.write_manifest(path, {})
    show(found, BEFORE)
    built = BuiltExtension("toy", "built", {}, surface=BEFORE.surface.name)
    manifests.write_manifest(found.job.manifest, built)
    stage_record_io.write_stage_record(found, "first time", 1.0, "0.1.0")
    return found


def show(stage: Stage, parts: AbiDetails) -> None:
    """Write the ABI details that the wheel stage writes."""
    job: ExtensionJob = stage.job
    manifests.write_manifest(job.layout.compute_manifest_path("surface"), parts.surface)
    abi_fingerprint_store_io.store_fingerprint_parts(job.layout.abi_fingerprints, parts)


EDITED = {**HEADERS, "torch/include/c10/util/Exception.h": "2"}
LOST = {C10: ("answer",), CPU: ("add",)}


def test_rebuild_reason_names_changed_header(stage: Stage) -> None:
    show(stage, after(EDITED))
    assert (
        rebuild_reason.format_rebuild_reason(stage) == "torch/include/c10/util/Exception.h changed"
    )


@pytest.mark.skipif(not shutil.which("c++filt"), reason="not run: needs c++filt")
def test_symbol_is_demangled(stage: Stage) -> None:
    show(stage, after(symbols=LOST))
    assert rebuild_reason.format_rebuild_reason(stage) == (
        "libc10.so no longer exports c10::detail::torchCheckFail(…)"
    )
    show(stage, after(EDITED, {**BEFORE.symbols, C10: ("answer", FAIL, "_ZN3c103newEi")}))
    assert rebuild_reason.list_rebuild_reasons(stage) == (
        "torch/include/c10/util/Exception.h changed",
        "libc10.so now exports c10::new(int)",
    )
    assert (
        rebuild_reason.format_rebuild_reason(stage)
        == "torch/include/c10/util/Exception.h changed (and 1 more)"
    )


def test_explain_names_changed_header(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    show(stage, after(EDITED))
    (verdict,) = explain_stages(Plan((replace(stage, uptodate_check=""),), stage, ()))
    assert verdict.verdict == "runs"
    assert verdict.reasons == ("torch/include/c10/util/Exception.h changed",)


def test_recreated_environment_is_reported(stage: Stage) -> None:
    show(stage, replace(BEFORE, surface=replace(BEFORE.surface, identity="env-2")))
    assert rebuild_reason.format_rebuild_reason(stage) == "the environment was created again"


def test_other_changed_manifest_is_reported_too(stage: Stage) -> None:
    show(stage, after(EDITED))
    manifests.write_manifest(stage.inputs[0], {"python": "other"})
    assert rebuild_reason.list_rebuild_reasons(stage) == (
        "torch/include/c10/util/Exception.h changed",
        "deps.json changed",
    )


def forget(path: PurePath) -> None:
    Path(path).unlink()


def test_missing_details_yield_general_reason(stage: Stage) -> None:
    show(stage, after(EDITED))
    forget(stage.job.layout.abi_fingerprints / f"{BEFORE.surface.name}.json.gz")
    assert rebuild_reason.format_rebuild_reason(stage) == "surface.json changed"
    show(stage, BEFORE)
    show(stage, after(EDITED))
    manifests.write_manifest(
        stage.job.manifest, BuiltExtension("toy", "built", {})
    )  # from an earlier torchyard
    assert rebuild_reason.format_rebuild_reason(stage) == "surface.json changed"
    forget(stage.job.manifest)  # its last run did not finish
    assert rebuild_reason.format_rebuild_reason(stage) == "surface.json changed"


def test_stage_without_explained_inputs_yields_general_reason(stage: Stage) -> None:
    show(stage, after(EDITED))
    assert (
        rebuild_reason.format_rebuild_reason(replace(stage, explained_inputs=()))
        == "surface.json changed"
    )
