"""Clones that projects share through the user's cache: reuse, damage, secrets and parallel runs."""

from __future__ import annotations

import multiprocessing
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tasks.system import files, user_cache
from tasks.system.git import shared_clones
from tasks.system.git.clones import Clone
from tasks.system.network import network_access
from tests.support.checkout import Heard
from tests.support.githttp import serving
from tests.support.systems import needs_git
from tests.unit.system.git.test_git import commit, repository, run

pytestmark = needs_git


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_access, "RETRY_PAUSES", (0.0, 0.0))


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """Return the folder of the served repositories `outer`, with the submodule `inner`."""
    folder = tmp_path / "server"
    inner = repository(folder / "inner", code="inner\n")
    outer = repository(folder / "outer", a="one\n")
    run(outer, "submodule", "--quiet", "add", "--name", "inner", str(inner), "inner")
    run(outer, "config", "--file", ".gitmodules", "submodule.inner.url", "../inner")
    commit(outer, b="two\n")
    run(outer, "tag", "v1")
    return folder


@pytest.fixture
def url(server: Path) -> Iterator[str]:
    with serving(server) as port:
        yield f"http://127.0.0.1:{port}/outer"


def fetch(tmp_path: Path, project: str, url: str, ref: str = "v1") -> Path:
    tree = tmp_path / project / ".torchyard" / "src" / "pytorch"
    clone = Clone(tree, url, ref, True, None)
    shared_clones.fetch_clone(clone, tmp_path / "cache")
    assert (tree / "inner" / "code").read_text(encoding="utf-8") == "inner\n"
    return tree


def entries(tmp_path: Path) -> list[Path]:
    store = tmp_path / "cache" / user_cache.GIT_STORE
    return [entry.folder for entry in user_cache.list_entries(store)]


def pack(repository: Path) -> Path:
    """Return the largest file with objects."""
    found = [path for path in (repository / ".git" / "objects").rglob("*") if path.is_file()]
    return max(found, key=lambda path: path.stat().st_size)


def test_second_project_fetches_only_new_commits(
    tmp_path: Path, server: Path, url: str, heard: Heard
) -> None:
    first = fetch(tmp_path, "one", url)
    (entry,) = entries(tmp_path)
    assert pack(entry).stat().st_ino == pack(first).stat().st_ino
    assert entry.stat().st_mode & 0o077 == entry.parent.stat().st_mode & 0o077 == 0
    shutil.rmtree(server / "inner")  # only the cache has the submodule
    commit(server / "outer", a="three\n")
    second = fetch(tmp_path, "two", url, "main")
    assert f"reused the git objects of {entry}" in heard.text
    assert (second / "a").read_text(encoding="utf-8") == "three\n"
    (entry,) = entries(tmp_path)  # replaced, because it had no such commit
    head = run(second, "rev-parse", "HEAD")
    assert run(entry, "rev-parse", "HEAD") == head
    shutil.rmtree(entry)
    files.remove_owned(first)
    run(second, "fsck", "--full")


def truncate(entry: Path) -> None:
    path = pack(entry)
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[: len(content) // 2])


def flip(entry: Path) -> None:
    """Damage one file's object, with its size kept: only git notices it, in the checkout."""
    name = run(entry, "rev-parse", "HEAD:b")
    path = entry / ".git" / "objects" / name[:2] / name[2:]
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[:4] + bytes(len(content))[4:])


def empty(entry: Path) -> None:
    shutil.rmtree(entry)
    entry.mkdir()


def replace_by_file(entry: Path) -> None:
    shutil.rmtree(entry)
    entry.write_text("", encoding="utf-8")


DAMAGE: dict[str, Callable[[Path], object]] = {
    "truncated": truncate,
    "flipped": flip,
    "no record": lambda entry: (entry / "entry.json").unlink(),
    "wrong record": lambda entry: (entry / "entry.json").write_text("{", encoding="utf-8"),
    "no objects": lambda entry: shutil.rmtree(entry / ".git" / "objects"),
    "empty": empty,
    "a file": replace_by_file,
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_entry_is_fetched_again(tmp_path: Path, url: str, kind: str, heard: Heard) -> None:
    fetch(tmp_path, "one", url)
    (entry,) = entries(tmp_path)
    DAMAGE[kind](entry)
    run(fetch(tmp_path, "two", url), "fsck", "--full")
    assert ("is damaged" in heard.text) == (kind == "flipped")  # the others are not even copied
    if kind != "a file":
        run(entry, "fsck", "--full")  # stored again


def test_cache_that_cannot_be_written_is_a_warning(tmp_path: Path, url: str, heard: Heard) -> None:
    (tmp_path / "cache").write_text("", encoding="utf-8")
    fetch(tmp_path, "one", url)
    assert "was not stored for other projects" in heard.text


def test_wrong_ref_and_dead_host_keep_the_entry(tmp_path: Path, server: Path) -> None:
    with serving(server) as port:
        url = f"http://127.0.0.1:{port}/outer"
        fetch(tmp_path, "one", url)
        with pytest.raises(Exception, match='has no ref "v9"'):
            fetch(tmp_path, "two", url, "v9")
    with pytest.raises(Exception, match="cannot fetch"):
        fetch(tmp_path, "three", url, "main")
    assert len(entries(tmp_path)) == 1


def test_secrets_of_urls_are_not_stored(tmp_path: Path, url: str) -> None:
    secret = url.replace("://", "://me:hunter2@")
    fetch(tmp_path, "one", secret)
    (entry,) = entries(tmp_path)
    texts = [path.read_bytes() for path in entry.rglob("*") if path.is_file()]
    assert not [text for text in texts if b"hunter2" in text]
    assert "hunter2" not in entry.name
    assert not (entry / ".git" / "modules" / "inner").exists()  # its URL has the password
    assert fetch(tmp_path, "two", secret)


@pytest.mark.parametrize("reason", ["local", "mirror", "offline"])
def test_local_and_offline_clones_are_not_stored(
    tmp_path: Path, server: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    path = str(server / "outer")
    url = path if reason == "local" else "https://git.example/outer"
    mirrors = {} if reason == "local" else {"https://git.example/": f"{server}/"}
    monkeypatch.setattr(network_access, "is_offline", lambda: reason == "offline")
    clone = Clone(tmp_path / "src" / "pytorch", url, "v1", False, None, mirrors)
    shared_clones.fetch_clone(clone, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_two_processes_store_at_once(tmp_path: Path, url: str) -> None:
    context = multiprocessing.get_context("spawn")
    names = ("one", "two", "three")
    children = [context.Process(target=fetch, args=(tmp_path, name, url)) for name in names]
    for child in children:
        child.start()
    for child in children:
        child.join(120)
    assert [child.exitcode for child in children] == [0, 0, 0]
    (entry,) = entries(tmp_path)
    run(entry, "fsck", "--full")
    with user_cache.open_entry(entry) as record:
        assert record is not None
        assert record.subject == url
