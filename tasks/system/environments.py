"""Python environments: made by uv, which comes with us, or by venv where uv cannot run."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from packaging.utils import canonicalize_name

from tasks.core.errors import CommandFailedError, MissingToolError
from tasks.core.model import Command
from tasks.core.pip_requirements import is_requirement_applicable, parse_requirements
from tasks.system import shell
from tasks.system.hardware.operating_system import format_install_command
from tasks.system.network import index_client


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
        index_client.run_index_client(
            build_venv_argv(venv, base, uv), what, log
        )  # uv fetches pip for it
    except CommandFailedError as error:
        linux = sys.platform == "linux"
        hint = format_install_command("venv") if linux else "reinstall Python with its venv"
        raise MissingToolError(error.message, location=error.location, hint=hint) from error


def build_venv_argv(venv: PurePath, base: str, uv: str | None) -> tuple[str, ...]:
    """The command for it."""
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


_SITE_PATTERNS = ("lib/python*/site-packages", "Lib/site-packages")


@dataclass(frozen=True)
class InstalledPackage:
    """A distribution that is installed. `tags` are those of the wheel that it came in, `requires`
    what its metadata asks for.
    """

    name: str
    version: str
    tags: frozenset[str]
    requires: tuple[str, ...]
    is_file: bool

    @property
    def pin(self) -> str:
        """`numpy==2.3.5`."""
        return f"{self.name}=={self.version}"


def find_site_folder(venv: PurePath) -> Path:
    """Where an environment of ours keeps its packages; no process is asked."""
    return next(list_site_folders(venv), Path(venv) / "lib")


def list_site_folders(prefix: PurePath) -> Iterator[Path]:
    """The folders for packages that lie below a Python's prefix, of any version and system."""
    return (path for pattern in _SITE_PATTERNS for path in Path(prefix).glob(pattern))


def read_package_versions(site: PurePath) -> dict[str, str]:
    """Normalized name → version, by the names of the folders that installers leave: it is asked in
    each run.
    """
    folder = Path(site)
    names = (path.name for path in folder.glob("*.dist-info")) if folder.is_dir() else ()
    pairs = (name.removesuffix(".dist-info").rpartition("-") for name in names)
    return {canonicalize_name(name): version for name, _, version in pairs}


def read_installed_packages(site: PurePath) -> Mapping[str, InstalledPackage]:
    """Everything that lies there, by normalized name."""
    if not Path(site).is_dir():
        return {}
    found = map(_read_package, importlib.metadata.distributions(path=[str(site)]))
    return {one.name: one for one in found if one.name}


def _read_package(item: importlib.metadata.Distribution) -> InstalledPackage:
    lines = (item.read_text("WHEEL") or "").splitlines()
    tags = (line.partition(":")[2].strip() for line in lines if line.startswith("Tag:"))
    return InstalledPackage(
        name=canonicalize_name(item.metadata["Name"] or ""),
        version=item.version,
        tags=frozenset(tags),
        requires=tuple(item.requires or ()),
        is_file=item.read_text("direct_url.json") is not None,
    )


def resolve_required_names(roots: Iterable[str], here: Mapping[str, InstalledPackage]) -> set[str]:
    """The names of what the requirements `roots` bring here with their extras, and what that
    brings.
    """
    waiting, found = list(parse_requirements(roots)), set[tuple[str, frozenset[str]]]()
    while waiting:
        wanted = waiting.pop()
        if (name := canonicalize_name(wanted.name)) not in here:
            continue
        one = (name, frozenset(wanted.extras))
        if one not in found:
            found.add(one)
            theirs = parse_requirements(here[name].requires)
            waiting += (
                asked for asked in theirs if is_requirement_applicable(asked, {}, wanted.extras)
            )
    return {name for name, _ in found}


IMPORT_TIMEOUT = 600.0  # seconds: far more than a cold disk needs, so that a hang ends
_EXCEPTION_LINE = re.compile(r"[\w.]*(?:Error|Exception|Interrupt|Exit)\b")  # how a traceback ends
# `ImportError: libcuda.so.1: cannot open shared object file: No such file or directory`
_MISSING_DRIVER = re.compile(
    r"\blib(?:cuda|nvidia-[\w-]+|nvcuvid|nvoptix|cudadebugger)\.so\S*: cannot open shared"
    r"|NVIDIA driver|active drivers|No CUDA GPUs are available"
    r"|Unknown compute capability"  # tiny-cuda-nn
)


@dataclass(frozen=True)
class ImportResult:
    """What an import printed, and how it ended: `problem` is "" where it went well, and `error` has
    the log. `lacks_driver`: it needs the driver of a card, which this machine need not have.
    """

    lines: tuple[str, ...]
    problem: str = ""
    error: CommandFailedError | None = None

    @property
    def needs_driver(self) -> bool:
        """Whether a machine with a card might import it."""
        return bool(_MISSING_DRIVER.search(self.problem))


def try_import(python: str, code: str, command: Command) -> ImportResult:
    """Run `code` as `command` says but for its argv; its `cwd` should hold no modules, -c takes
    those first.
    """
    argv = (python, "-X", "faulthandler", "-c", code)
    lines: list[str] = []
    try:
        shell.run_command(replace(command, argv=argv, timeout=IMPORT_TIMEOUT), lines.append)
    except CommandFailedError as error:
        return ImportResult(tuple(lines), find_raised_exception(lines) or error.message, error)
    return ImportResult(tuple(lines))


def find_raised_exception(lines: Sequence[str]) -> str:
    """The exception that ended it; those before it in a traceback led to it."""
    return next((line for line in reversed(lines) if _EXCEPTION_LINE.match(line)), "")
