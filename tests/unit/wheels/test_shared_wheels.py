"""The wheels that projects share through the user's cache: reuse, damage and digests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.system import files, user_cache
from tasks.system.network import network_access
from tasks.wheels import shared_wheels_io
from tests.support.checkout import Heard

REQUIREMENT = "torch==2.15.0 for 3.12"


def locate(tmp_path: Path, index: str = "https://index.example/simple") -> Path:
    entry = shared_wheels_io.locate_shared_wheel(tmp_path / "cache", REQUIREMENT, index)
    assert entry is not None
    return entry


def make_wheel(tmp_path: Path, project: str, content: str = "torch") -> Path:
    path = tmp_path / project / "wheelhouse" / "torch-2.15.0-py3-none-any.whl"
    path.parent.mkdir(parents=True)
    path.write_text(content, encoding="utf-8")
    return path


def share(tmp_path: Path, wheel: Path) -> Path:
    """Return the path that the wheel is installed from."""
    entry = locate(tmp_path)
    with shared_wheels_io.share_wheel(entry, wheel, files.read_artifact(wheel)) as path:
        assert path.read_bytes() == wheel.read_bytes()
        (listed,) = user_cache.list_entries(entry.parent)
        assert user_cache.remove_entry(listed) is (path == wheel)  # locked while it is installed
        return path


def test_second_project_gets_the_same_file_and_installs_from_the_same_path(tmp_path: Path) -> None:
    first = make_wheel(tmp_path, "one")
    path = share(tmp_path, first)
    landing = tmp_path / "two" / "landing"
    second = shared_wheels_io.copy_shared_wheel(locate(tmp_path), landing, "")
    assert second is not None
    assert second.samefile(first)
    changed = path.stat().st_ctime_ns  # after a change, uv would unpack the wheel again
    assert share(tmp_path, second) == path
    first.unlink()
    assert path.stat().st_ctime_ns == changed


def test_other_build_with_the_same_name_replaces_the_entry(tmp_path: Path) -> None:
    share(tmp_path, make_wheel(tmp_path, "one"))
    other = make_wheel(tmp_path, "two", "another build")
    assert share(tmp_path, other).read_text(encoding="utf-8") == "another build"


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_text("hcrot", encoding="utf-8"),  # the same size
        lambda path: path.write_text("to", encoding="utf-8"),
        lambda path: path.unlink(),
        lambda path: path.with_name("extra").touch(),
    ],
)
def test_damaged_wheel_is_not_used(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    first = make_wheel(tmp_path, "one")
    path = share(tmp_path, first)
    first.unlink()
    for stored in path.parents[1].rglob("*.whl"):
        damage(stored)
    assert shared_wheels_io.copy_shared_wheel(locate(tmp_path), tmp_path / "two", "") is None
    new = make_wheel(tmp_path, "three")
    assert share(tmp_path, new) == path


def test_wheel_is_used_only_for_its_index_and_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = make_wheel(tmp_path, "one")
    share(tmp_path, wheel)
    copy, landing = shared_wheels_io.copy_shared_wheel, tmp_path / "two"
    assert copy(locate(tmp_path, "https://other.example"), landing, "") is None
    assert copy(locate(tmp_path), landing, "0" * 64) is None
    assert copy(locate(tmp_path), landing, files.read_artifact(wheel).sha256)
    for local in ("file:///srv/wheels", "/srv/wheels"):
        assert shared_wheels_io.locate_shared_wheel(tmp_path, REQUIREMENT, local) is None
    monkeypatch.setattr(network_access, "is_offline", lambda: True)
    assert shared_wheels_io.locate_shared_wheel(tmp_path, REQUIREMENT, "") is None


def test_cache_that_cannot_be_written_installs_from_the_wheelhouse(
    tmp_path: Path, heard: Heard
) -> None:
    (tmp_path / "cache").write_text("", encoding="utf-8")
    wheel = make_wheel(tmp_path, "one")
    with shared_wheels_io.share_wheel(locate(tmp_path), wheel, files.read_artifact(wheel)) as path:
        assert path == wheel
    assert "was not stored for other projects" in heard.text
