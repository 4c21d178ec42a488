"""Source archives that projects share through the user's cache."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tasks.core.errors import FetchError
from tasks.system import user_cache
from tasks.system.network import network_access
from tasks.system.network.shared_downloads import download_shared_file
from tests.support.checkout import Heard
from tests.support.webserver import served

SHA256 = hashlib.sha256(b"tree").hexdigest()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(network_access, "RETRY_PAUSES", (0.0, 0.0))
    folder = tmp_path / "server"
    folder.mkdir()
    (folder / "tree.tar.gz").write_bytes(b"tree")
    return folder


def fetch(tmp_path: Path, project: str, source: str) -> Path:
    dest, cache = tmp_path / project / "tree.tar.gz", tmp_path / "cache"
    path = download_shared_file(source, dest, SHA256, None, cache)
    assert path.read_bytes() == b"tree"
    return path


@pytest.mark.parametrize("damaged", [False, True])
def test_second_project_downloads_only_a_damaged_archive(
    tmp_path: Path, server: Path, damaged: bool
) -> None:
    with served(server) as url:
        first = fetch(tmp_path, "one", f"{url}/tree.tar.gz")
        (entry,) = user_cache.list_entries(tmp_path / "cache" / user_cache.ARCHIVE_STORE)
        if damaged:
            first.unlink()
            (entry.folder / first.name).write_bytes(b"eert")
        else:
            (server / first.name).unlink()
        second = fetch(tmp_path, "two", f"{url}/tree.tar.gz")
        assert second.samefile(entry.folder / first.name)  # replaced if it was damaged
        if damaged:
            (server / first.name).unlink()
            fetch(tmp_path, "three", f"{url}/tree.tar.gz")


def test_cache_that_cannot_be_written_is_a_warning(
    tmp_path: Path, server: Path, heard: Heard
) -> None:
    (tmp_path / "cache").write_text("", encoding="utf-8")
    with served(server) as url:
        fetch(tmp_path, "one", f"{url}/tree.tar.gz")
    assert "was not stored for other projects" in heard.text


def test_local_files_and_failed_downloads_are_not_stored(tmp_path: Path, server: Path) -> None:
    fetch(tmp_path, "one", str(server / "tree.tar.gz"))
    (server / "tree.tar.gz").write_bytes(b"another tree")
    with served(server) as url, pytest.raises(FetchError, match="wrong sha256"):
        fetch(tmp_path, "two", f"{url}/tree.tar.gz")
    assert not (tmp_path / "cache").exists()
