"""Manifests, and the records beside them: what came out, and why a stage runs again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import pytest

from tasks.core.errors import TorchyardError
from tasks.core.model import Json, Stage
from tasks.core.text_formatting import format_short_reasons
from tasks.runlog import stage_record_io
from tasks.system import manifests


@dataclass(frozen=True)
class Outcome:
    version: str
    archs: tuple[str, ...]
    at: PurePosixPath
    notes: Mapping[str, str]
    cuda: str | None = None


GOOD = Outcome("2.15.0", ("12.0",), PurePosixPath("/x"), {"b": "2", "a": "ü"})


def test_what_is_published_is_read_back_typed(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "wheel.json"
    manifests.write_manifest(path, GOOD)
    assert manifests.read_manifest(path, Outcome) == GOOD


def test_the_same_outputs_have_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "wheel.json"
    manifests.write_manifest(path, GOOD)
    first = path.read_bytes()
    manifests.write_manifest(path, replace(GOOD, notes={"a": "ü", "b": "2"}))
    assert path.read_bytes() == first
    assert first.endswith(b'"version": "2.15.0"\n}\n')


def test_a_withdrawn_manifest_is_gone(tmp_path: Path) -> None:
    manifests.write_manifest(tmp_path / "wheel.json", GOOD)
    manifests.remove_manifests(tmp_path / "wheel.json", tmp_path / "surface.json")
    with pytest.raises(TorchyardError) as told:
        manifests.read_manifest(tmp_path / "wheel.json", Outcome)
    assert str(told.value) == (
        f"{tmp_path / 'wheel.json'}: this manifest does not exist\n  → run doit build"
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"version": "2',
        b"\xff\xfe",
        b"[]",
        b'{"version": 2, "archs": [], "at": "/x", "notes": {}}',
        b'{"version": "2.15.0"}',
    ],
)
def test_a_manifest_that_cannot_be_read_is_told_with_the_way_on(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "wheel.json"
    path.write_bytes(content)
    with pytest.raises(TorchyardError) as told:
        manifests.read_manifest(path, Outcome)
    assert str(told.value) == (
        f"{path}: this manifest cannot be read\n"
        "  → remove this file, then run doit build to create wheel again"
    )


def stage(folder: Path, **inputs: Json) -> Stage:
    return Stage(
        name="wheel",
        kind="wheel",
        doc="",
        job=None,
        fingerprint=inputs,
        outputs=(folder / "wheel.json", folder / "surface.json"),
        inputs=(folder / "deps.json",),
        extra_outputs=(folder / "env.sh",),
    )


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """The folder of a stage with the inputs cuda 13.0 that ran to its end."""
    for name in ("wheel.json", "surface.json", "deps.json", "env.sh"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    stage_record_io.write_stage_record(stage(tmp_path, cuda="13.0"), "first time", 1.23456, "0.1.0")
    return tmp_path


def reason_of(stage: Stage) -> str:
    reasons = stage_record_io.find_rebuild_reasons(stage)
    default = stage_record_io.DEFAULT_REASONS[stage.uptodate_check]
    return format_short_reasons(reasons) if reasons else default


def test_a_record_tells_how_it_went(finished: Path) -> None:
    record = stage_record_io.read_last_record(stage(finished))
    assert record is not None
    assert (record["stage"], record["reason"], record["seconds"]) == ("wheel", "first time", 1.235)
    assert record["inputs"] == {"cuda": "13.0"}
    assert list(record["reads"]) == ["deps.json"]
    assert manifests.build_record_path(finished / "wheel.json").name == "wheel.record.json"


def test_a_stage_without_a_record_runs_for_the_first_time(tmp_path: Path) -> None:
    assert reason_of(stage(tmp_path, cuda="13.0")) == "first time"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"7", b'{"inputs": {}}', b"\xff"])
def test_a_record_that_cannot_be_read_counts_as_none(finished: Path, content: bytes) -> None:
    (finished / "wheel.record.json").write_bytes(content)
    assert reason_of(stage(finished, cuda="13.0")) == "first time"


def test_a_changed_input_is_the_reason(finished: Path) -> None:
    assert reason_of(stage(finished, cuda="13.2")) == "CUDA: now 13.2, was 13.0"
    assert reason_of(stage(finished, cuda="13.2", index="x", local=None)) == (
        "CUDA: now 13.2, was 13.0 (and 2 more)"
    )
    assert reason_of(stage(finished)) == "CUDA: now not set, was 13.0"


def test_a_password_in_a_changed_input_is_not_shown(finished: Path) -> None:
    shown = reason_of(stage(finished, cuda="https://me:secret@host/" + "x" * 80))
    assert "secret" not in shown
    assert "https://***@host/" in shown


def test_a_changed_manifest_of_an_earlier_stage_is_the_reason(finished: Path) -> None:
    (finished / "deps.json").write_text("other", encoding="utf-8")
    assert reason_of(stage(finished, cuda="13.0")) == "deps.json changed"


def test_a_missing_result_is_the_reason(finished: Path) -> None:
    (finished / "env.sh").unlink()
    assert reason_of(stage(finished, cuda="13.0")) == "env.sh is missing"
    (finished / "surface.json").unlink()
    assert reason_of(stage(finished, cuda="13.0")) == "surface.json, env.sh is missing"


def test_a_manifest_that_was_withdrawn_is_missing_for_a_reason(finished: Path) -> None:
    (finished / "wheel.json").unlink()
    told = reason_of(stage(finished, cuda="13.0"))
    assert told == "wheel.json is missing, as after a failure or doit clean"
    stage_record_io.note_removal(finished / "wheel.json", "doit restore")
    told = reason_of(stage(finished, cuda="13.0"))
    assert told == "wheel.json is missing: doit restore removed it"


def test_a_stage_that_asks_outside_says_so(finished: Path) -> None:
    same = stage(finished, cuda="13.0")
    assert reason_of(same) == "the last run failed or did not finish"
    assert reason_of(replace(same, uptodate_check="always")) == "looked at every time"
    assert reason_of(replace(same, uptodate_check="stale")) == (
        "the source or results of the stage were changed, or could not be reached"
    )
