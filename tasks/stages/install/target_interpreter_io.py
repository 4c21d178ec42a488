"""Find and check the interpreter in install.into, fast enough for loading the settings."""

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
_INSPECT_TIMEOUT = 30.0  # seconds: a program that is not Python may wait for input
VENV_HINT = "create a venv (python -m venv …) and set install.into to its Python"
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
    """An interpreter, and the environment that it runs in.

    `implementation` is a name such as "cpython". `kind` is "usual" or "free-threaded". `managed` is
    the path of EXTERNALLY-MANAGED. `unwritable` is the first package folder that the user cannot
    write to. A missing path is "". `sites` are the site-packages folders.
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
        """Return the major and minor version, such as `3.12`."""
        return format_major_minor(self.version)

    def __str__(self) -> str:
        name = {"cpython": "CPython", "pypy": "PyPy"}.get(self.implementation, self.implementation)
        kind = "" if self.kind == "usual" else f" {self.kind}"
        return f"{name} {self.minor}{kind}"


def is_program_name(into: str) -> bool:
    """Return True if `into` is a program name to search on PATH, not a path."""
    return PurePath(into).name == into


def find_interpreter(into: str, root: PurePath) -> Path:
    """Return the path of the interpreter `into`. Raises `SettingsError` if it is missing.

    Links are not resolved, because a venv's Python is a link. Relative paths start at `root`.
    """
    path = Path(root, into)
    if is_program_name(into):
        if program := shutil.which(into):
            return Path(program).absolute()
        message, hint = f'there is no "{into}" on PATH', "write the path of a Python"
    elif path.is_file():
        return path
    elif path.is_dir():
        python = find_python_in(path)
        message = f"{path} is a folder"
        hint = f"write the path of its Python: {python}" if python else "write the path of a Python"
    else:
        message, hint = f"{path} does not exist", "write the path of an installed Python"
    raise SettingsError(message, location=SETTING_KEY, hint=hint)


def find_python_in(folder: Path) -> Path | None:
    """Return the Python of the environment in `folder`, `folder`/.venv or `folder`/venv, if any."""
    places = (Path("bin", "python"), Path("Scripts", "python.exe"), Path("python.exe"))
    candidates = (folder / name / place for name in ("", ".venv", "venv") for place in places)
    return next((path for path in candidates if path.is_file()), None)


def inspect_interpreter(python: Path, key: str = SETTING_KEY) -> InterpreterInfo:
    """Run the interpreter `python` and describe it. A failure is an error in the setting `key`."""
    argv = (str(python), "-I", "-B", "-c", _INSPECT_CODE)
    env = shell.build_host_env()
    command = Command(argv, env, f"run {python}", timeout=_INSPECT_TIMEOUT)
    message = f"{python} is not a Python that runs on this machine"
    not_python = SettingsError(message, location=key, hint="write the path of another Python")
    try:
        answer, managed, closed, *sites = [*shell.capture_output(command).splitlines(), "", "", ""]
    except (CommandFailedError, MissingToolError) as error:
        raise not_python from error
    word, _, rest = answer.partition(" ")
    if word != "torchyard" or rest.count(" ") < 3:
        raise not_python
    implementation, version, kind, prefix = rest.split(" ", 3)
    site_folders = tuple(filter(None, sites))
    return InterpreterInfo(implementation, version, kind, prefix, managed, closed, site_folders)


def build_refusal(message: str, location: Path | str, hint: str = VENV_HINT) -> TorchyardError:
    """Return an error with `message` and the remark that nothing was changed."""
    return TorchyardError(f"{message}; nothing was changed", location=str(location), hint=hint)


def check_install_target(
    settings: Settings, layout: Layout, choice: Resolution, doit_prefixes: Collection[str]
) -> None:
    """Raise `SettingsError` if nothing can be installed into the environment in install.into.

    `doit_prefixes` are the environments of the Python that runs doit. They are refused if
    install.into is a program name, because `python` may mean them by mistake.
    """
    into = settings.install.into
    if into is None:
        return
    python = find_interpreter(into, layout.root)
    found = inspect_interpreter(python)
    if problem := _find_problem(into, python, found, layout, doit_prefixes):
        raise SettingsError(problem[0], location=SETTING_KEY, hint=problem[1])
    # Report wheels for another Python before hours of compiling
    build_python = Path(choice.python.path)
    expected = inspect_interpreter(build_python, "python") if build_python.is_file() else found
    if str(found) != str(expected):
        message = f"{python} is {found}, but this profile builds for {expected}"
        hint = f"set python: {python} if torch {choice.torch} supports it, or set {SETTING_KEY} to "
        hint += f"the Python of an environment with {expected}"
        raise SettingsError(message, location=SETTING_KEY, hint=hint)


def _find_problem(
    into: str, python: Path, found: InterpreterInfo, layout: Layout, doit_prefixes: Collection[str]
) -> tuple[str, str] | None:
    """Return the message and the hint for an unsuitable environment, or None for a suitable one."""
    if found.prefix == os.path.realpath(layout.venv):
        message = f"{python} belongs to the environment that this profile builds itself"
        return message, "write the path of the Python of another environment"
    if is_program_name(into) and found.prefix in map(os.path.realpath, doit_prefixes):
        hint = f"write the path of the Python to install into ({python} if you mean this one)"
        return f"{into} on PATH is {python}, the Python that runs doit", hint
    if found.managed:
        message = f"{python} is managed by the system, which forbids installs ({found.managed})"
        return message, VENV_HINT
    if found.unwritable:
        return f"you cannot write to {found.unwritable}, a folder of {python}", VENV_HINT
    return None
