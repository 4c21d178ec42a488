"""The interpreter that install.into names, and what shows at a glance: cheap enough for load."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path, PurePath

from tasks.core.errors import BuildError, CommandFailedError, MissingToolError, SettingsError
from tasks.core.model import Command
from tasks.knowledge.versions import major_minor
from tasks.system import shell

KEY = "install.into"
_TIMEOUT = 30.0  # seconds: what is no Python may wait for somebody to type
OWN_VENV = "make a venv of your own (python -m venv …) and name its Python in install.into"
_GLANCE = """
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
class Glance:
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
    closed: str = ""
    sites: tuple[str, ...] = ()

    @property
    def minor(self) -> str:
        """`3.12`."""
        return major_minor(self.version)

    def __str__(self) -> str:
        name = {"cpython": "CPython", "pypy": "PyPy"}.get(self.implementation, self.implementation)
        kind = "" if self.kind == "usual" else f" {self.kind}"
        return f"{name} {self.minor}{kind}"


def is_name(into: str) -> bool:
    """Whether it is to be looked for on PATH."""
    return PurePath(into).name == into


def find(into: str, root: PurePath) -> Path:
    """The interpreter; a path starts at the checkout. Raises `SettingsError` where none is there.

    Links are not followed: a venv's Python is a link to the one that it was made of.
    """
    if is_name(into):
        found = shutil.which(into)
        if found is None:
            raise SettingsError(
                f'there is no "{into}" on PATH', where=KEY, todo="write the path of a Python"
            )
        return Path(found).absolute()
    path = Path(root, into)
    if path.is_dir():
        raise SettingsError(
            f"{path} is a folder",
            where=KEY,
            todo=f"write its Python: {inside}" if (inside := python_in(path)) else "name a Python",
        )
    if not path.is_file():
        raise SettingsError(
            f"there is no {path}", where=KEY, todo="write the path of a Python that is there"
        )
    return path


def python_in(folder: Path) -> Path | None:
    """The Python of an environment that lies there, or in a project there as .venv or venv."""
    places = (Path("bin", "python"), Path("Scripts", "python.exe"), Path("python.exe"))
    within = (folder / name / place for name in ("", ".venv", "venv") for place in places)
    return next((path for path in within if path.is_file()), None)


def glance(python: Path, key: str = KEY) -> Glance:
    """What it says of itself. Raises `SettingsError` where it is no Python that runs here."""
    argv = (str(python), "-I", "-B", "-c", _GLANCE)
    command = Command(argv, shell.host_env(), "ask Python what it is", timeout=_TIMEOUT)
    try:
        said, managed, closed, *sites = [*shell.capture(command).splitlines(), "", "", ""]
    except (CommandFailedError, MissingToolError) as error:
        raise _no_python(python, key) from error
    word, _, rest = said.partition(" ")
    if word != "torchyard" or rest.count(" ") < 3:
        raise _no_python(python, key)
    implementation, version, kind, prefix = rest.split(" ", 3)
    found = tuple(filter(None, sites))
    return Glance(implementation, version, kind, prefix, managed, closed, found)


def not_writable(folder: str) -> BuildError:
    """Said before anything was changed."""
    return BuildError("you may not write here; nothing was changed", where=folder, todo=OWN_VENV)


def _no_python(python: Path, key: str) -> SettingsError:
    return SettingsError(
        f"{python} is not a Python that runs here", where=key, todo="write the path of one"
    )
