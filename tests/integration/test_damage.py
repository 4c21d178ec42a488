"""What a build left is damaged, lost or made read-only, one thing at a time: the plain command
makes all of it good, and what a person wrote stays as it is.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from tasks.system import files
from tests.integration.conftest import commit, git, source_profile
from tests.support.rows import long_but
from tests.support.toyextension import make_extension
from tests.support.toytree import make_tree
from tests.support.yard import NAME, Yard, processes_with

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform == "win32", reason="the tree is built with POSIX tools"),
]

EDIT = "// mine, and not committed\n"
DAY = 86_400


class Site:
    """A yard that has built a torch and an extension, and what came out of it."""

    def __init__(self, folder: Path) -> None:
        self.tree = make_tree(folder / "pytorch")
        git(self.tree, "init", "-q", "-b", "main")
        commit(self.tree, "first")
        edited = self.tree / "c10" / "core.cpp"
        edited.write_text(edited.read_text("utf-8") + EDIT, "utf-8")
        self.yard = Yard(folder / "checkout")
        extension = make_extension(folder / "extension", switches=folder)
        self.yard.profile(**source_profile(self.tree, extension))
        self.yard.must("build")
        self.expected = self.products()

    def products(self) -> dict[str, str]:
        """The installed libraries of both, by their content, and the archs of the extension."""
        torch = Path(self.yard.manifest("wheel")["folder"]) / "lib"
        mine = [Path(path) for path in self.yard.manifest("extensions:toy")["libraries"]]
        found = [path for path in (*torch.iterdir(), *mine) if path.is_file()]
        return {path.name: sha256(path.read_bytes()).hexdigest() for path in found}

    def file(self, name: str) -> Path:
        """The one file of the checkout that a pattern names."""
        (found,) = self.yard.folder.glob(name)
        return found

    def mended(self) -> str:
        """What the plain command says, once all is as it was."""
        code, out = self.yard.doit("build")
        assert code == 0, out
        assert "Traceback" not in out, out
        assert self.products() == self.expected
        assert (self.tree / "c10" / "core.cpp").read_text("utf-8").endswith(EDIT)
        assert not processes_with(str(self.yard.folder))
        assert not list(self.yard.folder.rglob(".lock.pid"))
        again = self.yard.must("build")
        assert "Up to date" in again, again
        return out


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("damage"))


BUILD = f"build/{NAME}"
HARMS: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[: len(data) // 2],
    "zeros": lambda data: b"\0" * len(data),
    "empty": lambda _: b"",
}
STATE = {
    f".doit.db.{NAME}": "cut",
    f"{BUILD}/deps.json": "zeros",
    f"{BUILD}/source.json": "empty",
    f"{BUILD}/env.json": "cut",
    f"{BUILD}/compile.json": "zeros",
    f"{BUILD}/wheel.json": "empty",
    f"{BUILD}/surface.json": "cut",
    f"{BUILD}/host.json": "zeros",
    f"{BUILD}/extension-env.json": "empty",
    f"{BUILD}/extensions/toy.json": "cut",
}


@pytest.mark.parametrize(("name", "how"), long_but([*STATE.items()][::4], STATE.items()))
def test_a_file_of_ours_that_is_damaged_is_made_good(site: Site, name: str, how: str) -> None:
    path = site.file(name)
    before = path.read_bytes()
    path.write_bytes(HARMS[how](before))
    site.mended()
    assert path.read_bytes() == before or path.parent.name != NAME  # a wheel has its own time in it


def test_a_number_in_a_manifest_that_a_disk_changed_is_noticed(site: Site) -> None:
    """It can be read, and is none that we wrote."""
    path = site.file(f"{BUILD}/wheel.json")
    before = path.read_text("utf-8")
    path.write_text(before.replace("2.6.0", "2.6.1"), "utf-8")
    assert "wheel.json was changed after the stage wrote it" in site.mended()
    assert path.read_text("utf-8") == before


def test_a_database_that_is_lost_compiles_no_extension_again(site: Site) -> None:
    site.file(f".doit.db.{NAME}").unlink()
    assert "toy" not in site.mended()


def test_a_run_that_was_refused_costs_no_extension(site: Site) -> None:
    """doit forgets what waited for a stage that failed."""
    with files.lock_folder(site.yard.build):
        code, out = site.yard.doit("build")
    assert code == 1, out
    assert "toy" not in site.mended()


def test_a_mistake_in_torch_that_is_taken_back_costs_no_extension(site: Site) -> None:
    source = site.tree / "c10" / "core.cpp"
    right = source.read_text("utf-8")
    source.write_text(f"int wrong = ;\n{right}", "utf-8")
    code, out = site.yard.doit("build")
    assert code == 1, out
    source.write_text(right, "utf-8")
    assert "toy" not in site.mended()
    assert "toy" in site.yard.must("-a", "build")


def test_records_and_logs_decide_nothing(site: Site) -> None:
    for path in site.yard.build.rglob("*.record.json"):
        path.write_bytes(b"\0")
    site.mended()
    shutil.rmtree(site.yard.build / "logs")
    shutil.rmtree(site.yard.build / "records")
    site.mended()


@pytest.mark.long
def test_all_that_is_known_can_be_lost_at_once(site: Site) -> None:
    for path in (*site.yard.build.glob("*.json"), *site.yard.folder.glob(".doit.db.*")):
        path.unlink()
    site.mended()


def test_an_environment_that_was_removed_is_made_again(site: Site) -> None:
    shutil.rmtree(site.yard.build / "venv")
    site.mended()


def test_an_interpreter_that_is_gone_from_the_environment_is_put_back(site: Site) -> None:
    """What an upgrade of the system's Python under it leaves."""
    python = Path(site.yard.manifest("deps")["python"])
    python.unlink()
    python.symlink_to("/nowhere/python3.11")
    site.mended()
    assert python.exists()


