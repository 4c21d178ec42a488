"""Find the requested Python interpreter and the torch that is installed in it.

An installed torch is read from its files, since importing torch takes seconds.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from tasks.core.errors import CommandFailedError, MissingToolError, SettingsError
from tasks.core.model import Command, InstalledTorch, Interpreter
from tasks.core.resolution import UnsatisfiableError
from tasks.knowledge.versions import format_major_minor
from tasks.system import shell
from tasks.system.hardware.operating_system import format_install_command

_ASSIGNED_STRING = re.compile(r"^(__version__|cuda)\b[^=\n]*=\s*['\"]([^'\"]+)['\"]", re.MULTILINE)
_VENV_VERSION = re.compile(r"^version(?:_info)? *= *(\d+\.\d+\.\d+)", re.MULTILINE)
_PYTHON_VERSION = re.compile(r"\d+\.\d+(\.\d+)?")


def find_interpreter(asked: str) -> Interpreter:
    """Return the Python with that name, version or path.

    `auto` is the base interpreter of the Python that runs doit, outside of its venv.
    """
    path = _find_base_python() if asked == "auto" else _find_python(asked)
    query = (
        "import sys; print('%d.%d.%d' % sys.version_info[:3]); print(sys.executable); "
        "print(*sys.path, sep='\\n')"
    )
    try:
        version, real, *folders = shell.capture_output(
            Command((path, "-c", query), shell.build_host_env(), "ask Python its version")
        ).splitlines()
    except (CommandFailedError, MissingToolError, ValueError) as error:
        raise _build_python_error(asked) from error
    return Interpreter(
        str(Path(path).absolute()) if asked != "auto" else real,
        version,
        find_torch([Path(f) for f in folders if f]),
    )


def read_interpreter(asked: str) -> Interpreter:
    """Return the same as `find_interpreter`, read only from files.

    If the files have no version, assume that of the Python that runs doit.
    """
    running_version = ".".join(map(str, sys.version_info[:3]))
    if asked == "auto":
        path, version = Path(_find_base_python()), running_version
    elif _PYTHON_VERSION.fullmatch(asked):
        path = Path(shutil.which(f"python{asked}") or f"python{asked}")
        version = asked if asked.count(".") > 1 else f"{asked}.0"
    else:
        path = Path(_resolve_python_path(asked)).absolute()
        if not path.is_file():
            raise _build_python_error(asked)
        version = _read_version_from_files(path) or running_version
    folders = [
        folder
        for place in (path, path.resolve())
        for folder in _list_package_folders(place, version)
    ]
    return Interpreter(str(path), version, find_torch(folders))


def _read_version_from_files(python: Path) -> str:
    """Return the version from pyvenv.cfg, the file's name or its folders; "" if none has it."""
    prefix = python.parent.parent
    if (venv := prefix / "pyvenv.cfg").is_file():
        match = _VENV_VERSION.search(venv.read_text(encoding="utf-8", errors="replace"))
        if match:
            return match[1]
    places = (prefix, python.parent)
    conda = [path.name for one in places for path in one.glob("conda-meta/python-*")]
    names = [*conda, python.resolve().name, *(path.name for path in prefix.glob("lib/python3.*"))]
    matches = (re.match(r"python-?(\d+\.\d+)(\.\d+)?", name) for name in names)
    return next((one[1] + (one[2] or ".0") for one in matches if one), "")


def _list_package_folders(python: Path, version: str) -> list[Path]:
    """Return the folders that may hold the packages of the interpreter at that path."""
    prefix, lib = python.parent.parent, f"lib/python{format_major_minor(version)}"
    debian = [prefix / "lib/python3/dist-packages", prefix / "local" / lib / "dist-packages"]
    windows = [python.parent / "Lib/site-packages", prefix / "Lib/site-packages"]
    return [prefix / lib / "site-packages", *debian, *windows]


def _find_base_python() -> str:
    return getattr(sys, "_base_executable", "") or sys.executable


def _build_python_error(asked: str) -> SettingsError:
    return SettingsError(
        f'"{asked}" is not a Python that runs here',
        location="python",
        hint='write a version ("3.12") or a path',
    )


def _resolve_python_path(asked: str) -> str:
    """Return the path of a Python given by a path or a command name."""
    path = Path(asked).expanduser()
    if path.name != asked:  # "./python" is not the one on PATH
        path = path.absolute()
    return shutil.which(str(path)) or str(path)


def _find_python(asked: str) -> str:
    if not _PYTHON_VERSION.fullmatch(asked):
        return _resolve_python_path(asked)
    for candidate in (shutil.which(f"python{asked}"), _find_uv_python(asked)):
        if candidate and _can_run(candidate):
            return candidate
    minor = format_major_minor(asked)  # no system has a package for a patch release
    setting = "" if asked == minor else f' and set python: "{minor}"'
    raise UnsatisfiableError(
        f"there is no Python {asked} here",
        location="python",
        hint=f"{format_install_command('python', python=minor)}{setting}, or write the path of one",
    )


def _can_run(python: str) -> bool:
    """Return True if the Python runs: a version manager's shim can be on PATH without a Python."""
    try:
        shell.capture_output(Command((python, "-c", ""), shell.build_host_env(), "try Python"))
    except (CommandFailedError, MissingToolError):
        return False
    return True


def _find_uv_python(version: str) -> str | None:
    from tasks.system.environments import find_uv  # noqa: PLC0415 - rarely needed

    uv = find_uv()
    argv = (uv or "uv", "python", "find", "--no-python-downloads", version)
    env = shell.build_installer_env()
    try:
        return shell.capture_output(Command(argv, env, "look for Python")).strip()
    except (CommandFailedError, MissingToolError):
        return None


def find_torch(folders: list[Path]) -> InstalledTorch | None:
    """Return the torch in the first folder that has one, from its version.py."""
    for folder in folders:
        version = folder / "torch" / "version.py"
        if version.is_file():
            text = version.read_text(encoding="utf-8")
            variables = dict(_ASSIGNED_STRING.findall(text))
            return InstalledTorch(
                variables.get("__version__", ""), variables.get("cuda"), str(folder / "torch")
            )
    return None
