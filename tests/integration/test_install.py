"""What was built goes into a person's environment, and everything that was there comes back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.tags import sys_tags

from tasks.cli.commands import restore as report
from tasks.core.errors import TorchyardError
from tasks.core.model import Artifact
from tasks.core.project import Project
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.stages.extensions.model import BuiltExtension
from tasks.stages.install import install_commit_io, install_journal_io, run
from tasks.stages.install.target_environment_io import query_environment
from tasks.stages.install.up_to_date import is_stale
from tasks.system import environments, files, manifests, output
from tests.support import smallwheels
from tests.support.checkout import Heard
from tests.support.installyard import InstallYard
from tests.support.rows import long_but
from tests.support.smallwheels import Theirs, theirs

pytestmark = pytest.mark.integration

NEEDS = ("needed>=2",)
TOY = Artifact("toyext.whl", "a" * 64, 1)


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is in folders: nothing may ask an index."""
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")


@pytest.fixture
def heard() -> Heard:
    found = Heard()
    output.set_listener(found)
    return found


@pytest.fixture(params=["uv", "pip"])
def installer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both of those that can do the work."""
    if request.param == "pip":
        monkeypatch.setattr(environments, "find_uv", lambda: None)
    return str(request.param)


@pytest.fixture
def yard(tmp_path: Path) -> InstallYard:
    """A torch that needs a package, and an extension; and a person who has an older one of each."""
    person = theirs(tmp_path / "person")
    made = InstallYard(tmp_path / "checkout", person)
    smallwheels.wheel(made.index, "needed", "2.0", {"needed.py": "x = 2\n"})
    old = tmp_path / "old"
    person.install(
        smallwheels.torch(old, "2.5.1", code="old = 1"),
        smallwheels.wheel(old, "needed", "1.0", {"needed.py": "x = 1\n"}),
        smallwheels.wheel(old, "vision", "0.20.1", {"vision.py": ""}, ["torch==2.5.1"]),
    )
    made.torch("2.6.0", requires=NEEDS)
    made.extension()
    return made


def stamp(yard: InstallYard) -> Path:
    (found,) = install_journal_io.list_stamps(yard.replaced)
    return found


def restore(yard: InstallYard, *, yes: bool = True) -> None:
    report.run(SelectedProfile(Project.of_checkout(yard.root), yard.profile, None), yes=yes)


def versions(person: Theirs) -> dict[str, str]:
    code = (
        "import importlib.metadata as m; "
        "print(*(f'{d.name} {d.version}' for d in m.distributions()), sep='|')"
    )
    names = ("torch", "needed", "toyext", "vision")
    rows = [row.split(" ") for row in person.says(code).split("|")]
    return {name: version for name, version in rows if name in names}


def test_torch_its_needs_and_the_extension_are_put_there_and_all_of_it_taken_back(
    yard: InstallYard, heard: Heard, installer: str
) -> None:
    before = yard.theirs.tree()
    installed = yard.install()
    assert versions(yard.theirs) == {
        "torch": "2.6.0", "needed": "2.0", "toyext": "1.0", "vision": "0.20.1"
    }  # fmt: skip
    assert yard.theirs.says("import toyext; print(toyext.answer)") == "42"
    assert not (yard.theirs.site / "torch" / "only" / "of_2_5_1.py").exists()
    assert {one.name: bool(one.wheel) for one in installed.distributions} == {
        "torch": True, "toyext": True, "needed": False
    }  # fmt: skip
    assert "torch 2.5.1 → 2.6.0" in heard
    assert "toyext 1.0" in heard
    assert not (stamp(yard) / "change").exists()

    restore(yard, yes=False)
    assert "  toyext 1.0 → removed (was not installed before)" in heard
    assert "  torch 2.6.0 → 2.5.1" in heard
    assert versions(yard.theirs)["torch"] == "2.6.0"
    record = yard.build / "install.record.json"
    record.write_text('{"inputs": {}, "reads": {}}', encoding="utf-8")
    restore(yard)
    assert json.loads(record.read_text(encoding="utf-8"))["removed_by"] == "doit restore"
    assert yard.theirs.tree() == before
    assert list(install_journal_io.list_stamps(yard.replaced)) == []
    restore(yard)
    assert heard[-1] == "nothing to restore: this profile replaced nothing in your environments"


def test_partial_install_leaves_out_an_extension_that_failed(
    yard: InstallYard, heard: Heard
) -> None:
    job = yard.job()
    Path(job.extensions["toy"]).unlink()
    with pytest.raises(TorchyardError, match="manifest does not exist"):
        run.run(job)
    run.run(replace(job, partial=True))
    assert versions(yard.theirs)["torch"] == "2.6.0"
    assert "toyext" not in versions(yard.theirs)
    assert any(
        line.startswith("toy was not built; only the others are installed") for line in heard
    )


def test_what_lies_there_is_what_an_installer_leaves(yard: InstallYard, tmp_path: Path) -> None:
    """But for bytecode and times: RECORD, scripts and direct_url.json included."""
    yard.install()
    other = theirs(tmp_path / "other")
    other.install(*yard.root.glob("wheelhouse/*.whl"), *yard.root.glob("wheelhouse/*/*.whl"))
    ours, its = yard.theirs.tree(), other.tree()
    here = [path for path in its if "torch" in path or "toyext" in path]
    assert len(here) > 20
    folder = str(yard.theirs.folder)
    for path in here:
        if path.startswith("bin/"):  # their first line names the Python
            text = (yard.theirs.folder / path).read_text(encoding="utf-8")
            assert text.replace(folder, str(other.folder)) == (other.folder / path).read_text()
        elif not path.endswith("RECORD"):
            assert ours[path] == its[path], path


def test_a_second_run_has_nothing_to_do_until_a_persons_pip_was_there(
    yard: InstallYard, heard: Heard
) -> None:
    assert is_stale(yard.job())
    yard.install()
    assert not is_stale(yard.job())
    first = yard.theirs.tree()
    yard.install()
    assert heard[-1] == f"all packages are already installed in {yard.theirs.folder}"
    assert yard.theirs.tree() == first

    yard.theirs.install(smallwheels.torch(yard.root / "pips", "2.7.0"))
    assert is_stale(yard.job())
    yard.install()
    assert versions(yard.theirs)["torch"] == "2.6.0"
    yard.theirs.uninstall("needed")
    assert is_stale(yard.job())


def test_two_installs_in_a_row_lead_back_to_what_was_there_before_the_first(
    yard: InstallYard, heard: Heard
) -> None:
    before = yard.theirs.tree()
    yard.install()
    one = sorted(path.name for path in (stamp(yard) / "files").rglob("*.py"))
    yard.torch("2.7.0", requires=NEEDS)
    yard.extension("1.1")
    yard.install()
    assert versions(yard.theirs)["toyext"] == "1.1"
    assert sorted(path.name for path in (stamp(yard) / "files").rglob("*.py")) == one
    restore(yard)
    assert yard.theirs.tree() == before
    assert list(install_journal_io.list_stamps(yard.replaced)) == []


def test_only_what_is_new_is_exchanged(yard: InstallYard, heard: Heard) -> None:
    yard.install()
    torch = (yard.theirs.site / "torch" / "__init__.py").stat()
    yard.extension("1.1", "answer = 43\n")
    yard.install()
    assert yard.theirs.says("import toyext; print(toyext.answer)") == "43"
    assert (yard.theirs.site / "torch" / "__init__.py").stat().st_ino == torch.st_ino


def test_what_a_persons_pip_put_there_in_between_is_what_comes_back(
    yard: InstallYard, heard: Heard
) -> None:
    yard.install()
    yard.theirs.install(smallwheels.torch(yard.root / "pips", "2.7.0", code="mine = 1"))
    theirs_now = {p: t for p, t in yard.theirs.tree().items() if "torch" in p}
    yard.install()
    assert any("another installer replaced packages" in line for line in heard)
    kept = list((stamp(yard) / "aside").glob("*/**/of_2_5_1.py"))
    assert len(kept) == 1  # nothing of theirs is deleted without a copy
    restore(yard)
    assert {p: t for p, t in yard.theirs.tree().items() if "torch" in p} == theirs_now
    assert kept[0].is_file()


def test_what_a_person_changed_since_is_kept_aside_and_told(
    yard: InstallYard, heard: Heard
) -> None:
    before = yard.theirs.tree()
    yard.install()
    edited = yard.theirs.site / "torch" / "same.py"
    edited.unlink()
    edited.write_text("same = 'mine'\n", encoding="utf-8")
    added = yard.theirs.site / "torch" / "mine.py"
    added.write_text("", encoding="utf-8")
    restore(yard)
    (aside,) = (stamp(yard) / "aside").glob("*/**/same.py")
    assert aside.read_text(encoding="utf-8") == "same = 'mine'\n"
    assert any(line.startswith("1 file was changed in") for line in heard)
    assert added.is_file()
    added.unlink()
    assert yard.theirs.tree() == before


def test_an_edit_is_kept_aside_by_the_next_install_too(yard: InstallYard, heard: Heard) -> None:
    before = yard.theirs.tree()
    yard.install()
    edited = yard.theirs.site / "torch" / "same.py"
    edited.unlink()
    edited.write_text("same = 'mine'\n", encoding="utf-8")
    yard.torch("2.7.0", requires=NEEDS)
    yard.install()
    (aside,) = (stamp(yard) / "aside").glob("*/**/same.py")
    assert aside.read_text(encoding="utf-8") == "same = 'mine'\n"
    (told,) = [line for line in heard if line.startswith("files that you changed after")]
    assert told.endswith("torch/same.py")
    restore(yard)
    assert yard.theirs.tree() == before


def test_a_persons_torch_of_later_gives_way_to_the_first_and_is_kept_aside(
    yard: InstallYard, heard: Heard
) -> None:
    before = yard.theirs.tree()
    yard.install()
    yard.theirs.install(smallwheels.torch(yard.root / "pips", "2.7.0"))
    restore(yard)
    assert yard.theirs.tree() == before
    assert list((stamp(yard) / "aside").glob("*/**/of_2_7_0.py"))


def test_files_that_are_of_nobody_come_back(yard: InstallYard) -> None:
    stray = yard.theirs.site / "toyext"
    stray.mkdir()
    (stray / "__init__.py").write_text("answer = 'mine'\n", encoding="utf-8")
    script = yard.theirs.folder / "bin" / "torchrun"
    script.unlink()
    script.symlink_to("./nowhere")
    before = yard.theirs.tree()
    yard.install()
    restore(yard)
    assert yard.theirs.tree() == before


def test_bytecode_of_the_old_comes_back_and_that_of_ours_goes(yard: InstallYard) -> None:
    yard.theirs.compiles("import torch, torch.same")
    before = yard.theirs.tree()
    assert any(path.endswith(".pyc") for path in before)
    yard.install()
    yard.theirs.compiles("import torch, torch.same")
    restore(yard)
    assert yard.theirs.tree() == before


def test_a_torch_whose_wheel_lacks_the_local_version_that_it_says_is_ours(
    yard: InstallYard,
) -> None:
    """PyPI's torch-2.15.0-….whl says 2.15.0+cu132."""
    yard.torch("2.6.0", says="2.6.0+cu124", requires=NEEDS)
    yard.install()
    assert yard.theirs.says("import torch; print(torch.__version__)") == "2.6.0+cu124"