def test_a_file_of_the_installed_torch_that_is_gone_is_told_with_what_puts_it_back(
    site: Site,
) -> None:
    (Path(site.yard.manifest("wheel")["folder"]) / "lib" / "libc10.so").unlink()
    code, out = site.yard.doit("validate")
    assert (code, "failed" in out, "Traceback" in out) == (1, True, False), out
    site.yard.must("clean", "wheel")
    site.mended()


@pytest.mark.parametrize("name", long_but(["torch-*.whl"], ["torch-*.whl", "toy*.whl"]))
def test_a_wheel_that_was_damaged_is_not_installed(site: Site, name: str) -> None:
    wheel = next((site.yard.folder / "wheelhouse").glob(name))
    wheel.write_bytes(wheel.read_bytes()[:-100])
    shutil.rmtree(site.yard.build / "venv")
    site.mended()


@pytest.mark.parametrize("days", long_but([400], [-400, 400]))
def test_a_clock_that_jumped_costs_no_product(site: Site, days: int) -> None:
    """All that was made bears a time of another year; sources that a person saved bear today's."""
    then = time.time() + days * DAY
    environment = site.yard.build / "venv"  # whose files may be one with those of uv's cache
    for path in site.yard.build.rglob("*"):
        if path.is_file() and not path.is_symlink() and not path.is_relative_to(environment):
            os.utime(path, (then, then))
    site.mended()


def test_a_lock_of_a_run_that_was_killed_long_ago_stops_nobody(site: Site) -> None:
    (site.yard.build / ".lock").touch()
    (site.yard.build / ".lock.pid").write_text("999999-1\n")
    assert "Up to date" in site.yard.must("build")


@pytest.mark.skipif(
    os.name == "posix" and os.geteuid() == 0, reason="not run: root may write anywhere"
)
def test_a_folder_that_cannot_be_written_is_named(site: Site) -> None:
    site.yard.build.chmod(0o555)
    try:
        code, out = site.yard.doit("build")
    finally:
        site.yard.build.chmod(0o755)
    assert (code, "Traceback" in out) == (1, False), out
    assert str(site.yard.build) in out
    site.mended()
