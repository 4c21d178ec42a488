"""Files of an interrupted patch are restored in every patch format; other files are left alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tasks.core.errors import TorchyardError
from tasks.system import files
from tasks.system.git import local_changes
from tests.integration.conftest import commit
from tests.integration.conftest import git as run
from tests.support.systems import needs_git, needs_links, posix_only

pytestmark = needs_git
BINARY = bytes(range(256))
CHANGE = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+patched\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    run(folder, "init", "-q", "-b", "main")
    for name in ("a", "b"):
        (folder / name).write_text(f"{name}\n", "utf-8", newline="\n")
    (folder / "ä b").write_text("quoted\n", "utf-8", newline="\n")
    (folder / "image").write_bytes(BINARY)
    commit(folder, "first")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return files.create_owned_folder(tmp_path / "state") / "patching"


def begin_patch(tree: Path, folder: Path, text: str) -> None:
    """Begin a patch that never finishes, as after a SIGKILL."""
    patch = folder.parent / "it.patch"
    patch.write_text(text, "utf-8", newline="\n")
    local_changes.keep_backup(tree, patch, folder).__enter__()


def patch_of(tree: Path, *options: str) -> str:
    """Return the changes in the tree as a patch, and revert them."""
    run(tree, "add", "-A")
    text = run(tree, "diff", "--cached", "--binary", *options) + "\n\n"
    run(tree, "reset", "-q", "--hard")
    return text


def test_patched_files_are_restored_and_later_edits_are_named(
    tree: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "a").write_text("patched\n", "utf-8")
    (tree / "b").write_text("patched\n", "utf-8")
    (tree / "new").write_text("new\n", "utf-8")
    text, mine = patch_of(tree), "b\nand mine\n"
    (tree / "b").write_text(mine, "utf-8", newline="\n")
    for number, since in enumerate(("first", "second"), 1):
        begin_patch(tree, folder, text)
        (tree / "b").unlink()
        (tree / "a").unlink()
        (tree / "a").write_text(since, "utf-8")
        (tree / "new").write_text("ne", "utf-8")
        local_changes.restore_patched_files(tree, folder)
        assert (tree / "b").read_text("utf-8") == mine
        assert (tree / "a").read_text("utf-8") == "a\n"
        assert not (tree / "new").exists()
        aside = folder.with_name("aside") / str(number)
        assert (aside / "a").read_text("utf-8") == since
        assert str(aside) in capsys.readouterr().out
    local_changes.restore_patched_files(tree, folder)
    assert not capsys.readouterr().out


@pytest.mark.parametrize("name", ["a", "image", "ä b"])
def test_file_of_any_type_and_name_is_restored(tree: Path, folder: Path, name: str) -> None:
    before = (tree / name).read_bytes()
    (tree / name).write_bytes(b"\0 patched")
    begin_patch(tree, folder, patch_of(tree))
    (tree / name).unlink()
    local_changes.restore_patched_files(tree, folder)
    assert (tree / name).read_bytes() == before


def test_patch_between_two_folders_is_restored(tree: Path, folder: Path) -> None:
    begin_patch(tree, folder, CHANGE.replace("a/a", "pytorch.orig/a").replace("b/a", "pytorch/a"))
    (tree / "a").unlink()
    local_changes.restore_patched_files(tree, folder)
    assert (tree / "a").read_text("utf-8") == "a\n"


def test_both_paths_of_rename_are_restored(tree: Path, folder: Path) -> None:
    (tree / "a").rename(tree / "moved")
    begin_patch(tree, folder, patch_of(tree, "-M"))
    (tree / "a").rename(tree / "moved")
    local_changes.restore_patched_files(tree, folder)
    assert (tree / "a").read_text("utf-8") == "a\n"
    assert not (tree / "moved").exists()


@posix_only
def test_mode_only_change_is_restored(tree: Path, folder: Path) -> None:
    (tree / "a").chmod(0o755)
    begin_patch(tree, folder, patch_of(tree))
    (tree / "a").unlink()
    (tree / "a").write_text("a\n", "utf-8")
    (tree / "a").chmod(0o755)
    local_changes.restore_patched_files(tree, folder)
    assert not os.access(tree / "a", os.X_OK)


def test_paths_in_patch_description_are_ignored(tree: Path, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("mine", "utf-8")
    description = f"Before:\n--- a/{other}\n+++ b/../other\nrename from b\n\n"
    begin_patch(tree, folder, description + CHANGE)
    assert [path.name for path in (folder / "files").rglob("*")] == ["a"]
    other.write_text("mine since", "utf-8")
    local_changes.restore_patched_files(tree, folder)
    assert other.read_text("utf-8") == "mine since"


@pytest.mark.parametrize("name", ["../other", "/{}/other"])
def test_patch_of_file_outside_tree_is_refused(
    tree: Path, folder: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "other").write_text("a\n", "utf-8")
    text = CHANGE.replace("a/a", f"a/{name}").replace("b/a", f"b/{name}")
    with pytest.raises(TorchyardError):
        begin_patch(tree, folder, text.replace("{}", str(tmp_path)))
    assert (tmp_path / "other").read_text("utf-8") == "a\n"


@needs_links
def test_patch_through_link_out_of_tree_is_refused(
    tree: Path, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a").write_text("a\n", "utf-8")
    (tree / "out").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    with pytest.raises(TorchyardError, match="outside of"):
        begin_patch(tree, folder, CHANGE.replace("/a", "/out/a"))


def test_failed_restore_is_not_reported_as_restored(
    tree: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin_patch(tree, folder, CHANGE)
    (folder / "files" / "a").unlink()
    (tree / "a").write_text("half", "utf-8")
    local_changes.restore_patched_files(tree, folder)
    output = capsys.readouterr().out
    assert "cannot undo the patch" in output
    assert "restored" not in output
    assert (tree / "a").read_text("utf-8") == "half"


def test_file_is_kept_until_its_backup_is_complete(
    tree: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_patch(tree, folder, CHANGE)
    (tree / "a").unlink()
    (tree / "a").write_text("half", "utf-8")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.link", full)
        patch.setattr("shutil.copy2", full)
        with pytest.raises(OSError, match="No space"):
            local_changes.restore_patched_files(tree, folder)
    assert (tree / "a").read_text("utf-8") == "half"
    local_changes.restore_patched_files(tree, folder)
    assert (tree / "a").read_text("utf-8") == "a\n"