@pytest.mark.parametrize("code", ["raise ImportError('the cause')", "__version__ = '9'"])
def test_a_torch_that_does_not_import_gives_way_to_what_was_there(
    yard: InstallYard, heard: Heard, code: str
) -> None:
    before = yard.theirs.tree()
    yard.torch("2.6.0", requires=NEEDS, code=code)
    with pytest.raises(TorchyardError, match=r"the cause|imports torch 9"):
        yard.install()
    assert yard.theirs.tree() == before
    assert list(install_journal_io.list_stamps(yard.replaced)) == []


def test_an_extension_that_does_not_import_leaves_the_last_good_install(
    yard: InstallYard, heard: Heard
) -> None:
    before = yard.theirs.tree()
    yard.install()
    good = yard.theirs.tree()
    yard.extension("1.1", "raise RuntimeError('undefined symbol')\n")
    with pytest.raises(TorchyardError, match=r"toyext does not import .*undefined symbol"):
        yard.install()
    assert yard.theirs.tree() == good
    restore(yard)
    assert yard.theirs.tree() == before


def test_what_else_wants_another_torch_is_named(yard: InstallYard, heard: Heard) -> None:
    yard.install()
    assert "vision 0.20.1 requires torch==2.5.1, but 2.6.0 is installed" in heard


