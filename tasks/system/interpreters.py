"""Find the requested Python interpreter and the torch that is installed in it."""

import re
import shutil
import sys
from pathlib import Path

from tasks.core.errors import SettingsError
from tasks.core.model import InstalledTorch, Interpreter
from tasks.core.resolution import UnsatisfiableError
from tasks.knowledge.versions import format_major_minor
from tasks.system import shell
from tasks.system.hardware.operating_system import format_install_command

_ASSIGNED_STRING = re.compile(r"^(__version__|cuda)\b[^=\n]*=\s*['\"]([^'\"]+)['\"]", re.MULTILINE)
_VENV_VERSION = re.compile(r"^version(?:_info)? *= *(\d+\.\d+\.\d+)", re.MULTILINE)
_PYTHON_VERSION = re.compile(r"\d+\.\d+(\.\d+)?")


def find_interpreter(requested: str) -> Interpreter:
    """Find a Python by name, version or path; "auto" means the base Python of doit's venv."""
    path = _find_base_python() if requested == "auto" else _find_python(requested)
    query = (
        "import sys; print('%d.%d.%d' % sys.version_info[:3]); print(sys.executable); "
        "print(*sys.path, sep='\\n')"
    )
    lines = (shell.try_capture(path, "-c", query, what="ask Python its version") or "").splitlines()
    if len(lines) < 2:
        raise _build_python_error(requested)
    version, real, *folders = lines
    torch = find_torch([Path(folder) for folder in folders if folder])
    real = real if requested == "auto" else str(Path(path).absolute())
    return Interpreter(real, version, torch)


def read_interpreter(requested: str) -> Interpreter:
    """Return the requested Python without starting it; its version may be a guess."""
    running_version = ".".join(map(str, sys.version_info[:3]))
    if requested == "auto":
        path, version = Path(_find_base_python()), running_version
    elif _PYTHON_VERSION.fullmatch(requested):
        path = Path(shutil.which(f"python{requested}") or f"python{requested}")
        version = requested if requested.count(".") > 1 else f"{requested}.0"
    else:
        path = Path(_resolve_python_path(requested)).absolute()
        if not path.is_file():
            raise _build_python_error(requested)
        version = _read_version_from_files(path) or running_version
    folders = _list_package_folders(path, version) + _list_package_folders(path.resolve(), version)
    return Interpreter(str(path), version, find_torch(folders))


def _read_version_from_files(python: Path) -> str:
    """Return a Python's version from pyvenv.cfg or nearby file names, "" if unknown."""
    prefix = python.parent.parent
    if (venv := prefix / "pyvenv.cfg").is_file() and (
        match := _VENV_VERSION.search(venv.read_text(encoding="utf-8", errors="replace"))
    ):
        return match[1]
    conda = [*prefix.glob("conda-meta/python-*"), *python.parent.glob("conda-meta/python-*")]
    names = [path.name for path in (*conda, python.resolve(), *prefix.glob("lib/python3.*"))]
    matches = (re.match(r"python-?(\d+\.\d+)(\.\d+)?", name) for name in names)
    return next((one[1] + (one[2] or ".0") for one in matches if one), "")


def _list_package_folders(python: Path, version: str) -> list[Path]:
    prefix, lib = python.parent.parent, f"lib/python{format_major_minor(version)}"
    debian = [prefix / "lib/python3/dist-packages", prefix / "local" / lib / "dist-packages"]
    windows = [python.parent / "Lib/site-packages", prefix / "Lib/site-packages"]
    return [prefix / lib / "site-packages", *debian, *windows]


def _find_base_python() -> str:
    return getattr(sys, "_base_executable", "") or sys.executable


def _build_python_error(requested: str) -> SettingsError:
    message = f'"{requested}" is not a Python that runs on this machine'
    return SettingsError(message, location="python", hint='write a version ("3.12") or a path')


def _resolve_python_path(requested: str) -> str:
    """Return the path of a Python that is given as a path or as a command name."""
    path = Path(requested).expanduser()
    if path.name != requested:  # "./python" must not find another python on PATH
        path = path.absolute()
    return shutil.which(str(path)) or str(path)


def _find_python(requested: str) -> str:
    if not _PYTHON_VERSION.fullmatch(requested):
        return _resolve_python_path(requested)
    path = shutil.which(f"python{requested}")
    # A version manager's shim can be on PATH although its Python is not installed
    if path and shell.try_capture(path, "-c", "", what="try Python") is not None:
        return path
    from tasks.system.environments import find_uv  # noqa: PLC0415 - rarely needed

    argv = (find_uv() or "uv", "python", "find", "--no-python-downloads", requested)
    env = shell.build_installer_env()
    path = (shell.try_capture(*argv, what="look for Python", env=env) or "").strip()
    if path and shell.try_capture(path, "-c", "", what="try Python") is not None:
        return path
    minor = format_major_minor(requested)  # package managers have no package for a patch release
    setting = "" if requested == minor else f' and set python: "{minor}"'
    hint = f"{format_install_command('python', python=minor)}{setting}, or set python to a path"
    raise UnsatisfiableError(f"torchyard found no Python {requested}", location="python", hint=hint)


def find_torch(folders: list[Path]) -> InstalledTorch | None:
    """Return the first torch in `folders`, read from its version.py; None if there is no torch."""
    files = (folder / "torch" / "version.py" for folder in folders)
    if not (version_file := next(filter(Path.is_file, files), None)):
        return None
    variables = dict(_ASSIGNED_STRING.findall(version_file.read_text(encoding="utf-8")))
    version, cuda = variables.get("__version__", ""), variables.get("cuda")
    return InstalledTorch(version, cuda, str(version_file.parent))
