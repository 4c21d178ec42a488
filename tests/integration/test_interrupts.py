"""INT, TERM and KILL in the middle of a stage: nothing runs on, and the same command finishes."""

from __future__ import annotations

import os
import signal
import sys
import time
import zipfile
from pathlib import Path

import pytest

from tests.integration.conftest import source_profile
from tests.support.rows import long_but
from tests.support.toyextension import make_extension
from tests.support.yard import Yard, kill_when, processes_with, wait_for

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals"),
]

SLOW = """
if __import__("os").path.exists({slow!r}) and "bdist_wheel" in " ".join(__import__("sys").argv):
    open({reached!r}, "w").close()
    __import__("time").sleep(300)
"""


def slow_wheel(tree: Path, switches: Path) -> None:
    """The tree's setup.py waits in the middle of making a wheel while the file `slow` is there."""
    script = tree / "setup.py"
    wait = SLOW.format(slow=str(switches / "slow"), reached=str(switches / "reached"))
    script.write_text(script.read_text(encoding="utf-8").replace("setup(", f"{wait}\nsetup(", 1))


def expect_code(code: int, number: signal.Signals) -> None:
    assert code == (-9 if number == signal.SIGKILL else 128 + number)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_kill_in_the_middle_of_an_extension_costs_only_that_extension(
    yard: Yard, tree: Path, tmp_path: Path, number: signal.Signals
) -> None:
    extension = make_extension(tmp_path / "extension", switches=tmp_path)
    yard.profile(**source_profile(tree, extension))
    yard.must("wheel")
    (tmp_path / "slow").touch()
    code, out = kill_when(yard.start("build"), tmp_path / "reached", number)
    expect_code(code, number)
    assert "Traceback" not in out
    assert "Finished" not in out
    assert not (yard.build / "extensions" / "toy.json").exists()
    if number != signal.SIGKILL:
        assert not processes_with(str(yard.folder))
    (tmp_path / "slow").unlink()
    done = yard.must("build")
    assert yard.manifest("extensions:toy")["status"] == "built"
    assert "Compiled" not in done


@pytest.mark.parametrize("number", long_but([signal.SIGINT], [signal.SIGINT, signal.SIGKILL]))
def test_a_kill_in_the_middle_of_the_wheel_is_not_taken_for_a_wheel(
    yard: Yard, tree: Path, tmp_path: Path, number: signal.Signals
) -> None:
    slow_wheel(tree, tmp_path)
    yard.profile(**source_profile(tree))
    yard.must("compile")
    (tmp_path / "slow").touch()
    code, out = kill_when(yard.start("build"), tmp_path / "reached", number)
    expect_code(code, number)
    assert "Traceback" not in out
    assert "Finished" not in out
    assert not (yard.build / "wheel.json").exists()
    if number != signal.SIGKILL:
        assert not processes_with(str(yard.folder))
    (tmp_path / "slow").unlink()
    yard.must("build")
    assert yard.manifest("wheel")["release"] == "2.6.0"


# in doit itself, whose children get no PYTHONPATH: KILL before the nth file of an install
CUT = """
import os, signal
left, replace = [int(os.environ["CUT_AT"])], os.replace

def counted(source, target):
    if f"{os.sep}landing{os.sep}install{os.sep}" in str(source):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
    return replace(source, target)

os.replace = counted
"""


@pytest.mark.long
def test_a_kill_in_the_middle_of_an_install_is_installed_over(
    yard: Yard, tree: Path, tmp_path: Path
) -> None:
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "sitecustomize.py").write_text(CUT, encoding="utf-8")
    yard.profile(**source_profile(tree))
    yard.must("build")
    source = tree / "torch" / "__init__.py"
    for at in (1, 2, 3, 5, 9):  # RECORD of both, a file, the next, and two in dist-info
        source.write_text(f"{source.read_text(encoding='utf-8')}\nADDED = {at}\n", encoding="utf-8")
        env = {"PYTHONPATH": str(tmp_path / "cut"), "CUT_AT": str(at)}
        code, _ = yard.doit("build", env=env)
        expect_code(code, signal.SIGKILL)
        assert not (yard.build / "wheel-content.json").exists()
        yard.must("build")
        assert package(yard) == packed(yard)


def package(yard: Yard) -> dict[str, bytes]:
    """The installed torch, but bytecode."""
    folder = Path(yard.manifest("wheel")["folder"])
    return {
        path.relative_to(folder.parent).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def packed(yard: Yard) -> dict[str, bytes]:
    """What the wheel has of it."""
    name = yard.manifest("wheel")["artifact"]["name"]
    with zipfile.ZipFile(yard.folder / "wheelhouse" / name) as wheel:
        names = [name for name in wheel.namelist() if name.startswith("torch/")]
        return {name: wheel.read(name) for name in names}


def test_a_second_doit_is_told_who_is_at_work(yard: Yard, tree: Path, tmp_path: Path) -> None:
    extension = make_extension(tmp_path / "extension", switches=tmp_path)
    yard.profile(**source_profile(tree, extension))
    (tmp_path / "slow").touch()
    first = yard.start("build")
    try:
        wait_for(tmp_path / "reached", first)
        code, out = yard.doit("build")
        assert code == 1
        assert f"process {first.pid}" in out
    finally:
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=120)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_end_while_the_settings_are_read_prints_nothing(
    yard: Yard, tree: Path, number: signal.Signals
) -> None:
    yard.profile(**source_profile(tree))
    profile = yard.folder / "config" / "profiles" / "trial.yaml"
    profile.unlink()
    os.mkfifo(profile)  # who reads it waits for a writer
    child = yard.start("build")
    writer = _opened_by_a_reader(profile)
    child.send_signal(number)
    out, _ = child.communicate(timeout=120)
    os.close(writer)
    assert out == ""
    assert child.returncode == -number


def _opened_by_a_reader(fifo: Path) -> int:
    for _ in range(1000):
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            time.sleep(0.02)
    raise AssertionError("nobody reads it")
