"""Create Python environments with uv (or venv if uv cannot run), and read their packages."""

import importlib.metadata
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from email.parser import HeaderParser
from pathlib import Path, PurePath

from packaging.utils import canonicalize_name

from tasks.core.errors import CommandFailedError, MissingToolError
from tasks.core.model import Command
from tasks.core.pip_requirements import is_requirement_applicable, parse_requirements
from tasks.system import shell
from tasks.system.hardware.operating_system import format_install_command
from tasks.system.network import index_client


def find_uv() -> str | None:
    """Return the path of uv in the package `uv`, else on PATH; None if uv is not installed."""
    try:
        import uv  # noqa: PLC0415 - if the package is missing, pip installs the packages

        return str(uv.find_uv_bin())
    except (ImportError, FileNotFoundError, AttributeError):
        return shutil.which("uv")


def find_scripts_folder(venv: PurePath) -> Path:
    """Return a venv's scripts folder: `bin`, or `Scripts` on Windows."""
    return Path(venv) / ("Scripts" if sys.platform == "win32" else "bin")


def build_program_path(scripts: PurePath, name: str) -> Path:
    """Return the path of the program `name` in the folder `scripts`, with `.exe` on Windows."""
    return Path(scripts) / (f"{name}.exe" if sys.platform == "win32" else name)


def find_venv_python(venv: PurePath) -> Path:
    """Return the path of a venv's interpreter."""
    return build_program_path(find_scripts_folder(venv), "python")


def create_venv(venv: PurePath, base: str, uv: str | None, log: PurePath) -> None:
    """Create a venv with pip, using uv, or the venv module of `base` if `uv` is `None`."""
    argv = build_venv_argv(venv, base, uv)
    try:
        index_client.run_index_client(argv, "create the build environment", log)  # uv fetches pip
    except CommandFailedError as error:
        hint = "reinstall Python with its venv module"
        if sys.platform == "linux":
            hint = format_install_command("venv")
        raise MissingToolError(error.message, location=error.location, hint=hint) from error


def build_venv_argv(venv: PurePath, base: str, uv: str | None) -> tuple[str, ...]:
    """Return the command that creates a venv: `uv venv`, or `BASE -m venv` if `uv` is `None`."""
    if not uv:
        return (base, "-m", "venv", str(venv))
    options = ("--seed", "--allow-existing", "--no-python-downloads")
    return (uv, "venv", *options, "--python", base, str(venv))


def find_site_packages(python: str) -> Path:
    """Return an interpreter's platlib folder, which contains packages with compiled code."""
    argv = (python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))")
    command = Command(argv, shell.build_host_env(), "find site-packages")
    return Path(shell.capture_output(command).strip())


@dataclass(frozen=True)
class InstalledPackage:
    """An installed package. `is_file` is True if it came from a file or URL, not from an index."""

    name: str
    version: str
    tags: frozenset[str]
    requires: tuple[str, ...]
    is_file: bool

    @property
    def pin(self) -> str:
        """Return the requirement that pins this version, for example `numpy==2.3.5`."""
        return f"{self.name}=={self.version}"


def find_site_folder(venv: PurePath) -> Path:
    """Return a venv's site-packages folder without starting its interpreter."""
    return next(list_site_folders(venv), Path(venv) / "lib")


def list_site_folders(prefix: PurePath) -> Iterator[Path]:
    """Return the site-packages folders in a Python prefix, whatever the Python version and OS."""
    patterns = ("lib/python*/site-packages", "Lib/site-packages")
    return (path for pattern in patterns for path in Path(prefix).glob(pattern))


def read_package_versions(site: PurePath) -> dict[str, str]:
    """Return package versions by normalized name, read from the names of .dist-info folders."""
    folder = Path(site)
    names = (path.name for path in folder.glob("*.dist-info")) if folder.is_dir() else ()
    pairs = (name.removesuffix(".dist-info").rpartition("-") for name in names)
    return {canonicalize_name(name): version for name, _, version in pairs}


def read_installed_packages(site: PurePath) -> Mapping[str, InstalledPackage]:
    """Return all packages in a site-packages folder by normalized name."""
    if not Path(site).is_dir():
        return {}
    packages = map(_read_package, importlib.metadata.distributions(path=[str(site)]))
    return {package.name: package for package in packages if package.name}


def _read_package(item: importlib.metadata.Distribution) -> InstalledPackage:
    name = canonicalize_name(item.metadata["Name"] or "")
    tags = HeaderParser().parsestr(item.read_text("WHEEL") or "").get_all("Tag", ())
    is_file, requires = item.read_text("direct_url.json") is not None, tuple(item.requires or ())
    return InstalledPackage(name, item.version, frozenset(tags), requires, is_file)


def resolve_required_names(
    roots: Iterable[str], installed: Mapping[str, InstalledPackage]
) -> set[str]:
    """Return the installed packages that the requirements `roots` need, directly or indirectly."""
    pending, visited = list(parse_requirements(roots)), set[tuple[str, frozenset[str]]]()
    while pending:
        requirement = pending.pop()
        name, extras = canonicalize_name(requirement.name), requirement.extras
        visit = (name, frozenset(extras))
        if name in installed and visit not in visited:
            visited.add(visit)
            required = parse_requirements(installed[name].requires)
            pending += (one for one in required if is_requirement_applicable(one, {}, extras))
    return {name for name, _ in visited}


IMPORT_TIMEOUT = 600.0  # seconds: far more than any import takes, so that only a hang reaches it
_EXCEPTION_LINE = re.compile(r"[\w.]*(?:Error|Exception|Interrupt|Exit)\b")  # a traceback's end
# `ImportError: libcuda.so.1: cannot open shared object file: No such file or directory`
_MISSING_DRIVER = re.compile(
    r"\blib(?:cuda|nvidia-[\w-]+|nvcuvid|nvoptix|cudadebugger)\.so\S*: cannot open shared"
    r"|NVIDIA driver|active drivers|No CUDA GPUs are available"
    r"|Unknown compute capability"  # tiny-cuda-nn
)


@dataclass(frozen=True)
class ImportResult:
    """The result of an import. `problem` is the reason for a failure, "" after a success."""

    lines: tuple[str, ...]
    problem: str = ""
    error: CommandFailedError | None = None

    @property
    def needs_driver(self) -> bool:
        """Return True if the import failed because there is no NVIDIA driver or GPU here."""
        return bool(_MISSING_DRIVER.search(self.problem))


def try_import(python: str, code: str, command: Command) -> ImportResult:
    """Run `code`, which imports modules, in the environment and folder of `command`."""
    # In the folder of `command`, no module may have the name of an installed package
    argv = (python, "-X", "faulthandler", "-c", code)
    lines: list[str] = []
    try:
        shell.run_command(replace(command, argv=argv, timeout=IMPORT_TIMEOUT), lines.append)
    except CommandFailedError as error:
        return ImportResult(tuple(lines), find_raised_exception(lines) or error.message, error)
    return ImportResult(tuple(lines))


def find_raised_exception(lines: Sequence[str]) -> str:
    """Return the last line that reports an exception, "" if no line does."""
    return next((line for line in reversed(lines) if _EXCEPTION_LINE.match(line)), "")
