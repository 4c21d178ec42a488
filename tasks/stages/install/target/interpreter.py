"""The interpreter that install.into names, and what shows at a glance: cheap enough for load."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path, PurePath

from tasks.core.errors import CommandFailedError, MissingToolError, SettingsError, TorchyardError
from tasks.core.model import Command
from tasks.knowledge.versions import format_major_minor
from tasks.system import shell

SETTING_KEY = "install.into"
_INSPECT_TIMEOUT = 30.0  # seconds: what is no Python may wait for somebody to type
VENV_HINT = "make a venv of your own (python -m venv …) and name its Python in install.into"
_INSPECT_CODE = """
import os, sys, sysconfig
print('torchyard', sys.implementation.name, '.'.join(map(str, sys.version_info[:3])),
      'free-threaded' if sysconfig.get_config_var('Py_GIL_DISABLED') else 'usual',
      os.path.realpath(sys.prefix))
paths = sysconfig.get_paths()
mark = os.path.join(paths['stdlib'], 'EXTERNALLY-MANAGED')
print(mark if sys.prefix == sys.base_prefix and os.path.isfile(mark) else '')
folders = [paths[name] for name in ('purelib', 'platlib', 'scripts')]
print(*[one for one in folders if os.path.isdir(one) and not os.access(one, os.W_OK | os.X_OK)][:1])
print(*sorted({paths['purelib'], paths['platlib']}), sep='\\n')
"""


@dataclass(frozen=True)
class InterpreterInfo:
    """What a Python is: `implementation` as it says itself ("cpython"), `kind` "usual" or
    "free-threaded", `prefix` the folder of its environment, with links followed. `managed` is its
    file EXTERNALLY-MANAGED, `closed` a folder of it that may not be written to, both "" where there
    is none. `sites` are the folders that its packages lie in.
    """

    implementation: str
    version: str
    kind: str
    prefix: str
    managed: str = ""
    unwritable: str = ""
    sites: tuple[str, ...] = ()

    @property
    def minor(self) -> str:
        """`3.12`."""
        return format_major_minor(self.version)

    def __str__(self) -> str:
        name = {"cpython": "CPython", "pypy": "PyPy"}.get(self.implementation, self.implementation)
        kind = "" if self.kind == "usual" else f" {self.kind}"
        return f"{name} {self.minor}{kind}"


def is_program_name(into: str) -> bool:
    """Whether it is to be looked for on PATH."""
    return PurePath(into).name == into


def find_interpreter(into: str, root: PurePath) -> Path:
    """The interpreter; a path starts at the checkout. Raises `SettingsError` where none is there.

    Links are not followed: a venv's Python is a link to the one that it was made of.
    """
    if is_program_name(into):
        found = shutil.which(into)
        if found is None:
            raise SettingsError(
                f'there is no "{into}" on PATH',
                location=SETTING_KEY,
                hint="write the path of a Python",
            )
        return Path(found).absolute()
    path = Path(root, into)
    if path.is_dir():
        raise SettingsError(
            f"{path} is a folder",
            location=SETTING_KEY,
            hint=f"write its Python: {inside}"
            if (inside := find_python_in(path))
            else "name a Python",
        )
    if not path.is_file():
        raise SettingsError(
            f"there is no {path}",
            location=SETTING_KEY,
            hint="write the path of a Python that is there",
        )
    return path


def find_python_in(folder: Path) -> Path | None:
    """The Python of an environment that lies there, or in a project there as .venv or venv."""
    places = (Path("bin", "python"), Path("Scripts", "python.exe"), Path("python.exe"))
    within = (folder / name / place for name in ("", ".venv", "venv") for place in places)
    return next((path for path in within if path.is_file()), None)


def inspect_interpreter(python: Path, key: str = SETTING_KEY) -> InterpreterInfo:
    """What it says of itself. Raises `SettingsError` where it is no Python that runs here."""
    argv = (str(python), "-I", "-B", "-c", _INSPECT_CODE)
    command = Command(
        argv, shell.build_host_env(), "ask Python what it is", timeout=_INSPECT_TIMEOUT
    )
    try:
        said, managed, closed, *sites = [*shell.capture_output(command).splitlines(), "", "", ""]
    except (CommandFailedError, MissingToolError) as error:
        raise _build_not_python_error(python, key) from error
    word, _, rest = said.partition(" ")
    if word != "torchyard" or rest.count(" ") < 3:
        raise _build_not_python_error(python, key)
    implementation, version, kind, prefix = rest.split(" ", 3)
    found = tuple(filter(None, sites))
    return InterpreterInfo(implementation, version, kind, prefix, managed, closed, found)


def build_unwritable_error(folder: str) -> TorchyardError:
    """Said before anything was changed."""
    return TorchyardError(
        "you may not write here; nothing was changed", location=folder, hint=VENV_HINT
    )


def _build_not_python_error(python: Path, key: str) -> SettingsError:
    return SettingsError(
        f"{python} is not a Python that runs here", location=key, hint="write the path of one"
    )
