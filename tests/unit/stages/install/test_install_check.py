"""Tests of the check of install.into at load, with real interpreters."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.cli.session import open_session
from tasks.core.errors import SettingsError
from tasks.core.model import Interpreter, Layout
from tasks.core.project import Project
from tasks.settings.schema import Settings, parse_settings
from tasks.stages.install.target_interpreter_io import (
    InterpreterInfo,
    check_install_target,
    find_interpreter,
    inspect_interpreter,
)
from tasks.system import environments
from tests.support.actionyard import CHOICE
from tests.support.checkout import write


@pytest.fixture(scope="module")
def venvs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Create two environments without pip."""
    folder = tmp_path_factory.mktemp("venvs")
    made = {name: folder / name for name in ("one", "other")}
    for path in made.values():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(path)], check=True)
    return made


def read_error(
    root: Path, into: str, ours: Collection[str] = (), python: str = sys.executable
) -> SettingsError:
    choice = replace(CHOICE, python=Interpreter(python, "3.12.0"))
    settings = parse_settings({"install": {"into": into}})
    with pytest.raises(SettingsError) as error:
        check_install_target(settings, Layout(Project.of_checkout(root), "p", root), choice, ours)
    assert error.value.location == "install.into"
    assert error.value.hint
    return error.value


def python_of(venv: Path) -> str:
    return str(environments.find_venv_python(venv))


def test_environment_of_same_python_is_accepted(tmp_path: Path, venvs: dict[str, Path]) -> None:
    settings = parse_settings({"install": {"into": python_of(venvs["one"])}})
    choice = replace(CHOICE, python=Interpreter(sys.executable, "3.12.0"))
    layout = Layout(Project.of_checkout(tmp_path), "p", tmp_path)
    check_install_target(settings, layout, choice, [sys.prefix])
    check_install_target(Settings(), layout, choice, [sys.prefix])


def test_missing_interpreter_is_refused(tmp_path: Path) -> None:
    assert "does not exist" in read_error(tmp_path, str(tmp_path / "nowhere" / "python")).message
    assert read_error(tmp_path, "no-such-python").message == 'there is no "no-such-python" on PATH'


def test_environment_folder_is_refused_with_its_python_as_hint(
    tmp_path: Path, venvs: dict[str, Path]
) -> None:
    error = read_error(tmp_path, str(venvs["one"]))
    assert error.hint == f"write the path of its Python: {python_of(venvs['one'])}"
    assert read_error(tmp_path, str(tmp_path)).hint == "write the path of a Python"


@pytest.mark.parametrize("name", [".venv", "venv"])
def test_project_folder_is_refused_with_its_venv_as_hint(tmp_path: Path, name: str) -> None:
    python = tmp_path / name / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert read_error(tmp_path, str(tmp_path)).hint == f"write the path of its Python: {python}"


def test_program_other_than_python_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho torchyard hello\n", encoding="utf-8")
    program.chmod(0o755)
    message = read_error(tmp_path, str(program)).message
    assert message == f"{program} is not a Python that runs on this machine"
    (tmp_path / "text").write_text("", encoding="utf-8")
    assert "is not a Python" in read_error(tmp_path, str(tmp_path / "text")).message


@pytest.mark.skipif(sys.platform == "win32", reason="not run: home is not $HOME there")
def test_interpreter_path_is_relative_to_checkout_and_expands_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "env" / "bin" / "python"
    place.parent.mkdir(parents=True)
    place.touch()
    assert find_interpreter("env/bin/python", tmp_path) == place
    assert find_interpreter("./env/bin/python", tmp_path) == place
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    into = parse_settings({"install": {"into": "~/env/bin/python"}}).install.into
    assert into == str(tmp_path / "env" / "bin" / "python").replace("\\", "/")


def test_environment_of_profile_is_refused(tmp_path: Path) -> None:
    venv = Path(Layout(Project.of_checkout(tmp_path), "p", tmp_path).venv)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    assert "this profile builds itself" in read_error(tmp_path, python_of(venv)).message