def test_what_an_extension_lacks_comes_with_it_and_nothing_moves_for_it(
    yard: InstallYard, heard: Heard
) -> None:
    before = yard.theirs.tree()
    smallwheels.wheel(yard.index, "small", "1.0", {"small.py": "x = 1\n"})
    code = "import small\nanswer = 42\n"
    yard.extension(code=code, requires=["torch==9", "small", "vision<0.20"])
    yard.install()
    assert yard.theirs.says("import toyext; print(toyext.answer)") == "42"
    assert versions(yard.theirs)["vision"] == "0.20.1"
    assert "toyext requires vision<0.20, but vision 0.20.1 stays installed" in heard
    restore(yard)
    assert yard.theirs.tree() == before


def test_nothing_moves_for_what_an_extension_lacks_either(yard: InstallYard, heard: Heard) -> None:
    smallwheels.wheel(yard.index, "small", "1.0", {"small.py": ""}, ["third>=2"])
    for version in ("1.0", "2.0"):
        smallwheels.wheel(yard.index, "third", version, {"third.py": f"x = {version}\n"})
    yard.theirs.install(yard.index / "third-1.0-py3-none-any.whl")
    yard.extension(requires=["small"])
    yard.install()
    assert yard.theirs.says("import third; print(third.x)") == "1.0"
    assert any("cannot install small, which extensions require" in line for line in heard)
    assert yard.theirs.says("import toyext; print(toyext.answer)") == "42"


