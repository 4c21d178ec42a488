"""Python environments: made by uv, which comes with us, or by venv where uv cannot run."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path, PurePath

from tasks.core.errors import CommandFailedError, MissingToolError
from tasks.core.model import Command
from tasks.system import shell
from tasks.system.hardware.packagemanager import format_install_command
from tasks.system.network import indexclient


def find_uv() -> str | None:
    """uv's program: the one of our own dependency, else one on PATH, else None."""
    try:
        import uv  # noqa: PLC0415 - where the package is missing, pip does the work
    except ImportError:
        return shutil.which("uv")
    try:
        return str(uv.find_uv_bin())
    except (FileNotFoundError, AttributeError):
        return shutil.which("uv")


def find_scripts_folder(venv: PurePath) -> Path:
    """Where a venv keeps its programs."""
    return Path(venv) / ("Scripts" if sys.platform == "win32" else "bin")


def build_program_path(scripts: PurePath, name: str) -> Path:
    """A program of such a folder. Python 3.11 does not look for `name.exe` where the folder is
    given with it.
    """
    return Path(scripts) / (f"{name}.exe" if sys.platform == "win32" else name)


def find_venv_python(venv: PurePath) -> Path:
    """The interpreter of a venv."""
    return build_program_path(find_scripts_folder(venv), "python")


def create_venv(venv: PurePath, base: str, uv: str | None, log: PurePath) -> None:
    """Make a venv of the interpreter `base`, with pip in it."""
    what = "make the build environment"
    try:
        indexclient.run_index_client(
            build_venv_argv(venv, base, uv), what, log
        )  # uv fetches pip for it
    except CommandFailedError as error:
        linux = sys.platform == "linux"
        hint = format_install_command("venv") if linux else "reinstall Python with its venv"
        raise MissingToolError(error.message, location=error.location, hint=hint) from error


def build_venv_argv(venv: PurePath, base: str, uv: str | None) -> tuple[str, ...]:
    """The command for it. Pure."""
    if not uv:
        return (base, "-m", "venv", str(venv))
    options = ("--seed", "--allow-existing", "--no-python-downloads")
    return (uv, "venv", *options, "--python", base, str(venv))


def find_site_packages(python: str) -> Path:
    """Where an interpreter keeps compiled packages."""
    query = "import sysconfig; print(sysconfig.get_path('platlib'))"
    return Path(
        shell.capture_output(
            Command((python, "-c", query), shell.build_host_env(), "find site-packages")
        ).strip()
    )
