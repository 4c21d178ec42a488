"""Interpreters: the one that is meant, and the torch that it already holds.

A torch is read from its files, since importing it takes seconds.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from tasks.core.errors import CommandFailedError, MissingToolError, SettingsError
from tasks.core.model import Command, Interpreter, TorchFound
from tasks.core.resolution import UnmetError
from tasks.knowledge.versions import major_minor
from tasks.system import shell
from tasks.system.hardware.packagemanager import installing

_ASSIGNED = re.compile(r"^(__version__|cuda)\b[^=\n]*=\s*['\"]([^'\"]+)['\"]", re.MULTILINE)
_OF_VENV = re.compile(r"^version(?:_info)? *= *(\d+\.\d+\.\d+)", re.MULTILINE)
_VERSION = re.compile(r"\d+\.\d+(\.\d+)?")


def interpreter(asked: str) -> Interpreter:
    """The Python of that name, version or path. `auto` is the one that runs doit, seen through its
    venv.
    """
    path = _base_python() if asked == "auto" else _find_python(asked)
    query = (
        "import sys; print('%d.%d.%d' % sys.version_info[:3]); print(sys.executable); "
        "print(*sys.path, sep='\\n')"
    )
    try:
        version, real, *folders = shell.capture(
            Command((path, "-c", query), shell.host_env(), "ask Python its version")
        ).splitlines()
    except (CommandFailedError, MissingToolError, ValueError) as error:
        raise _no_python(asked) from error
    return Interpreter(
        str(Path(path).absolute()) if asked != "auto" else real,
        version,
        torch_in([Path(f) for f in folders if f]),
    )


def read_interpreter(asked: str) -> Interpreter:
    """Return the same as `interpreter`, read from files only. If the files have no version, assume
    that of the Python that runs doit.
    """
    ours = ".".join(map(str, sys.version_info[:3]))
    if asked == "auto":
        path, version = Path(_base_python()), ours
    elif _VERSION.fullmatch(asked):
        path = Path(shutil.which(f"python{asked}") or f"python{asked}")
        version = asked if asked.count(".") > 1 else f"{asked}.0"
    else:
        path = Path(_named(asked)).absolute()
        if not path.is_file():
            raise _no_python(asked)
        version = _version_by_files(path) or ours
    folders = [folder for place in (path, path.resolve()) for folder in _packages(place, version)]
    return Interpreter(str(path), version, torch_in(folders))


def _version_by_files(python: Path) -> str:
    """Return the version from pyvenv.cfg, the file's name or its folders; "" if none has it."""
    prefix = python.parent.parent
    if (venv := prefix / "pyvenv.cfg").is_file():
        match = _OF_VENV.search(venv.read_text(encoding="utf-8", errors="replace"))
        if match:
            return match[1]
    places = (prefix, python.parent)
    conda = [path.name for one in places for path in one.glob("conda-meta/python-*")]
    names = [*conda, python.resolve().name, *(path.name for path in prefix.glob("lib/python3.*"))]
    found = (re.match(r"python-?(\d+\.\d+)(\.\d+)?", name) for name in names)
    return next((one[1] + (one[2] or ".0") for one in found if one), "")


def _packages(python: Path, version: str) -> list[Path]:
    """Return the folders that may hold the packages of the interpreter at that path."""
    prefix, lib = python.parent.parent, f"lib/python{major_minor(version)}"
    debian = [prefix / "lib/python3/dist-packages", prefix / "local" / lib / "dist-packages"]
    windows = [python.parent / "Lib/site-packages", prefix / "Lib/site-packages"]
    return [prefix / lib / "site-packages", *debian, *windows]


def _base_python() -> str:
    return getattr(sys, "_base_executable", "") or sys.executable


def _no_python(asked: str) -> SettingsError:
    return SettingsError(
        f'"{asked}" is not a Python that runs here',
        where="python",
        todo='write a version ("3.12") or a path',
    )


def _named(asked: str) -> str:
    """Return the path of a Python given by a path or a command name."""
    path = Path(asked).expanduser()
    if path.name != asked:  # "./python" is not the one on PATH
        path = path.absolute()
    return shutil.which(str(path)) or str(path)


def _find_python(asked: str) -> str:
    if not _VERSION.fullmatch(asked):
        return _named(asked)
    for found in (shutil.which(f"python{asked}"), _known_to_uv(asked)):
        if found and _runs(found):
            return found
    minor = major_minor(asked)  # no system has a package of a patch
    looser = "" if asked == minor else f' and set python: "{minor}"'
    raise UnmetError(
        f"there is no Python {asked} here",
        where="python",
        todo=f"{installing('python', python=minor)}{looser}, or write the path of one",
    )


def _runs(python: str) -> bool:
    """A shim of a version manager can be on PATH with nothing behind it."""
    try:
        shell.capture(Command((python, "-c", ""), shell.host_env(), "try Python"))
    except (CommandFailedError, MissingToolError):
        return False
    return True


def _known_to_uv(version: str) -> str | None:
    from tasks.system.python.environments import find_uv  # noqa: PLC0415 - rarely needed

    uv = find_uv()
    argv = (uv or "uv", "python", "find", "--no-python-downloads", version)
    env = shell.package_env()
    try:
        return shell.capture(Command(argv, env, "look for Python")).strip()
    except (CommandFailedError, MissingToolError):
        return None


def torch_in(folders: list[Path]) -> TorchFound | None:
    """The torch in the first of these folders that has one, by its version.py."""
    for folder in folders:
        version = folder / "torch" / "version.py"
        if version.is_file():
            text = version.read_text(encoding="utf-8")
            found = dict(_ASSIGNED.findall(text))
            return TorchFound(
                found.get("__version__", ""), found.get("cuda"), str(folder / "torch")
            )
    return None
