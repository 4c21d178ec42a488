"""What a person has set for uv and pip themselves: the default package index, and any other key of
pip's. It is looked for where they look (pip.pypa.io, "Configuration"; docs.astral.sh/uv,
"Configuration files"), and what has another type than it must have is left to them to refuse.
"""

from __future__ import annotations

import configparser
import os
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

OF_UV = ("UV_DEFAULT_INDEX", "UV_INDEX_URL")
OF_PIP = ("PIP_INDEX_URL",)
_SECTIONS = ("install", "download", "global")  # of the commands that we run, then of all
_ETC = Path("/etc")
_PIPS, _OLD = ("pip.ini", "pip") if sys.platform == "win32" else ("pip.conf", ".pip")


def of_pip() -> str:
    """By its variable, else its files; "" where nothing is set."""
    return _named(OF_PIP) or in_pips_files("index-url")


def of_uv() -> str:
    """By its variables, else its files; "" where nothing is set."""
    return _named(OF_UV) or next(filter(None, map(_in_uvs, files_of_uv())), "")


def read_uv_indexes() -> dict[str, str]:
    """Return the URL of each named index in uv's files; the first of a name is used."""
    tables = [one for path in files_of_uv() for one in _indexes(_settings(path))]
    return {str(one["name"]): str(one.get("url")) for one in reversed(tables) if "name" in one}


def in_pips_files(*keys: str) -> str:
    """The value of the first of these keys that is set for a command of ours; "" where none is."""
    read = [*map(_sections, files_of_pip())]
    values = (one.get(f"{section}.{key}") for section in _SECTIONS for one in read for key in keys)
    return next(filter(None, values), "")


def _named(variables: Iterable[str]) -> str:
    return next((os.environ[name] for name in variables if os.environ.get(name)), "")


def _sections(path: Path) -> dict[str, str]:
    """`section.key` → value, with keys as pip takes them: index_url and --index-url are the same as
    index-url.
    """
    parser = configparser.RawConfigParser()
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, OSError, UnicodeError):
        return {}
    return {
        f"{section}.{key.replace('_', '-').removeprefix('--')}": value.strip()
        for section in parser.sections()
        for key, value in parser.items(section)
    }


def _in_uvs(path: Path) -> str:
    """The [[index]] that is the default, else `index-url`, that of [pip] first."""
    told = _settings(path)
    default = [one.get("url") for one in _indexes(told) if one.get("default") is True]
    found = (*default, _table(told, "pip").get("index-url"), told.get("index-url"))
    return next((url for url in found if url and isinstance(url, str)), "")


def _indexes(settings: dict[str, Any]) -> list[dict[str, Any]]:
    listed = settings.get("index")
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _settings(path: Path) -> dict[str, Any]:
    """Of a uv.toml, or of [tool.uv] in a pyproject.toml."""
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeError, tomllib.TOMLDecodeError):
        return {}
    return _table(_table(told, "tool"), "uv") if path.name == "pyproject.toml" else told


def _table(told: dict[str, Any], key: str) -> dict[str, Any]:
    found = told.get(key)
    return found if isinstance(found, dict) else {}


def files_of_pip() -> Iterator[Path]:
    """The one that counts most first; none where pip is told to read none."""
    named = os.environ.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return
    if named:
        yield Path(named)
    yield Path(sys.prefix) / _PIPS
    if not Path(named).is_file():
        yield from _persons_of_pip()
    yield _ETC / _PIPS
    for folder in reversed([*_shared()]):
        yield folder / "pip" / _PIPS


def _persons_of_pip() -> Iterator[Path]:
    home, config = _home()
    if roaming := os.environ.get("APPDATA"):
        yield Path(roaming) / "pip" / _PIPS
    yield from (config / "pip" / _PIPS, home / _OLD / _PIPS)


def files_of_uv() -> Iterator[Path]:
    """The one that counts most first; none where uv is told to read none. uv is run in the folder
    that we are in.
    """
    if os.environ.get("UV_NO_CONFIG", "").lower() not in {"", "0", "false", "f", "no", "n", "off"}:
        return
    if named := os.environ.get("UV_CONFIG_FILE"):
        yield Path(named)
        return
    here = Path.cwd()
    yield from [*filter(None, map(_of_project, (here, *here.parents)))][:1]
    if roaming := os.environ.get("APPDATA"):
        yield Path(roaming) / "uv" / "uv.toml"
    yield _home()[1] / "uv" / "uv.toml"
    shared = (folder / "uv" / "uv.toml" for folder in (*_shared(), _ETC))
    yield from [path for path in shared if path.is_file()][:1]


def _of_project(folder: Path) -> Path | None:
    """The file with settings for uv, where the folder has one; those above it do not count then."""
    if (plain := folder / "uv.toml").is_file():
        return plain
    project = folder / "pyproject.toml"
    return project if project.is_file() and _settings(project) else None


def _shared() -> Iterator[Path]:
    """Folders of settings of the whole machine, the one that counts most for uv first."""
    if data := os.environ.get("PROGRAMDATA"):
        yield Path(data)
    listed = os.environ.get("XDG_CONFIG_DIRS") or str(_ETC / "xdg")
    yield from (Path(folder) for folder in listed.split(os.pathsep) if folder)


def _home() -> tuple[Path, Path]:
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - it knows what to do without a home
    return home, Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
