"""The default package index that a person has set for uv and for pip themselves."""

from __future__ import annotations

import configparser
import os
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

OF_UV = ("UV_DEFAULT_INDEX", "UV_INDEX_URL")
OF_PIP = ("PIP_INDEX_URL",)


def of_pip() -> str:
    """By its variable, else its files; "" where nothing is set."""
    return _named(OF_PIP) or next(filter(None, map(_in_pips, files_of_pip())), "")


def of_uv() -> str:
    """By its variables, else its files; "" where nothing is set."""
    return _named(OF_UV) or next(filter(None, map(_in_uvs, files_of_uv())), "")


def _named(variables: Iterable[str]) -> str:
    return next((os.environ[name] for name in variables if os.environ.get(name)), "")


def _in_pips(path: Path) -> str:
    """`index-url` (pip.pypa.io, "Configuration")."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, OSError, UnicodeError):
        return ""
    return parser.get("global", "index-url", fallback="").strip()


def _in_uvs(path: Path) -> str:
    """`index-url`, also of [pip], and the [[index]] that is the default (docs.astral.sh/uv,
    "Settings").
    """
    try:
        told: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeError, tomllib.TOMLDecodeError):
        return ""
    listed = told.get("index", ())
    default = (one.get("url", "") for one in listed if one.get("default"))
    pips = told.get("pip", {})
    return str(next(default, "") or pips.get("index-url", "") or told.get("index-url", ""))


def files_of_pip() -> Iterator[Path]:
    """The most personal first."""
    if named := os.environ.get("PIP_CONFIG_FILE"):
        yield Path(named)
    home, config = _home()
    if roaming := os.environ.get("APPDATA"):
        yield Path(roaming) / "pip" / "pip.ini"
    yield from (config / "pip" / "pip.conf", home / ".pip" / "pip.conf", Path("/etc/pip.conf"))


def files_of_uv() -> Iterator[Path]:
    """The most personal first; none where uv is told to read none."""
    if os.environ.get("UV_NO_CONFIG"):
        return
    if named := os.environ.get("UV_CONFIG_FILE"):
        yield Path(named)
        return
    yield Path("uv.toml")
    for variable in ("APPDATA", "PROGRAMDATA"):
        if folder := os.environ.get(variable):
            yield Path(folder) / "uv" / "uv.toml"
    yield from (_home()[1] / "uv" / "uv.toml", Path("/etc/uv/uv.toml"))


def _home() -> tuple[Path, Path]:
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - it knows what to do without a home
    return home, Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
