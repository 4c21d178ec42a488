"""Read the user's settings for uv and pip: the default package index and other keys.

The settings are read from the same places as uv and pip read them (pip.pypa.io, "Configuration";
docs.astral.sh/uv, "Configuration files"). Values of a wrong type are ignored here: uv or pip
refuses them.
"""

import configparser
import itertools
import json
import os
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tasks.knowledge.mirrors import DEFAULT_INDEX, apply_index_mirror
from tasks.system.network import network_access

UV_INDEX_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL")
PIP_INDEX_VARIABLES = ("PIP_INDEX_URL",)
_SYSTEM_CONFIG = Path("/etc")
_PIP_FILE, _OLD_PIP_FOLDER = ("pip.ini", "pip") if sys.platform == "win32" else ("pip.conf", ".pip")


def find_pip_index() -> str:
    """Return pip's index URL from PIP_INDEX_URL or pip's files, "" if not set."""
    return _read_first_variable(PIP_INDEX_VARIABLES) or read_pip_file_setting("index-url")


def find_uv_index() -> str:
    """Return uv's index URL from uv's variables or uv's files, "" if not set."""
    file_indexes = filter(None, map(_read_uv_default_index, list_uv_files()))
    return _read_first_variable(UV_INDEX_VARIABLES) or next(file_indexes, "")


def find_default_index() -> str:
    """Return the URL of the default index: uv's setting, else pip's, else that of PyPI."""
    return find_uv_index() or find_pip_index() or DEFAULT_INDEX


def read_uv_indexes() -> dict[str, str]:
    """Return name → URL of the indexes in uv's files; for a repeated name, the first URL."""
    settings = map(_read_uv_settings, list_uv_files())
    tables = [table for document in settings for table in _list_index_tables(document)]
    named = (table for table in reversed(tables) if "name" in table)
    return {str(table["name"]): str(table.get("url")) for table in named}


def read_pip_file_setting(*keys: str) -> str:
    """Return the first value that pip's files set for one of these keys; "" if there is none."""
    contents = [*map(_read_pip_file, list_pip_files())]
    places = itertools.product(("install", "download", "global"), contents, keys)
    values = (settings.get(f"{section}.{key}") for section, settings, key in places)
    return next(filter(None, values), "")


def _read_first_variable(variables: Iterable[str]) -> str:
    return next((os.environ[name] for name in variables if os.environ.get(name)), "")


def _read_pip_file(path: Path) -> dict[str, str]:
    """Return a pip file's settings, `section.key` → value, with keys normalized as in pip."""
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


def _read_uv_default_index(path: Path) -> str:
    """Return a uv file's default index: from [[index]], [pip] or `index-url`, in this order."""
    settings = _read_uv_settings(path)
    tables = (table for table in _list_index_tables(settings) if table.get("default") is True)
    pip_index = _select_table(settings, "pip").get("index-url")
    candidates = (*(table.get("url") for table in tables), pip_index, settings.get("index-url"))
    return next((url for url in candidates if url and isinstance(url, str)), "")


def _list_index_tables(settings: dict[str, Any]) -> list[dict[str, Any]]:
    tables = settings.get("index")
    entries = tables if isinstance(tables, list) else []
    return [entry for entry in entries if isinstance(entry, dict)]


def _read_uv_settings(path: Path) -> dict[str, Any]:
    """Return the settings of a uv.toml, or [tool.uv] of a pyproject.toml; {} if unreadable."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeError, tomllib.TOMLDecodeError):
        return {}
    is_project = path.name == "pyproject.toml"
    return _select_table(_select_table(document, "tool"), "uv") if is_project else document


def _select_table(settings: dict[str, Any], key: str) -> dict[str, Any]:
    table = settings.get(key)
    return table if isinstance(table, dict) else {}


def list_pip_files() -> Iterator[Path]:
    """Yield pip's config files, highest precedence first; none if PIP_CONFIG_FILE disables them."""
    config_file = os.environ.get("PIP_CONFIG_FILE", "")
    if config_file == os.devnull:
        return
    if config_file:
        yield Path(config_file)
    yield Path(sys.prefix) / _PIP_FILE
    if not Path(config_file).is_file():
        home, config = _find_home_folders()
        if roaming := os.environ.get("APPDATA"):
            yield Path(roaming) / "pip" / _PIP_FILE
        yield from (config / "pip" / _PIP_FILE, home / _OLD_PIP_FOLDER / _PIP_FILE)
    yield _SYSTEM_CONFIG / _PIP_FILE
    for folder in reversed([*_list_shared_folders()]):
        yield folder / "pip" / _PIP_FILE


def list_uv_files() -> Iterator[Path]:
    """Yield uv's config files, highest precedence first; none if UV_NO_CONFIG disables them."""
    if os.environ.get("UV_NO_CONFIG", "").lower() not in {"", "0", "false", "f", "no", "n", "off"}:
        return
    if config_file := os.environ.get("UV_CONFIG_FILE"):
        yield Path(config_file)
        return
    folders = (Path.cwd(), *Path.cwd().parents)
    names = ("uv.toml", "pyproject.toml")
    project_files = (folder / name for folder in folders for name in names)
    found = (path for path in project_files if path.is_file())
    with_settings = (path for path in found if path.name == "uv.toml" or _read_uv_settings(path))
    yield from itertools.islice(with_settings, 1)
    if roaming := os.environ.get("APPDATA"):
        yield Path(roaming) / "uv" / "uv.toml"
    yield _find_home_folders()[1] / "uv" / "uv.toml"
    shared = (folder / "uv" / "uv.toml" for folder in (*_list_shared_folders(), _SYSTEM_CONFIG))
    yield from itertools.islice(filter(Path.is_file, shared), 1)


def _list_shared_folders() -> Iterator[Path]:
    """Yield the machine-wide configuration folders, from the highest to the lowest precedence."""
    if data := os.environ.get("PROGRAMDATA"):
        yield Path(data)
    folders = os.environ.get("XDG_CONFIG_DIRS") or str(_SYSTEM_CONFIG / "xdg")
    yield from (Path(folder) for folder in folders.split(os.pathsep) if folder)


def _find_home_folders() -> tuple[Path, Path]:
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - Path.home() fails without a home folder
    return home, Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")


_MIRRORS_VARIABLE = "_TORCHYARD_MIRRORS"


def set_index_mirrors(mirrors: Mapping[str, str]) -> None:
    """Let uv and pip use these mirrors from now on, but keep a default index that the user set."""
    os.environ[_MIRRORS_VARIABLE] = json.dumps(dict(mirrors))
    index = apply_index_mirror(DEFAULT_INDEX, mirrors)
    if index != DEFAULT_INDEX and not find_uv_index():
        os.environ["UV_DEFAULT_INDEX"] = index
    if index != DEFAULT_INDEX and not find_pip_index():
        os.environ["PIP_INDEX_URL"] = index


def build_extra_index_options(index: str) -> tuple[str, ...]:
    """Return options that add an index (a URL or a folder), except in offline mode."""
    if not index or network_access.is_offline():
        return ()
    place = apply_index_mirror(index, json.loads(os.environ.get(_MIRRORS_VARIABLE, "{}")))
    return ("--find-links", place) if Path(place).is_dir() else ("--extra-index-url", place)


def build_only_index_options(index: str) -> tuple[str, ...]:
    """Return the options to use only this index; () if `index` is "", the default index."""
    options = build_extra_index_options(index)
    if "--find-links" in options:
        return ("--no-index", *options)
    return ("--index-url", options[1]) if options else ()
