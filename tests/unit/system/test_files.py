"""File operations on real files; a failing disk is simulated at the system call."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.core.errors import BusyError, NotOwnedError, TorchyardError
from tasks.core.model import Artifact
from tasks.system import files, process_group
from tasks.system.files import create_owned_folder, lock_folder, remove_owned, write_atomic
from tests.support.systems import needs_links, windows_only

ROOT = Path(__file__).parents[3]
HOLD = """\
import sys, time
from pathlib import Path
from tasks.system.files import lock_folder
with lock_folder(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_write_is_atomic_and_creates_parent_folder(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.json"
    write_atomic(path, "one\n")
    write_atomic(path, "zwei ü\n")
    assert path.read_bytes() == "zwei ü\n".encode()
    assert [entry.name for entry in path.parent.iterdir()] == ["b.json"]


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and links of POSIX")
def test_user_file_is_written_through_pipe_or_link(tmp_path: Path) -> None:
    file, link, pipe = (tmp_path / name for name in ("file", "link", "pipe"))
    file.write_text("old", encoding="utf-8")
    link.symlink_to(file)
    files.write_user_file(link, "new")
    assert (file.read_text(encoding="utf-8"), link.is_symlink()) == ("new", True)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    files.write_user_file(pipe, "through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert pipe.is_fifo()
    files.write_user_file(tmp_path / "a" / "new.json", "made")
    assert (tmp_path / "a" / "new.json").read_text(encoding="utf-8") == "made"
    with pytest.raises(TorchyardError, match="cannot write this file"):
        files.write_user_file(tmp_path, "over a folder")


@pytest.mark.parametrize("ends_with", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_failed_write_keeps_old_file_and_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends_with: BaseException
) -> None:
    def fail(_: int) -> None:
        raise ends_with

    path = tmp_path / "x.json"
    write_atomic(path, "old")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(type(ends_with)):
        write_atomic(path, "new")
    assert path.read_text(encoding="utf-8") == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.json"]


def test_new_or_empty_folder_becomes_managed(tmp_path: Path) -> None:
    folder = create_owned_folder(tmp_path / "build" / "p")
    (folder / "x").write_text("x", encoding="utf-8")
    assert create_owned_folder(folder) == folder
    assert files.is_owned(folder / "x")
    assert "Signature: 8a477f597d28d172789f06886806bc55" in (folder / files.TAG).read_text(
        encoding="utf-8"
    )
    assert not files.is_owned(tmp_path)


def test_folder_with_partially_written_tag_is_still_managed(tmp_path: Path) -> None:
    """SIGKILL came after the tag was written and before it was renamed."""
    (tmp_path / f".{files.TAG}.k3x9").write_text("Signature", encoding="utf-8")
    assert files.is_marked(create_owned_folder(tmp_path))
    assert [entry.name for entry in tmp_path.iterdir()] == [files.TAG]


def test_user_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work", encoding="utf-8")
    with pytest.raises(NotOwnedError) as error:
        create_owned_folder(tmp_path)
    assert str(error.value) == (
        f"{tmp_path}: this folder is not empty, and torchyard did not create it\n"
        "  → move the folder away, or set another path in the settings"
    )
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_cache_tag_of_other_tool_does_not_mark_managed_folder(tmp_path: Path) -> None:
    other = "Signature: 8a477f597d28d172789f06886806bc55\n# made by pip\n"
    (tmp_path / files.TAG).write_text(other, encoding="utf-8")
    with pytest.raises(NotOwnedError):
        remove_owned(tmp_path)


def test_file_in_place_of_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "build").write_text("", encoding="utf-8")
    for folder in (tmp_path / "build", tmp_path / "build" / "p"):
        with pytest.raises(NotOwnedError, match="a file exists where torchyard needs this folder"):
            create_owned_folder(folder)


def test_unmanaged_folder_is_not_removed(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for path in (theirs, tmp_path):
        with pytest.raises(NotOwnedError) as error:
            remove_owned(path)
        assert (
            str(error.value)
            == f"{path}: torchyard does not remove this path: torchyard did not create it"
        )
    assert theirs.is_dir()


def test_managed_folder_is_removed_with_contents(tmp_path: Path) -> None:
    folder = create_owned_folder(tmp_path / "build")
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "c").write_text("", encoding="utf-8")
    (folder / "a" / "b" / "c").chmod(0o400)
    remove_owned(folder / "a")
    assert sorted(entry.name for entry in folder.iterdir()) == [files.TAG]
    remove_owned(folder)
    remove_owned(folder)  # a missing path is no error
    assert not folder.exists()


@needs_links
def test_link_out_of_managed_folder_is_removed_without_its_target(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis.tex").write_text("", encoding="utf-8")
    folder = create_owned_folder(tmp_path / "build")
    for name in ("one", "two"):
        (folder / name).symlink_to(theirs)
    (folder / "dangling").symlink_to(tmp_path / "nowhere")
    remove_owned(folder / "one")
    remove_owned(folder / "dangling")
    assert not (folder / "one").is_symlink()
    assert not (folder / "dangling").is_symlink()
    remove_owned(folder)
    assert (theirs / "thesis.tex").is_file()


@needs_links
def test_path_through_link_out_of_managed_folder_is_not_managed(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    (theirs / "work").mkdir(parents=True)
    folder = create_owned_folder(tmp_path / "build")
    (folder / "link").symlink_to(theirs)
    with pytest.raises(NotOwnedError):
        remove_owned(folder / "link" / "work")
    assert (theirs / "work").is_dir()


@windows_only
def test_junction_out_of_managed_folder_is_removed_without_its_target(tmp_path: Path) -> None:
    theirs, folder = tmp_path / "theirs", create_owned_folder(tmp_path / "build")
    (theirs / "work").mkdir(parents=True)
    for name in ("one", "two"):
        subprocess.run(["cmd", "/c", "mklink", "/j", str(folder / name), str(theirs)], check=False)
        if not (folder / name / "work").is_dir():
            pytest.skip("not run: no junctions can be made here")
    remove_owned(folder / "one")
    assert not (folder / "one").exists()
    remove_owned(folder)
    assert (theirs / "work").is_dir()


@windows_only
def test_file_open_for_reading_is_replaced_after_it_closes(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_atomic(path, "old")
    with path.open(encoding="utf-8") as reader:
        threading.Timer(0.1, reader.close).start()
        write_atomic(path, "new")
    assert path.read_text(encoding="utf-8") == "new"


@windows_only
def test_missing_drive_is_reported() -> None:
    with pytest.raises(TorchyardError, match="drive of this path does not exist"):
        create_owned_folder(Path("Q:/build"))
    with pytest.raises(FileNotFoundError):
        files.require_disk_space(Path("Q:/build"), 1, "it")


@needs_links
def test_managed_folder_may_be_on_another_disk(tmp_path: Path) -> None:
    (tmp_path / "big").mkdir()
    (tmp_path / "build").symlink_to(tmp_path / "big")
    folder = create_owned_folder(tmp_path / "build" / "p")
    remove_owned(folder)
    assert (tmp_path / "big").is_dir()
    assert not folder.exists()


def test_interrupted_removal_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = create_owned_folder(tmp_path / "build")
    for name in ("0", "z"):
        (folder / name).write_text("", encoding="utf-8")
    unlink = Path.unlink

    def interrupted(path: Path, missing_ok: bool = False) -> None:
        if path.name == "z":
            raise KeyboardInterrupt
        unlink(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", interrupted)
        with pytest.raises(KeyboardInterrupt):
            remove_owned(folder)
    assert not (folder / "0").exists()
    remove_owned(folder)
    assert not folder.exists()


def test_artifact_describes_name_digest_and_size(tmp_path: Path) -> None:
    path = tmp_path / "a.whl"
    path.write_bytes(b"abc")
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert files.read_artifact(path) == Artifact("a.whl", digest, 3)


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a process that holds the lock of tmp_path."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout
        assert child.stdout.readline() == "held\n"
        yield child
        child.kill()


def test_held_lock_error_names_other_process(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(BusyError) as error, lock_folder(tmp_path):
        pass
    assert str(error.value) == (
        f"{tmp_path}: another torchyard run (process {holder.pid}) is using this folder\n"
        f"  → wait until that run ends, or end process {holder.pid}; "
        "then run the same command again"
    )


def test_lock_is_released_when_holder_is_killed(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    holder.kill()
    holder.wait()
    assert holder.returncode != 0
    with lock_folder(tmp_path):
        assert (tmp_path / ".lock.pid").read_text(encoding="utf-8") == process_group.RUN_ID


def test_lock_can_be_taken_again_after_release(tmp_path: Path) -> None:
    with pytest.raises(KeyError), lock_folder(tmp_path):
        raise KeyError
    with lock_folder(tmp_path), pytest.raises(BusyError), lock_folder(tmp_path):
        pass
    assert not (tmp_path / ".lock.pid").exists()
