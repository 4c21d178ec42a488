"""The wheelhouse: stored wheels, their origins, and their reuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.core.errors import BadArtifactError
from tasks.core.model import Artifact
from tasks.system import files
from tasks.wheels.wheelhouse_io import (
    find_stored_wheel,
    require_locked_digest,
    require_sha256,
    store_wheel,
)


@pytest.fixture
def house(tmp_path: Path) -> Path:
    return tmp_path / "wheelhouse"


def arrive(folder: Path, name: str = "torch-2.15.0-py3-none-any.whl", content: str = "one") -> Path:
    path = folder / "landing" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


def test_wheel_is_stored_unchanged_with_its_origin(tmp_path: Path, house: Path) -> None:
    arrived = arrive(tmp_path)
    place, artifact = store_wheel(arrived, house, "torch==2.15.0", "https://index")
    assert place == house / "torch-2.15.0-py3-none-any.whl"
    assert not arrived.exists()
    assert artifact == files.read_artifact(place)
    assert sorted(entry.name for entry in house.iterdir()) == [place.name, f"{place.name}.json"]


def test_wheel_is_reused_only_for_the_same_request(tmp_path: Path, house: Path) -> None:
    found = store_wheel(arrive(tmp_path), house, "torch==2.15.0 for 3.12", "")
    assert find_stored_wheel(house, "torch==2.15.0 for 3.12", "") == found
    assert find_stored_wheel(house, "torch==2.15.0 for 3.12", "https://other") is None
    assert find_stored_wheel(house, "torch==2.15.0 for 3.13", "") is None
    assert find_stored_wheel(tmp_path / "none", "torch==2.15.0 for 3.12", "") is None


def test_modified_wheel_is_not_reused(tmp_path: Path, house: Path) -> None:
    place, _ = store_wheel(arrive(tmp_path), house, "torch", "")
    place.write_text("two", encoding="utf-8")
    assert find_stored_wheel(house, "torch", "") is None
    place.unlink()
    assert find_stored_wheel(house, "torch", "") is None


def test_unreadable_origin_file_does_not_hide_others(tmp_path: Path, house: Path) -> None:
    found = store_wheel(arrive(tmp_path), house, "torch", "")
    (house / "a.whl.json").write_text("{", encoding="utf-8")
    assert find_stored_wheel(house, "torch", "") == found


def test_digest_given_by_user_must_match_the_file() -> None:
    found = Artifact("torch.whl", "a" * 64, 1)
    require_sha256(found, None)
    require_sha256(found, "a" * 64)
    with pytest.raises(BadArtifactError) as error:
        require_sha256(found, "b" * 64)
    assert str(error.value) == (
        f"torch.sha256: torch.whl has sha256 {'a' * 64}, but {'b' * 64} is required\n"
        "  → correct torch.sha256, or find out why the file changed"
    )


def test_wheel_that_differs_from_lock_is_refused_with_both_digests() -> None:
    found = Artifact("torch.whl", "a" * 64, 1)
    require_locked_digest(found, "", "torch")
    require_locked_digest(found, "a" * 64, "torch")
    with pytest.raises(BadArtifactError, match=f"sha256 {'a' * 64}, but {'b' * 64} is locked"):
        require_locked_digest(found, "b" * 64, "torch")
