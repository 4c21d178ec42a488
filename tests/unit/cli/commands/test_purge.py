"""What purge removes and what it must keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.cli.commands import purge
from tasks.core.canonical_json import format_canonical_json
from tasks.core.errors import BusyError, NotOwnedError, TorchyardError
from tasks.core.model import Artifact, Layout
from tasks.core.project import Project
from tasks.stages.install import install_journal_io
from tasks.stages.install.install_journal_io import DistributionChange, InstallRecord
from tasks.stages.source.run import TreeSnapshot
from tasks.stages.source.tree_changes_io import compute_tree_digest
from tasks.stages.wheel.model import Wheel
from tasks.system import files, manifests
from tasks.system.invocation import format_profile_argument
from tasks.wheels.wheelhouse_io import WheelOrigin
from tests.integration.conftest import git
from tests.support.checkout import Heard, broken, opened
from tests.support.systems import needs_git


def built(yard: Path, profile: str, wheel: str, manifest: str = "wheel.json") -> Path:
    """Create a build directory whose manifest names a wheel, and that wheel with its origin."""
    build = files.create_owned_folder(
        Layout(Project.of_checkout(yard), profile, yard / "wheelhouse").build
    )
    artifact = Artifact(wheel, "a" * 64, 3)
    torch = Wheel("2.15.0", "2.15.0", None, "/s/torch", "/p", "wheel", artifact)
    manifests.write_manifest(Path(build) / manifest, torch)
    path = yard / "wheelhouse" / wheel
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("abc", encoding="utf-8")
    manifests.write_manifest(path.with_name(f"{wheel}.json"), WheelOrigin("torch", "", artifact))
    path.with_name(f"{wheel}.provenance.json").write_text("{}", encoding="utf-8")
    return path


def left(yard: Path) -> list[str]:
    return sorted(
        path.relative_to(yard).as_posix()
        for folder in ("build", "wheelhouse")
        for path in (yard / folder).rglob("*")
        if path.is_file() and path.name != files.TAG
    )


def test_purge_without_yes_removes_nothing(yard: Path, heard: Heard) -> None:
    built(yard, "mine", "torch-1.whl")
    before = left(yard)
    purge.run(opened(yard))
    assert left(yard) == before
    assert heard[0] == f"would remove {yard / 'build' / 'mine'} (0 MiB)"
    assert heard[1] == f"would remove {yard / 'wheelhouse' / 'torch-1.whl'} (0 MiB)"
    assert (
        heard[-1] == "nothing was removed yet; to remove these files: doit purge --yes profile=mine"
    )


def test_purge_without_a_build_removes_nothing(yard: Path, heard: Heard) -> None:
    purge.run(opened(yard))
    assert heard == ["nothing to remove: this profile built nothing"]


def test_purge_command_names_profile_unless_it_is_default(
    yard: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    built(yard, "mine", "torch-1.whl")
    monkeypatch.setenv("TORCHYARD_PROFILE", "mine")
    purge.run(opened(yard))
    assert heard[-1] == "nothing was removed yet; to remove these files: doit purge --yes"
    assert format_profile_argument("quickstart") == " profile=quickstart"
    monkeypatch.delenv("TORCHYARD_PROFILE")
    assert format_profile_argument("quickstart") == ""


def test_purge_removes_only_managed_files(yard: Path, heard: Heard) -> None:
    built(yard, "mine", "torch-1.whl")
    built(yard, "mine", "a-1+torch2.15.0.s12345678.cu132.sm120.whl", "extensions/a.json")
    built(yard, "other", "torch-2.whl")
    (yard / "wheelhouse" / "by-hand.whl").write_text("", encoding="utf-8")
    purge.run(opened(yard), yes=True)
    assert left(yard) == [
        "build/other/wheel.json",
        "wheelhouse/by-hand.whl",
        "wheelhouse/torch-2.whl",
        "wheelhouse/torch-2.whl.json",
        "wheelhouse/torch-2.whl.provenance.json",
    ]
    purge.run(opened(yard), yes=True)  # nothing is left to remove


def test_purge_keeps_wheel_used_by_another_profile(yard: Path, heard: Heard) -> None:
    wheel = built(yard, "mine", "torch-1.whl")
    built(yard, "other", "torch-1.whl")
    purge.run(opened(yard), yes=True)
    assert wheel.is_file()
    assert not (yard / "build" / "mine").exists()


def test_purge_trusts_no_path_from_a_manifest(yard: Path, heard: Heard) -> None:
    (yard / "thesis.tex").write_text("", encoding="utf-8")
    built(yard, "mine", "x.whl")
    text = (yard / "build" / "mine" / "wheel.json").read_text(encoding="utf-8")
    changed = text.replace("x.whl", "../thesis.tex")
    (yard / "build" / "mine" / "wheel.json").write_text(changed, encoding="utf-8")
    purge.run(opened(yard), yes=True)
    assert (yard / "thesis.tex").is_file()


def test_purge_refuses_unmanaged_build_directory_and_keeps_its_wheels(
    yard: Path, heard: Heard
) -> None:
    wheel = built(yard, "mine", "torch-1.whl")
    (yard / "build" / "mine" / files.TAG).unlink()
    with pytest.raises(NotOwnedError):
        purge.run(opened(yard), yes=True)
    assert wheel.is_file()


def test_purge_does_not_wait_for_a_running_build(yard: Path, heard: Heard) -> None:
    wheel = built(yard, "mine", "torch-1.whl")
    with files.lock_folder(yard / "build" / "mine"), pytest.raises(BusyError):
        purge.run(opened(yard), yes=True)
    assert wheel.is_file()


def test_purge_of_broken_profile_reports_the_error(yard: Path, heard: Heard) -> None:
    subject = broken(yard, "tagret: {}\n")
    with pytest.raises(TorchyardError, match="tagret: unknown key"):
        purge.run(subject, yes=True)


def replaced(yard: Path) -> Path:
    """Create the backup of packages that install.into has replaced."""
    stamp = yard / "build" / "mine" / "replaced" / "1"
    part = DistributionChange("2.5.1", "", "2.6.0", "", "")
    record = InstallRecord("/gs/python", "/gs", (), "1", {"torch": part}, {}, {}, {})
    manifests.write_manifest(stamp / install_journal_io.RECORD_FILE, record)
    return stamp


def test_backup_of_install_target_is_kept_while_in_use(yard: Path, heard: Heard) -> None:
    wheel = built(yard, "mine", "torch-1.whl")
    stamp = replaced(yard)
    purge.run(opened(yard), yes=True)
    reason = "it holds the packages that were replaced in /gs; to restore them: doit restore"
    assert f"{stamp.parent} is kept: {reason}" in heard
    assert install_journal_io.read_record(stamp)
    assert not wheel.exists()
    assert [path for path in left(yard) if ".lock" not in path] == [
        "build/mine/replaced/1/replaced.json"
    ]
    purge.run(opened(yard), yes=True)
    assert install_journal_io.read_record(stamp)


def test_purge_keeps_user_files_set_aside_and_removes_the_rest(yard: Path, heard: Heard) -> None:
    built(yard, "mine", "torch-1.whl")
    stamp = replaced(yard)
    (stamp / "replaced.json").unlink()
    own = stamp / "aside" / "2" / "mine.py"
    own.parent.mkdir(parents=True)
    own.touch()
    purge.run(opened(yard), yes=True)
    assert own.is_file()
    assert any("it holds files of yours" in line for line in heard)
    own.unlink()
    (stamp / "aside" / "2").rmdir()
    (stamp / "aside").rmdir()
    purge.run(opened(yard), yes=True)
    assert not (yard / "build" / "mine").exists()


@needs_git
@pytest.mark.parametrize("place", ["src/pytorch", "extensions/toy/clone"])
def test_purge_keeps_clone_with_local_changes(yard: Path, heard: Heard, place: str) -> None:
    built(yard, "mine", "torch-1.whl")
    clone = yard / "build" / "mine" / place
    clone.mkdir(parents=True)
    git(clone, "init", "-q")
    git(clone, "commit", "-q", "--allow-empty", "-m", "mine")
    (clone.parent / "made").touch()
    purge.run(opened(yard), yes=True)
    kept = "src" if place.startswith("src") else place
    result = f"{clone} has your own commits; push or copy your work, then remove the folder"
    assert f"{yard / 'build' / 'mine' / kept} is kept: {result}" in heard
    assert git(clone, "log", "--format=%s") == "mine"
    stays = (yard / "build" / "mine" / kept).relative_to(yard).as_posix()
    assert [path for path in left(yard) if not path.startswith(stays) and ".lock" not in path] == []


@needs_git
def test_purge_removes_clone_without_local_changes(yard: Path, heard: Heard) -> None:
    built(yard, "mine", "torch-1.whl")
    clone = yard / "build" / "mine" / "src" / "pytorch"
    clone.mkdir(parents=True)
    git(clone, "init", "-q")
    purge.run(opened(yard), yes=True)
    assert not clone.exists()


@needs_git
def test_purge_keeps_only_an_edited_source_archive(yard: Path, heard: Heard) -> None:
    built(yard, "mine", "torch-1.whl")
    state = yard / "build" / "mine" / "src"
    tree = state / "pytorch"
    tree.mkdir(parents=True)
    (tree / "a").write_text("a\n", "utf-8")
    packed = TreeSnapshot(
        str(tree), archive="a" * 64, digest=compute_tree_digest(tree, state / "listing.git")
    )
    files.write_atomic(state / "seen.json", format_canonical_json(packed))
    (tree / "a").write_text("mine\n", "utf-8")
    purge.run(opened(yard), yes=True)
    assert any(f"{tree} has your own edits" in line for line in heard)
    (tree / "a").write_text("a\n", "utf-8")
    purge.run(opened(yard), yes=True)
    assert not (yard / "build" / "mine").exists()
