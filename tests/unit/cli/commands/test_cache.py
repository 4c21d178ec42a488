"""`doit cache`: what info shows, and what prune removes and keeps."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tasks.cli.commands import cache
from tasks.cli.help_pages import COMMAND_PAGES
from tasks.cli.session import _COMMANDS_FOR_BROKEN_PROFILE, _parse_arguments
from tasks.core.errors import SettingsError, TorchyardError
from tasks.core.project import Project
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.system import environments, files, user_cache
from tests.support.checkout import Heard

_PAGE = next(page for page in COMMAND_PAGES if page.name == "cache")


@pytest.fixture
def subject(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SelectedProfile:
    """Return a broken profile, in a cache that no other program is asked about."""
    monkeypatch.setattr(cache, "_find_other_caches", lambda: iter(()))
    project = Project.of_folder(tmp_path / "project", tmp_path / "code", tmp_path / "cache")
    return SelectedProfile(project, "mine", None, SettingsError("broken"))


def store(subject: SelectedProfile, kind: str, name: str, days: float, mib: int = 1) -> Path:
    """Create an entry that was last used some days ago; half of it is a file of a project."""
    folder = Path(subject.project.cache, kind, name)
    project = Path(subject.project.root, name)
    project.mkdir(parents=True)
    (project / "shared").write_bytes(bytes(mib * 2**20))

    def fill(new: Path) -> None:
        (new / "own").write_bytes(bytes(mib * 2**20))
        for link in ("first", "second"):  # counted once
            files.link_or_copy(project / "shared", new / link)

    user_cache.write_entry(folder, f"https://git.example/{name}", fill)
    used = time.time() - days * 86400
    os.utime(folder, (used, used))
    return folder


@pytest.fixture
def entries(subject: SelectedProfile) -> tuple[Path, Path]:
    """Return the folders of an old and a recent entry."""
    old = store(subject, user_cache.GIT_STORE, "old", 40, 4)
    return old, store(subject, user_cache.WHEEL_STORE, "recent", 3)


def test_info_counts_each_file_once(
    subject: SelectedProfile, entries: tuple[Path, Path], heard: Heard
) -> None:
    cache.run(subject)
    assert heard[1] == f"git clones: 8 MiB in {entries[0].parent}"
    assert heard[2].split(maxsplit=2)[2] == "https://git.example/old, last used 40 days ago"
    assert heard[-1] == "total: 10 MiB"


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        ("doit cache prune", ["recent"]),
        ("doit cache prune --days 7", ["recent"]),
        ("doit cache prune --days 2", []),
        ("doit cache prune --days 50", ["old", "recent"]),
        ("doit cache prune --all", []),
    ],
)
def test_prune_removes_unused_entries_only_with_yes(
    subject: SelectedProfile,
    entries: tuple[Path, Path],
    heard: Heard,
    command: str,
    kept: list[str],
) -> None:
    words = command.split()[2:]
    cache.run(subject, **_parse_arguments(_PAGE, "actions", words))
    assert all(map(Path.is_dir, entries))
    cache.run(subject, **_parse_arguments(_PAGE, "actions", [*words, "--yes"]))
    assert [entry.name for entry in entries if entry.exists()] == kept
    for name in ("old", "recent"):
        assert Path(subject.project.root, name, "shared").is_file()
    if "old" not in kept:
        text = "https://git.example/old, last used 40 days ago"
        size = "(8 MiB, of which projects still use 4 MiB)"
        assert f"would remove {text} {size}" in heard
        assert f"removed {text} {size}" in heard
        assert heard[-1] == ("freed 4 MiB" if kept else "freed 5 MiB")


def test_prune_keeps_what_a_build_uses_and_removes_leftovers(
    subject: SelectedProfile, entries: tuple[Path, Path], heard: Heard
) -> None:
    leftover = files.create_owned_folder(entries[0].with_name(".killed.new"))
    with user_cache.open_entry(entries[0]):
        cache.run(subject, ["prune"], all=True, yes=True)
    assert [path.exists() for path in (*entries, leftover)] == [True, False, False]
    assert f"{entries[0]} is kept: a running build uses it" in heard


def test_prune_calls_uv_only_if_requested(
    subject: SelectedProfile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: Heard
) -> None:
    if not environments.find_uv():
        pytest.skip("not run: uv is not installed")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    unused = tmp_path / "uv" / "unknown-v0"
    unused.mkdir(parents=True)
    cache.run(subject, ["prune"], yes=True)
    cache.run(subject, ["prune"], uv=True)
    assert f"would run uv cache prune for {tmp_path / 'uv'}" in heard
    assert unused.is_dir()
    cache.run(subject, ["prune"], uv=True, yes=True)
    assert not unused.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["empty"], '"empty" is not an action'),
        (["prune", "--days", "soon"], '"soon" is not a number of days'),
        (["prune", "--days", "-1"], '"-1" is not a number of days'),
        (["prune", "--day", "1", "--force"], "--force not recognized"),
    ],
)
def test_wrong_arguments_are_named(
    subject: SelectedProfile, words: list[str], message: str
) -> None:
    with pytest.raises(TorchyardError, match=message):
        cache.run(subject, **_parse_arguments(_PAGE, "actions", words))


def test_cache_works_with_a_broken_profile() -> None:
    assert "cache" in _COMMANDS_FOR_BROKEN_PROFILE
