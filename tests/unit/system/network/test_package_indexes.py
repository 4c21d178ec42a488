"""The default index of the user is read from every file that uv and pip read."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from tasks.knowledge.mirrors import DEFAULT_INDEX
from tasks.system import shell
from tasks.system.network import index_client, package_indexes
from tests.support.systems import posix_only

OWN = "https://own.example/simple"
MIRROR = "https://pypi.tuna.tsinghua.edu.cn/simple"
PIP = "pip.ini" if sys.platform == "win32" else "pip.conf"
TABLE = f'url = "{OWN}"\ndefault = true\n'


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Move all settings folders below one folder, and set the working directory to `here/yard`."""
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    # so that monkeypatch restores them after `begin` has set them
    for name in (
        *package_indexes.UV_INDEX_VARIABLES,
        *package_indexes.PIP_INDEX_VARIABLES,
        package_indexes._MIRRORS_VARIABLE,
    ):
        monkeypatch.setenv(name, "")
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    for name in ("APPDATA", "PROGRAMDATA", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(package_indexes, "_SYSTEM_CONFIG", tmp_path / "etc")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    (tmp_path / "here" / "yard").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here" / "yard")
    return tmp_path


def write_config(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("etc/{}", f"[global]\nindex-url = {OWN}"),
        ("etc/xdg/pip/{}", f"[global]\nindex-url = {OWN}"),
        ("venv/{}", f"[global]\nindex-url = {OWN}"),
        ("home/.config/pip/{}", f"[install]\nindex-url = {OWN}"),
        ("home/.config/pip/{}", f"[download]\nindex-url = {OWN}"),
        ("home/.config/pip/{}", f"[global]\nindex_url = {OWN}"),
        ("home/.config/pip/{}", f"[global]\n--index-url: {OWN}"),
    ],
)
def test_pip_index_is_read_from_every_pip_file(machine: Path, place: str, text: str) -> None:
    write_config(machine / place.format(PIP), text)
    package_indexes.set_index_mirrors({DEFAULT_INDEX: MIRROR})
    assert package_indexes.find_pip_index() == OWN
    assert not os.environ["PIP_INDEX_URL"], "the mirror would count more than the file"
    assert os.environ["UV_DEFAULT_INDEX"] == MIRROR, "each by itself"


def test_pip_config_file_replaces_user_file(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_config(machine / "home" / ".config" / "pip" / PIP, "[global]\nindex-url = https://mine\n")
    monkeypatch.setenv(
        "PIP_CONFIG_FILE", str(write_config(machine / "named", "[global]\ntimeout = 9\n"))
    )
    assert package_indexes.find_pip_index() == ""
    monkeypatch.setenv("PIP_CONFIG_FILE", str(machine / "gone"))
    assert package_indexes.find_pip_index() == "https://mine"
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    assert not [*package_indexes.list_pip_files()]


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("here/yard/uv.toml", f'index-url = "{OWN}"'),
        ("here/uv.toml", f"[[index]]\n{TABLE}"),
        ("here/yard/pyproject.toml", f"[[tool.uv.index]]\n{TABLE}"),
        ("here/pyproject.toml", f'[tool.uv]\nindex-url = "{OWN}"'),
        ("here/pyproject.toml", f'[tool.uv.pip]\nindex-url = "{OWN}"'),
        ("home/.config/uv/uv.toml", f"[[index]]\n{TABLE}"),
        ("etc/xdg/uv/uv.toml", f"[[index]]\n{TABLE}"),
        ("etc/uv/uv.toml", f"[[index]]\n{TABLE}"),
    ],
)
def test_uv_index_is_read_from_every_uv_file(machine: Path, place: str, text: str) -> None:
    write_config(machine / place, text)
    package_indexes.set_index_mirrors({DEFAULT_INDEX: MIRROR})
    assert package_indexes.find_uv_index() == OWN
    assert not os.environ["UV_DEFAULT_INDEX"]
    assert os.environ["PIP_INDEX_URL"] == MIRROR, "each by itself"


@pytest.mark.parametrize("section", ["global", "install", "download"])
def test_timeouts_in_pip_files_are_not_overridden(
    machine: Path, monkeypatch: pytest.MonkeyPatch, mocker: MockerFixture, section: str
) -> None:
    write_config(
        machine / "home" / ".config" / "pip" / PIP, f"[{section}]\ntimeout = 300\nretries = 20\n"
    )
    run = mocker.patch.object(shell, "run_command", autospec=True)
    index_client.run_index_client(
        ("pip", "download", "a"), "fetch a", machine / "log", {"PATH": "/bin"}
    )
    ours = {"PIP_RESUME_RETRIES", "UV_HTTP_TIMEOUT", "UV_HTTP_RETRIES", "RUST_LOG"}
    assert run.call_args.args[0].env.keys() == {*ours, "PATH"}
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    assert not index_client.find_pip_file_defaults(), "as with a bundle: nobody reads them then"


@posix_only
def test_xdg_config_dirs_are_searched(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_DIRS", f"{machine / 'none'}:{machine / 'xdg'}")
    write_config(machine / "xdg" / "pip" / PIP, f"[global]\nindex-url = {OWN}")
    write_config(machine / "xdg" / "uv" / "uv.toml", f'index-url = "{OWN}"')
    assert (package_indexes.find_uv_index(), package_indexes.find_pip_index()) == (OWN, OWN)


def test_only_nearest_project_file_is_read(machine: Path) -> None:
    write_config(machine / "here" / "uv.toml", f'index-url = "{OWN}"')
    near = machine / "here" / "yard"
    write_config(near / "pyproject.toml", '[project]\nname = "x"\n')
    assert package_indexes.find_uv_index() == OWN, "it says nothing to uv"
    write_config(near / "pyproject.toml", '[tool.uv]\nindex-url = "https://near"\n')
    assert package_indexes.find_uv_index() == "https://near"
    write_config(near / "uv.toml", "")
    assert package_indexes.find_uv_index() == "", "uv reads no other beside it, and none above"


@pytest.mark.parametrize(
    "text",
    [
        "pip = 3",
        'index = ["https://x"]',
        "index = 3",
        "index-url = 3",
        "[[index]]\nurl = 3\ndefault = true",
        "[[index]]\nurl = 'https://x'\ndefault = 'yes'",
        "[index]\nurl = 'https://x'",
        "no toml",
    ],
)
def test_invalid_index_setting_is_ignored(machine: Path, text: str) -> None:
    write_config(machine / "here" / "yard" / "uv.toml", text)
    write_config(machine / "here" / "yard" / "pyproject.toml", "tool = 3\n")
    write_config(machine / "etc" / PIP, "index-url = before any section\n")
    assert (package_indexes.find_uv_index(), package_indexes.find_pip_index()) == ("", "")


@pytest.mark.parametrize(("said", "read"), [("1", False), ("true", False), ("0", True), ("", True)])
def test_uv_no_config_disables_uv_files(
    machine: Path, monkeypatch: pytest.MonkeyPatch, said: str, read: bool
) -> None:
    write_config(machine / "here" / "yard" / "uv.toml", f'index-url = "{OWN}"')
    monkeypatch.setenv("UV_NO_CONFIG", said)
    assert bool(package_indexes.find_uv_index()) is read