def test_what_an_extension_asks_for_and_nobody_has_is_told(yard: InstallYard, heard: Heard) -> None:
    yard.extension(requires=["nowhere==1"])
    yard.install()
    assert any("cannot install nowhere==1, which extensions require" in line for line in heard)
    assert yard.theirs.says("import toyext; print(toyext.answer)") == "42"


def test_another_profile_has_to_give_it_back_first(yard: InstallYard) -> None:
    yard.install()
    there = yard.theirs.tree()
    other = InstallYard(yard.root, yard.theirs, "other")
    other.torch("2.7.0", requires=NEEDS)
    with pytest.raises(TorchyardError, match="profile p already installed its torch") as told:
        other.install()
    assert "doit restore --yes profile=p" in told.value.hint
    assert yard.theirs.tree() == there


def test_another_profile_that_was_cut_off_in_its_first_install_has_to_give_it_back_too(
    yard: InstallYard,
) -> None:
    yard.install()
    (done,) = install_journal_io.list_stamps(yard.replaced)
    held = install_journal_io.read_record(done)
    assert held
    files.create_owned_folder(done / install_journal_io.PENDING_FOLDER)
    pending = install_journal_io.PendingInstall("installing", held)
    manifests.write_manifest(done / install_journal_io.JOURNAL_FILE, pending)
    (done / install_journal_io.RECORD_FILE).unlink()
    other = InstallYard(yard.root, yard.theirs, "other")
    other.torch("2.7.0", requires=NEEDS)
    with pytest.raises(TorchyardError, match="profile p already installed its torch"):
        other.install()