def test_python_of_doit_is_refused_by_name_but_accepted_by_path(
    tmp_path: Path, venvs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, python = str(venvs["one"]), python_of(venvs["one"])
    monkeypatch.setenv("PATH", str(Path(python).parent), prepend=os.pathsep)
    error = read_error(tmp_path, "python", ours=[folder])
    assert error.message.endswith("the Python that runs doit")
    assert python in error.hint
    settings = parse_settings({"install": {"into": python}})
    choice = replace(CHOICE, python=Interpreter(sys.executable, "3.12.0"))
    check_install_target(
        settings, Layout(Project.of_checkout(tmp_path), "p", tmp_path), choice, [folder]
    )


FAKE = """#!{real}
print("torchyard cpython 3.{minor}.1 {kind} /elsewhere")
"""


@pytest.mark.parametrize(
    ("minor", "kind", "message"),
    [(9, "usual", "CPython 3.9"), (sys.version_info[1], "free-threaded", "free-threaded")],
)
@pytest.mark.skipif(sys.platform == "win32", reason="not run: scripts have no first line there")
def test_incompatible_python_is_refused_at_load(
    tmp_path: Path, minor: int, kind: str, message: str
) -> None:
    fake = tmp_path / "python"
    fake.write_text(FAKE.format(real=sys.executable, minor=minor, kind=kind), encoding="utf-8")
    fake.chmod(0o755)
    error = read_error(tmp_path, str(fake))
    assert message in error.message
    assert f"set python: {fake}" in error.hint


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (r"/usr/lib/it/EXTERNALLY-MANAGED\n", "is managed by the system"),
        (r"\n/usr/lib/it/site-packages", "you cannot write to /usr/lib/it/site-packages"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="not run: scripts have no first line there")
def test_managed_or_read_only_environment_is_refused_at_load(
    tmp_path: Path, lines: str, message: str
) -> None:
    fake = tmp_path / "python"
    text = f"{FAKE.format(real=sys.executable, minor=sys.version_info[1], kind='usual')}"
    fake.write_text(f'{text}print("{lines}")\n', encoding="utf-8")
    fake.chmod(0o755)
    error = read_error(tmp_path, str(fake))
    assert message in error.message
    assert "/usr/lib/it/" in error.message
    assert "create a venv" in error.hint


def test_externally_managed_marker_is_detected_outside_venv(
    tmp_path: Path, venvs: dict[str, Path]
) -> None:
    found = inspect_interpreter(Path(python_of(venvs["one"])))
    assert (found.managed, found.unwritable) == ("", "")
    base = Path(sys.base_prefix, "bin", f"python3.{sys.version_info[1]}")
    if not base.is_file():
        pytest.skip("not run: the Python that the venv was made of has another name")
    mark = Path(sysconfig.get_paths()["stdlib"], "EXTERNALLY-MANAGED")
    assert inspect_interpreter(base).managed == (str(mark) if mark.is_file() else "")


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("", True),
        ("profile=mine", True),
        ("build", True),
        ("run -n 4", True),
        ("-n 4 install", True),
        ("explain", True),
        ("list --all", False),
        ("info build", False),
        ("clean build", False),
        ("purge --yes", False),
        ("validate", False),
        ("restore", False),
        ("settings", False),
    ],
)
def test_missing_environment_blocks_only_commands_that_install(
    yard: Path, line: str, *, refused: bool
) -> None:
    write(yard, "target: {gpus: ['12.0']}\ninstall: {into: /nowhere/python}\n")
    if refused:
        with pytest.raises(SettingsError, match=r"nowhere.* does not exist"):
            open_session(Project.of_checkout(yard), "mine", {}, line.split())
    else:
        assert list(open_session(Project.of_checkout(yard), "mine", {}, line.split()).tasks())


def test_inspection_reports_implementation_version_and_kind() -> None:
    found = inspect_interpreter(Path(sys.executable))
    assert found.implementation == sys.implementation.name
    assert found.version == "{}.{}.{}".format(*sys.version_info[:3])
    assert found.prefix == os.path.realpath(sys.prefix)
    assert sysconfig.get_path("purelib") in found.sites
    assert (
        str(InterpreterInfo("cpython", "3.14.1", "free-threaded", "/"))
        == "CPython 3.14 free-threaded"
    )
    assert str(InterpreterInfo("pypy", "3.11.1", "usual", "/")) == "PyPy 3.11"
