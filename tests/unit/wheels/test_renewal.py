"""A renewal writes only what changed, and the result equals that of pip or uv."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tasks.system import environments, files
from tasks.wheels import installed_wheel_io
from tasks.wheels.incremental_install_io import WheelUpdate, update_installed_wheel
from tests.support import torchwheels
from tests.support.rows import long_but
from tests.support.torchwheels import MODULES, NEWER, Venv


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("venvs") / "venv"
    environments.create_venv(place, os.sys.executable, None, place.parent / "log")  # type: ignore[attr-defined]
    return place


@pytest.fixture(params=["uv", "pip"])
def venv(folder: Path, request: pytest.FixtureRequest) -> Iterator[Venv]:
    """Empty before and after each test: uninstalling removes everything."""
    found = Venv(folder, request.param)
    empty = found.tree()
    yield found
    if installed_wheel_io.hash_installed_record(found.site, "demo"):
        found.uninstall()
    assert found.tree() == empty


def renewal(venv: Venv, before: Path, wheel: Path, tmp_path: Path) -> WheelUpdate | None:
    """Plan a renewal as the wheel stage does, with the current RECORD."""
    digest = installed_wheel_io.hash_installed_record(venv.site, "demo")
    here = installed_wheel_io.find_unmodified_wheel(venv.site, "demo", digest)
    files.create_owned_folder(tmp_path / "ours")
    scratch = tmp_path / "ours" / "install"
    files.remove_owned(scratch)
    places = (tmp_path / "elsewhere" / before.name, before)
    log = tmp_path / "log"
    if here is None:
        return None
    return WheelUpdate(here, before, places, wheel, scratch, venv.python, log)


def renewed(venv: Venv, before: Path, wheel: Path, tmp_path: Path) -> int | None:
    result = renewal(venv, before, wheel, tmp_path)
    assert result
    return update_installed_wheel(result)


@pytest.mark.parametrize("version", ["1.0+g2", "1.0+g1"])
def test_renewal_equals_a_full_install(venv: Venv, version: str, tmp_path: Path) -> None:
    before = torchwheels.make(tmp_path / "before", "1.0+g1")
    wheel = torchwheels.make(tmp_path / "new", version, NEWER)
    wheel.chmod(0o600)  # which changes its ctime, but not its mtime
    empty = venv.tree()
    venv.install(before)
    venv.run(venv.python, "-c", "import demo, demo.old.gone, top")
    assert renewed(venv, before, wheel, tmp_path) == 6
    assert venv.run(venv.python, "-c", "import demo, top; demo.main(); print(top.top)") == "22\n2\n"
    assert venv.run(str(environments.find_scripts_folder(venv.folder) / "demorun")) == "22\n"
    assert "No broken requirements" in venv.pip("check")
    shown = venv.pip("show", "-f", "demo")
    assert f"Version: {version}" in shown
    assert "more.py" in shown
    assert "gone.py" not in shown
    found, modes = venv.tree(), _modes(venv.site)
    venv.uninstall()
    assert venv.tree() == empty
    venv.install(wheel)
    assert found == venv.tree()
    assert modes == _modes(venv.site)


def _modes(site: Path) -> dict[str, str]:
    return {
        str(path): stat.filemode(path.stat().st_mode) for path in site.rglob("demo*/**/*.[ps][yo]")
    }


def test_consecutive_renewals_work(venv: Venv, tmp_path: Path) -> None:
    made = [
        torchwheels.make(tmp_path / str(n), f"1.0+g{n}", MODULES if n % 2 else NEWER)
        for n in range(4)
    ]
    venv.install(made[0])
    for before, wheel in pairwise(made):
        assert renewed(venv, before, wheel, tmp_path) == 6
    found = venv.tree()
    venv.install(made[-1])
    assert found == venv.tree()


def test_changed_files_are_replaced_atomically_and_others_untouched(
    venv: Venv, tmp_path: Path
) -> None:
    before = torchwheels.make(tmp_path / "before", "1.0+g1")
    wheel = torchwheels.make(tmp_path / "new", "1.0+g2", NEWER)
    venv.install(before)
    changed, same = venv.site / "demo/lib/lib,c10.so", venv.site / "demo/lib/libtorch.so"
    mapped = tmp_path / "mapped"  # a hard link, as a running Python or uv's cache has it
    os.link(changed, mapped)
    inode = same.stat().st_ino
    renewed(venv, before, wheel, tmp_path)
    assert changed.read_bytes() == b"\x7fELF two"
    assert mapped.read_bytes() == b"\x7fELF one"
    assert same.stat().st_ino == inode
    mapped.unlink()


def test_bytecode_of_replaced_files_is_removed(venv: Venv, tmp_path: Path) -> None:
    before = torchwheels.make(tmp_path / "before", "1.0+g1")
    wheel = torchwheels.make(tmp_path / "new", "1.0+g2", NEWER)
    venv.install(before)
    venv.run(venv.python, "-c", "import demo, demo.same, demo.old.gone")
    cached = venv.site / "demo" / "__pycache__"
    (same,) = cached.glob("same.*.pyc")
    (old,) = cached.glob("__init__.*.pyc")
    old.with_name("__init__.cpython-99.opt-1.pyc").write_bytes(b"of another Python")
    held = old.read_bytes()
    renewed(venv, before, wheel, tmp_path)
    assert same.exists()
    assert not (venv.site / "demo" / "old").exists()
    found = {path.name: path.read_bytes() for path in cached.glob("__init__.*.pyc")}
    assert held not in found.values()
    assert "__init__.cpython-99.opt-1.pyc" not in found
    assert bool(found) == (venv.installer == "pip")  # which compiles it and lists the bytecode


def listed(venv: Venv) -> dict[str, bytes]:
    """List files without directories: an empty directory that no RECORD lists may remain."""
    return {name: data for name, data in venv.tree().items() if not name.endswith("/")}


class Cut(BaseException):
    """Simulates SIGKILL between two writes."""


def cut_after(count: int, patch: pytest.MonkeyPatch) -> None:
    """Raise at the call after `count` calls that change the installation."""
    left = [count]

    def guard(real: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            if not left[0]:
                raise Cut
            left[0] -= 1
            return real(*given, **named)

        return call

    patch.setattr(os, "replace", guard(os.replace))
    for name in ("unlink", "rename", "rmdir"):
        patch.setattr(Path, name, guard(getattr(Path, name)))


@pytest.mark.parametrize("again", long_but(["install"], ["uninstall", "install"]))
def test_interrupted_renewal_can_be_uninstalled_and_reinstalled(
    venv: Venv, again: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = torchwheels.make(tmp_path / "before", "1.0+g1")
    wheel = torchwheels.make(tmp_path / "new", "1.0+g2", NEWER)
    empty = listed(venv)
    venv.install(wheel)
    whole = listed(venv)
    points = range(60) if venv.installer == "uv" else range(0, 60, 4)
    done = False
    for point in points:
        venv.install(before)
        first = listed(venv)
        result = renewal(venv, before, wheel, tmp_path)
        digest = installed_wheel_io.hash_installed_record(venv.site, "demo")
        assert result
        with monkeypatch.context() as patch:
            cut_after(point, patch)
            try:
                update_installed_wheel(result)
                done = True
            except Cut:
                pass
        if installed_wheel_io.find_unmodified_wheel(venv.site, "demo", digest):
            assert listed(venv) == first, point
        if again == "uninstall":
            venv.uninstall()
            assert listed(venv) == empty, point
        else:
            venv.install(wheel)
            assert listed(venv) == whole, point
        shutil.rmtree(venv.site / "demo", ignore_errors=True)
        if done:
            break
    assert done
    if again == "install":
        venv.install(wheel)


def test_conflicting_file_is_left_to_the_installer(venv: Venv, tmp_path: Path) -> None:
    before = torchwheels.make(tmp_path / "before", "1.0+g1")
    wheel = torchwheels.make(tmp_path / "new", "1.0+g2", NEWER)
    venv.install(before)
    (venv.site / "demo" / "new").write_text("a file, where a folder is to be", encoding="utf-8")
    assert renewed(venv, before, wheel, tmp_path) is None
    (venv.site / "demo" / "new").unlink()
    venv.install(wheel)
    found = venv.tree()
    venv.uninstall()
    venv.install(wheel)
    assert found == venv.tree()


REQUIRES = f"{torchwheels.METADATA}Requires-Dist: pip\n"


@pytest.mark.parametrize(
    "made",
    [
        {"described": {"entry_points.txt": torchwheels.SCRIPTS.replace("demorun", "other")}},
        {"described": {"entry_points.txt": ""}},
        {"metadata": REQUIRES},
        {"metadata": torchwheels.METADATA.replace("3.8", "3.9")},
        {"described": {"WHEEL": torchwheels.WHEEL.replace("py3-none", "py3.py2-none")}},
        {"modules": {**MODULES, "demo-1.0+g2.data/scripts/run": b"#!python\n"}},
    ],
)
def test_wheel_that_needs_installer_steps_is_left_to_the_installer(
    folder: Path, made: dict[str, Any], tmp_path: Path
) -> None:
    venv = Venv(folder, "uv")
    before = torchwheels.make(tmp_path / "before", "1.0+g1")
    wheel = torchwheels.make(tmp_path / "new", "1.0+g2", **made)
    venv.install(before)
    found = venv.tree()
    assert renewed(venv, before, wheel, tmp_path) is None
    assert found == venv.tree()
    venv.uninstall()


def test_installation_from_another_source_is_left_to_the_installer(
    venv: Venv, tmp_path: Path
) -> None:
    before = torchwheels.make(tmp_path / "before", "1.0+g1")
    venv.install(before)
    moved = before.rename(tmp_path / before.name)
    assert renewed(venv, moved, torchwheels.make(tmp_path, "1.0+g2", NEWER), tmp_path) is None


def test_installation_of_another_wheel_is_left_to_the_installer(venv: Venv, tmp_path: Path) -> None:
    before = torchwheels.make(tmp_path / "before", "1.0+g1")
    venv.install(before)
    other = torchwheels.make(tmp_path / "before", "1.0+g1", {**MODULES, "demo/a.py": b"a = 1\n"})
    assert renewed(venv, other, torchwheels.make(tmp_path, "1.0+g2", NEWER), tmp_path) is None
