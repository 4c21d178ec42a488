"""Find and check the interpreter of install.into. Fast enough for loading the settings."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path, PurePath

from tasks.core.errors import CommandFailedError, MissingToolError, SettingsError, TorchyardError
from tasks.core.model import Command, Layout
from tasks.core.resolution import Resolution
from tasks.knowledge.versions import format_major_minor
from tasks.settings.schema import Settings
from tasks.system import shell

SETTING_KEY = "install.into"
_INSPECT_TIMEOUT = 30.0  # seconds: another program than Python may wait for input
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
    """What a Python interpreter is.

    `implementation` is its name in sys.implementation ("cpython"), `kind` "usual" or
    "free-threaded", `prefix` the folder of its environment, with links resolved. `managed` is its
    file EXTERNALLY-MANAGED, `unwritable` a folder of it that is not writable, each "" if there is
    no such path. `sites` are its site-packages folders.
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
        """Return `3.12`."""
        return format_major_minor(self.version)

    def __str__(self) -> str:
        name = {"cpython": "CPython", "pypy": "PyPy"}.get(self.implementation, self.implementation)
        kind = "" if self.kind == "usual" else f" {self.kind}"
        return f"{name} {self.minor}{kind}"


def is_program_name(into: str) -> bool:
    """Return True if `into` is a name to search on PATH."""
    return PurePath(into).name == into


def find_interpreter(into: str, root: PurePath) -> Path:
    """Return the interpreter. A relative path starts at the checkout.

    Raises `SettingsError` if there is no such interpreter. Links are not resolved: a venv's Python
    is a link to the one it was created with.
    """
    if is_program_name(into):
        program = shutil.which(into)
        if program is None:
            raise SettingsError(
                f'there is no "{into}" on PATH',
                location=SETTING_KEY,
                hint="write the path of a Python",
            )
        return Path(program).absolute()
    path = Path(root, into)
    if path.is_dir():
        raise SettingsError(
            f"{path} is a folder",
            location=SETTING_KEY,
            hint=f"write its Python: {python}"
            if (python := find_python_in(path))
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
    """Return the Python of the environment in a folder, or in its .venv or venv."""
    places = (Path("bin", "python"), Path("Scripts", "python.exe"), Path("python.exe"))
    candidates = (folder / name / place for name in ("", ".venv", "venv") for place in places)
    return next((path for path in candidates if path.is_file()), None)


def inspect_interpreter(python: Path, key: str = SETTING_KEY) -> InterpreterInfo:
    """Run the interpreter and return what it is.

    Raises `SettingsError` if it is not a Python that runs here.
    """
    argv = (str(python), "-I", "-B", "-c", _INSPECT_CODE)
    command = Command(
        argv, shell.build_host_env(), "ask Python what it is", timeout=_INSPECT_TIMEOUT
    )
    try:
        answer, managed, closed, *sites = [*shell.capture_output(command).splitlines(), "", "", ""]
    except (CommandFailedError, MissingToolError) as error:
        raise _build_not_python_error(python, key) from error
    word, _, rest = answer.partition(" ")
    if word != "torchyard" or rest.count(" ") < 3:
        raise _build_not_python_error(python, key)
    implementation, version, kind, prefix = rest.split(" ", 3)
    site_folders = tuple(filter(None, sites))
    return InterpreterInfo(implementation, version, kind, prefix, managed, closed, site_folders)


def build_unwritable_error(folder: str) -> TorchyardError:
    """Return the error for a folder that is not writable. Raise it before any change."""
    return TorchyardError(
        "you may not write here; nothing was changed", location=folder, hint=VENV_HINT
    )


def _build_not_python_error(python: Path, key: str) -> SettingsError:
    return SettingsError(
        f"{python} is not a Python that runs here", location=key, hint="write the path of one"
    )


def check_install_target(
    settings: Settings, layout: Layout, choice: Resolution, ours: Collection[str]
) -> None:
    """Raise `SettingsError` for an interpreter that cannot be installed into.

    It is missing, not a Python, managed by torchyard, not writable, or another Python than the
    wheels are built for. `ours` are the prefixes of the environment that runs doit and of the
    Python it was created with.

    Those are rejected only for a name on PATH and accepted for a path: in an active venv, `python`
    is the one that torchyard is installed in.
    """
    into = settings.install.into
    if into is None:
        return
    python = find_interpreter(into, layout.root)
    interpreter = inspect_interpreter(python)
    if interpreter.prefix == os.path.realpath(layout.venv):
        raise SettingsError(
            f"{python} is of the environment that this profile builds itself",
            location=SETTING_KEY,
            hint="name the Python of another one",
        )
    if is_program_name(into) and interpreter.prefix in map(os.path.realpath, ours):
        raise SettingsError(
            f"{into} on PATH is {python}, the Python of doit itself",
            location=SETTING_KEY,
            hint=f"write the path of the Python that you mean; {python}, if it is this one",
        )
    _require_writable(python, interpreter)
    _require_same_python(python, interpreter, choice)


def _require_writable(python: Path, found: InterpreterInfo) -> None:
    """Raise `SettingsError` if the environment is not writable.

    The install checks it again, hours later: this reports the error early.
    """
    if found.managed:
        raise SettingsError(
            f"{python} is managed by the system, which says that nobody else installs there "
            f"({found.managed})",
            location=SETTING_KEY,
            hint=VENV_HINT,
        )
    if found.unwritable:
        raise SettingsError(
            f"you may not write to {found.unwritable}, of {python}",
            location=SETTING_KEY,
            hint=VENV_HINT,
        )


def _require_same_python(python: Path, found: InterpreterInfo, choice: Resolution) -> None:
    """Raise `SettingsError` if the wheels are for another Python, before hours of compiling."""
    expected_path = Path(choice.python.path)
    if expected_path.is_file() and str(found) != str(
        expected := inspect_interpreter(expected_path, "python")
    ):
        raise SettingsError(
            f"{python} is {found}, and this profile builds for {expected}",
            location=SETTING_KEY,
            hint=f"set python: {python}, where torch {choice.torch} is for it; or name the Python "
            f"of an environment with {expected}",
        )
