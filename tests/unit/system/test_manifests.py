"""Manifests and stage records: the outputs, and why a stage runs again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import pytest

from tasks.core.errors import TorchyardError
from tasks.core.model import Json, Stage
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


def test_manifest_round_trips_with_types(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "wheel.json"
    manifests.write_manifest(path, GOOD)
    assert manifests.read_manifest(path, Outcome) == GOOD


def test_equal_outputs_have_equal_bytes(tmp_path: Path) -> None:
    path = tmp_path / "wheel.json"
    manifests.write_manifest(path, GOOD)
    first = path.read_bytes()
    manifests.write_manifest(path, replace(GOOD, notes={"a": "ü", "b": "2"}))
    assert path.read_bytes() == first
    assert first.endswith(b'"version": "2.15.0"\n}\n')


def test_removed_manifest_is_missing(tmp_path: Path) -> None:
    manifests.write_manifest(tmp_path / "wheel.json", GOOD)
    manifests.remove_manifests(tmp_path / "wheel.json", tmp_path / "surface.json")
    with pytest.raises(TorchyardError) as error:
        manifests.read_manifest(tmp_path / "wheel.json", Outcome)
    assert str(error.value) == (
        f"{tmp_path / 'wheel.json'}: this manifest does not exist\n  → run doit build"
    )


@pytest.mark.parametrize(
    ("content", "problems"),
    [
        (b"", 1),
        (b'{"version": "2', 1),
        (b"\xff\xfe", 1),
        (b"[]", 1),
        (b'{"version": 2, "archs": [], "at": "/x", "notes": {}}', 1),
        (b'{"version": "2.15.0"}', 3),
    ],
)
def test_unreadable_manifest_error_has_hint(tmp_path: Path, content: bytes, problems: int) -> None:
    path = tmp_path / "wheel.json"
    path.write_bytes(content)
    with pytest.raises(TorchyardError) as error:
        manifests.read_manifest(path, Outcome)
    assert str(error.value) == (
        f"{path}: this manifest cannot be read ({problems} problems)\n"
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
    """Return the folder of a stage that completed with CUDA 13.0."""
    for name in ("wheel.json", "surface.json", "deps.json", "env.sh"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    stage_record_io.write_stage_record(stage(tmp_path, cuda="13.0"), "first time", 1.23456, "0.1.0")
    return tmp_path


def test_record_describes_run(finished: Path) -> None:
    record = stage_record_io.read_last_record(stage(finished))
    assert record is not None
    assert (record["stage"], record["reason"], record["seconds"]) == ("wheel", "first time", 1.235)
    assert record["inputs"] == {"cuda": "13.0"}
    assert list(record["reads"]) == ["deps.json"]
    assert manifests.build_record_path(finished / "wheel.json").name == "wheel.record.json"


def test_stage_without_record_runs_for_first_time(tmp_path: Path) -> None:
    assert stage_record_io.summarize_rebuild_reasons(stage(tmp_path, cuda="13.0")) == "first time"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"7", b'{"inputs": {}}', b"\xff"])
def test_unreadable_record_is_ignored(finished: Path, content: bytes) -> None:
    (finished / "wheel.record.json").write_bytes(content)
    assert stage_record_io.summarize_rebuild_reasons(stage(finished, cuda="13.0")) == "first time"


def test_changed_input_is_rebuild_reason(finished: Path) -> None:
    assert (
        stage_record_io.summarize_rebuild_reasons(stage(finished, cuda="13.2"))
        == "CUDA: now 13.2, was 13.0"
    )
    assert stage_record_io.summarize_rebuild_reasons(
        stage(finished, cuda="13.2", index="x", local=None)
    ) == ("CUDA: now 13.2, was 13.0 (and 2 more)")
    assert (
        stage_record_io.summarize_rebuild_reasons(stage(finished)) == "CUDA: now not set, was 13.0"
    )


def test_password_in_changed_input_is_masked(finished: Path) -> None:
    shown = stage_record_io.summarize_rebuild_reasons(
        stage(finished, cuda="https://me:secret@host/" + "x" * 80)
    )
    assert "secret" not in shown
    assert "https://***@host/" in shown


def test_changed_manifest_of_earlier_stage_is_rebuild_reason(finished: Path) -> None:
    (finished / "deps.json").write_text("other", encoding="utf-8")
    assert (
        stage_record_io.summarize_rebuild_reasons(stage(finished, cuda="13.0"))
        == "deps.json changed"
    )


def test_missing_output_is_rebuild_reason(finished: Path) -> None:
    (finished / "env.sh").unlink()
    assert (
        stage_record_io.summarize_rebuild_reasons(stage(finished, cuda="13.0"))
        == "env.sh is not there"
    )
    (finished / "surface.json").unlink()
    assert (
        stage_record_io.summarize_rebuild_reasons(stage(finished, cuda="13.0"))
        == "surface.json, env.sh is not there"
    )


def test_removed_manifest_is_rebuild_reason_with_command(finished: Path) -> None:
    (finished / "wheel.json").unlink()
    reason = stage_record_io.summarize_rebuild_reasons(stage(finished, cuda="13.0"))
    assert reason == "wheel.json is not there, as after a failure or doit clean"
    stage_record_io.note_removal(finished / "wheel.json", "doit restore")
    reason = stage_record_io.summarize_rebuild_reasons(stage(finished, cuda="13.0"))
    assert reason == "wheel.json is not there: doit restore removed it"


def test_failed_uptodate_check_is_rebuild_reason(finished: Path) -> None:
    same = stage(finished, cuda="13.0")
    assert (
        stage_record_io.summarize_rebuild_reasons(same) == "the last run failed, or did not finish"
    )
    assert (
        stage_record_io.summarize_rebuild_reasons(replace(same, uptodate_check="always"))
        == "looked at every time"
    )
    assert stage_record_io.summarize_rebuild_reasons(replace(same, uptodate_check="stale")) == (
        "its source, or what it made, was changed since, or could not be reached"
    )