def test_of_two_profiles_at_one_moment_the_later_waits_and_gives_way(
    yard: InstallYard, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other comes between the look and the exchange."""
    other = InstallYard(yard.root, yard.theirs, "other")
    other.torch("2.7.0", requires=NEEDS)
    real = install_commit_io.back_up_files
    with ThreadPoolExecutor(1) as beside:
        second: list[Future[Any]] = []

        def slow(*given: Any) -> install_journal_io.InstallRecord:
            monkeypatch.setattr(install_commit_io, "back_up_files", real)
            second.append(beside.submit(other.install))
            while not any("waiting for another profile" in line for line in heard):
                assert not second[0].done()
            return real(*given)

        monkeypatch.setattr(install_commit_io, "back_up_files", slow)
        yard.install()
        with pytest.raises(TorchyardError, match="profile p already installed its torch"):
            second[0].result()
    assert versions(yard.theirs)["torch"] != "2.7.0"
    assert list(install_journal_io.list_stamps(other.replaced)) == []


def untouched(yard: InstallYard, match: str) -> TorchyardError:
    before = yard.theirs.tree()
    with pytest.raises(TorchyardError, match=match) as told:
        yard.install()
    assert yard.theirs.tree() == before
    assert list(install_journal_io.list_stamps(yard.replaced)) == []
    assert told.value.hint
    return told.value


def test_a_wheel_for_another_python_is_refused(yard: InstallYard) -> None:
    made = smallwheels.wheel(
        yard.root / "wheelhouse" / "x", "toyext", "2.0", {"toyext.py": ""}, tag="cp38-cp38-win32"
    )
    text = Path(yard.layout.compute_manifest_path("extensions:toy")).read_text(encoding="utf-8")
    known, name = files.read_artifact(made), "toyext-1.0-py3-none-any.whl"
    before = files.read_artifact(yard.root / "wheelhouse" / "for-torch" / name)
    text = text.replace(before.name, known.name).replace(before.sha256, known.sha256)
    text = text.replace(f'"size": {before.size}', f'"size": {known.size}')
    Path(yard.layout.compute_manifest_path("extensions:toy")).write_text(text, encoding="utf-8")
    untouched(yard, "is for cp38-cp38-win32, but .*nothing was changed")


def test_what_no_index_has_changes_nothing(yard: InstallYard) -> None:
    (yard.index / "needed-2.0-py3-none-any.whl").unlink()
    untouched(yard, "resolve what torch requires in .* failed")


def test_a_wheel_that_is_not_in_the_wheelhouse_any_more_is_told(yard: InstallYard) -> None:
    (yard.root / "wheelhouse" / "torch-2.6.0-py3-none-any.whl").unlink()
    assert "doit clean wheel" in untouched(yard, "the wheel torch-2.6.0.* is missing").hint


def test_a_package_without_a_list_of_its_files_is_refused(yard: InstallYard) -> None:
    (yard.theirs.site / "torch-2.5.1.dist-info" / "RECORD").unlink()
    assert "pip uninstall torch" in untouched(yard, "torch 2.5.1 has no RECORD").hint


def test_condas_torch_without_record_is_known_by_condas_own_list(
    yard: InstallYard, heard: Heard
) -> None:
    """As the packages of PyTorch's own channel are."""
    info = yard.theirs.site / "torch-2.5.1.dist-info"
    (info / "RECORD").unlink()
    egg = info.rename(yard.theirs.site / "torch-2.5.1-py3.11.egg-info")
    (egg / "METADATA").rename(egg / "PKG-INFO")
    prefix = yard.theirs.folder
    found = [*(yard.theirs.site / "torch").rglob("*"), *egg.iterdir(), prefix / "bin" / "torchrun"]
    files = [path.relative_to(prefix).as_posix() for path in found if path.is_file()]
    (prefix / "conda-meta").mkdir()
    meta = prefix / "conda-meta" / "pytorch-2.5.1-py3.11_cuda12.4.json"
    meta.write_text(json.dumps({"name": "pytorch", "files": files}), encoding="utf-8")
    before = yard.theirs.tree()
    yard.install()
    assert versions(yard.theirs)["torch"] == "2.6.0"
    assert not egg.exists()
    assert any("its torch 2.5.1 is replaced by another torch" in line for line in heard)
    restore(yard)
    assert yard.theirs.tree() == before


def test_a_torch_that_is_of_no_package_is_refused(yard: InstallYard) -> None:
    info = yard.theirs.site / "torch-2.5.1.dist-info"
    for path in info.iterdir():
        path.unlink()
    info.rmdir()
    untouched(yard, "this folder belongs to no installed package")


def test_a_link_to_a_source_tree_is_not_written_through(yard: InstallYard, tmp_path: Path) -> None:
    tree = tmp_path / "source"
    (yard.theirs.site / "torch").rename(tree)
    (yard.theirs.site / "torch").symlink_to(tree)
    untouched(yard, "this folder is a link to .*source")
    assert (tree / "same.py").is_file()


def test_a_folder_in_the_way_of_a_file_is_told(yard: InstallYard) -> None:
    (yard.theirs.site / "toyext" / "__init__.py").mkdir(parents=True)
    untouched(yard, "a folder exists where a file is required")


def test_an_environment_that_may_not_be_written_to_is_refused(
    yard: InstallYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write everywhere, so that what the system answers is played."""
    site, may = str(yard.theirs.site), os.access
    monkeypatch.setattr(os, "access", lambda p, mode: str(p) != site and may(p, mode))
    untouched(yard, "you cannot write to this folder; nothing was changed")


def test_a_folder_of_somebody_else_in_the_environment_is_refused(
    yard: InstallYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, may = str(yard.theirs.site / "torch" / "lib"), os.access
    monkeypatch.setattr(os, "access", lambda p, mode: str(p) != folder and may(p, mode))
    untouched(yard, "you cannot write to this folder; nothing was changed")


def test_files_that_cannot_share_a_disk_are_copied(
    yard: InstallYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    before = yard.theirs.tree()
    monkeypatch.setattr(os, "link", refuse)
    yard.install()
    assert versions(yard.theirs)["torch"] == "2.6.0"
    yard.torch("2.7.0", requires=NEEDS)
    yard.install()
    restore(yard)
    assert yard.theirs.tree() == before


def test_what_was_kept_and_is_not_whole_any_more_is_not_put_back(yard: InstallYard) -> None:
    yard.install()
    there = yard.theirs.tree()
    kept = next((stamp(yard) / "files").rglob("same.py"))
    kept.write_text("", encoding="utf-8")
    with pytest.raises(TorchyardError, match="backup of this file is missing or") as told:
        restore(yard)
    assert "torch==2.5.1" in told.value.hint
    assert yard.theirs.tree() == there


def test_an_environment_that_is_gone_is_told(yard: InstallYard) -> None:
    yard.install()
    yard.theirs.folder.rename(yard.root / "moved")
    with pytest.raises(TorchyardError, match="was removed or has another Python now"):
        restore(yard)
    assert (stamp(yard) / "replaced.json").is_file()


def test_an_environment_that_is_gone_keeps_no_other_from_its_own(
    yard: InstallYard, tmp_path: Path
) -> None:
    yard.install()
    second = theirs(tmp_path / "second")
    before = second.tree()
    InstallYard(yard.root, second).install()
    assert second.tree() != before
    yard.theirs.folder.rename(yard.root / "moved")
    with pytest.raises(TorchyardError, match="was removed or has another Python now"):
        restore(yard)
    assert second.tree() == before
    assert len(list(install_journal_io.list_stamps(yard.replaced))) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="not run: there is no lib64")
def test_a_python_whose_libraries_are_in_lib64_gets_its_torch(yard: InstallYard) -> None:
    """As on Fedora, openSUSE and RHEL, where lib64 is a link in a venv."""
    with suppress(FileExistsError):
        (yard.theirs.folder / "lib64").symlink_to("lib")
    line = "import sys; sys.platlibdir = 'lib64'\n"
    (yard.theirs.site / "platlibdir.pth").write_text(line, encoding="utf-8")
    told = "import sysconfig; print(sysconfig.get_path('platlib'))"
    assert "/lib64/" in yard.theirs.says(told)
    before = yard.theirs.tree()
    yard.torch("2.6.0", requires=NEEDS, tag=str(next(sys_tags())))
    yard.install()
    assert versions(yard.theirs)["torch"] == "2.6.0"
    assert yard.theirs.says("import toyext; print(toyext.answer)") == "42"
    restore(yard)
    assert yard.theirs.tree() == before


def test_what_comes_after_a_module_without_a_driver_is_looked_at(yard: InstallYard) -> None:
    job = yard.job()
    lacks = "raise ImportError('libcuda.so.1: cannot open shared object file')\n"
    for name, code in {"torch": "__version__ = '2.6.0'\n", "one": lacks, "two": ""}.items():
        (yard.theirs.site / name).mkdir(exist_ok=True)
        (yard.theirs.site / name / "__init__.py").write_text(code, encoding="utf-8")
    manifests.write_manifest(
        job.extensions["toy"], BuiltExtension("toy", "built", {}, TOY, (), ("one", "two"))
    )
    Path(job.replaced).mkdir(parents=True)
    target = query_environment(Path(yard.theirs.python))
    run.require_imports(job, target, "2.6.0")  # without a driver it cannot be tried
    with pytest.raises(TorchyardError, match=r"imports torch 2\.6\.0"):
        run.require_imports(job, target, "2.7.0")
    (yard.theirs.site / "two" / "__init__.py").write_text("raise RuntimeError('why')\n")
    with pytest.raises(TorchyardError, match=r"two does not import in .*why"):
        run.require_imports(job, target, "2.6.0")


# in a process of its own, whose children get no PYTHONPATH: KILL before the nth change of a file
# below the folder, and at the end how many there were
CUT = """
import atexit, os, pathlib, signal
place, at, made = os.environ["CUT_IN"], int(os.environ["CUT_AT"]), [0]

def cut(real):
    def counted(*args, **kwargs):
        if any(place in str(arg) for arg in args):
            made[0] += 1
            if made[0] == at:
                os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)
    return counted

for name in ("link", "replace", "unlink", "rmdir", "mkdir"):
    setattr(os, name, cut(getattr(os, name)))
atexit.register(lambda: pathlib.Path(os.environ["CUT_OUT"]).write_text(str(made[0])))
"""
RUN = """
import sys
from pathlib import Path
from tasks.cli.commands import restore
from tasks.core.project import Project
from tasks.lock.opened_profile_io import SelectedProfile
from tests.support.installyard import InstallYard
from tests.support.smallwheels import Theirs
root, person, what = sys.argv[1:]
yard = InstallYard(Path(root), Theirs(Path(person)))
profile = SelectedProfile(Project.of_checkout(yard.root), "p", None)
yard.install() if what == "install" else restore.run(profile, yes=True)
"""
NEVER = 10**9
MOMENTS = (0.0, 0.02, 0.4, 0.7, 1.0)  # of all changes: first and last, an early one, two in between
needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="not run: POSIX signals")
FIRST = ("/person/", "install")
cut_in = pytest.mark.parametrize(
    ("place", "then"), long_but([FIRST], [FIRST, ("/replaced/", "restore")])
)


def cut_off(yard: InstallYard, what: str, place: str, at: int) -> int:
    """Run it, killed before change number `at` below `place`; how many there were where it never
    came to that.
    """
    cut = yard.root / "cut"
    cut.mkdir(exist_ok=True)
    (cut / "sitecustomize.py").write_text(CUT, encoding="utf-8")
    path = os.pathsep.join([str(cut), str(Path(__file__).parents[2])])
    told = {"CUT_AT": str(at), "CUT_IN": place, "CUT_OUT": str(cut / "made")}
    argv = [sys.executable, "-c", RUN, str(yard.root), str(yard.theirs.folder), what]
    env = {**os.environ, "PYTHONPATH": path, **told}
    done = subprocess.run(argv, env=env, check=False, capture_output=True, text=True)
    if at == NEVER:
        assert done.returncode == 0, done.stderr
        return int((cut / "made").read_text(encoding="utf-8"))
    assert done.returncode == -signal.SIGKILL, done.stderr
    return at


def moments(changes: int) -> list[int]:
    assert changes > 30
    return [1 + round(part * (changes - 1)) for part in MOMENTS]


@needs_posix
@cut_in
def test_a_kill_anywhere_in_an_install_loses_nothing(
    yard: InstallYard, heard: Heard, place: str, then: str
) -> None:
    """Whoever comes next ends what was begun."""
    before = yard.theirs.tree()
    changes = cut_off(yard, "install", place, NEVER)
    good = yard.theirs.tree()
    restore(yard)
    for at in moments(changes):
        cut_off(yard, "install", place, at)
        if then == "install":
            yard.install()
            assert yard.theirs.tree() == good, at
        restore(yard)
        assert yard.theirs.tree() == before, at
        assert list(install_journal_io.list_stamps(yard.replaced)) == [], at


@needs_posix
@cut_in
@pytest.mark.long
def test_a_kill_anywhere_in_a_restore_loses_nothing(
    yard: InstallYard, heard: Heard, place: str, then: str
) -> None:
    before = yard.theirs.tree()
    yard.install()
    good = yard.theirs.tree()
    changes = cut_off(yard, "restore", place, NEVER)
    for at in moments(changes):
        yard.install()
        cut_off(yard, "restore", place, at)
        if then == "install":
            yard.install()
            assert yard.theirs.tree() == good, at
        restore(yard)
        assert yard.theirs.tree() == before, at
        assert list(install_journal_io.list_stamps(yard.replaced)) == [], at


@needs_posix
@pytest.mark.long
def test_a_kill_in_a_second_install_keeps_the_way_back_to_the_first(
    yard: InstallYard, heard: Heard
) -> None:
    before = yard.theirs.tree()
    yard.install()
    yard.torch("2.7.0", requires=NEEDS)
    changes = cut_off(yard, "install", "/person/", NEVER)
    for at in moments(changes):
        restore(yard)
        yard.torch("2.6.0", requires=NEEDS)
        yard.install()
        yard.torch("2.7.0", requires=NEEDS)
        cut_off(yard, "install", "/person/", at)
        yard.install()
        assert versions(yard.theirs)["torch"] == "2.7.0", at
        restore(yard)
        assert yard.theirs.tree() == before, at
        assert list(install_journal_io.list_stamps(yard.replaced)) == [], at
