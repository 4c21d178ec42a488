"""Read what a CUDA toolkit compiles for, from an installed toolkit or from its Python packages."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from tasks.core.errors import CommandFailedError, MissingToolError
from tasks.core.model import Command, Host, InstalledToolkit
from tasks.core.package_files import IndexFile, PackageIndex
from tasks.knowledge.release_rows import choose_wheel, list_releases, select_files
from tasks.knowledge.toolkit_facts import (
    HOST_CONFIG_MEMBER,
    NVCC_MEMBER,
    PTXAS_MEMBER,
    REFUSED_PTX,
    Row,
    build_toolkit_row,
)
from tasks.knowledge.torch_releases import normalize_machine
from tasks.knowledge.versions import format_major_minor
from tasks.knowledge.wheel_facts import METADATA_MEMBER, list_wheel_pythons
from tasks.system import shell
from tasks.system.hardware.toolchain import build_nvcc_path

COMPILER_PACKAGES = ("nvidia-cuda-nvcc", "nvidia-cuda-crt")
_PROGRAMS = frozenset({"nvcc", "ptxas", "nvcc.exe", "ptxas.exe"})
_CUOBJDUMP_EXTRA = "cuobjdump"
_PROGRAM_TIMEOUT = 60.0  # seconds


def read_installed_toolkit(kit: InstalledToolkit) -> Row:
    """Return the row of an installed toolkit, {} if its programs cannot run."""
    home = Path(kit.home)
    folders = (home / "include", *home.glob("targets/*/include"))
    headers = (folder / "crt" / "host_config.h" for folder in folders)
    header = next((path for path in headers if path.is_file()), None)
    text = header.read_text(encoding="utf-8", errors="replace") if header else ""
    row = _ask_programs(kit.version, Path(build_nvcc_path(kit.home)), text)
    return {**row, "origin": f"read from {kit.home}"} if row.get("sm") else {}


def _ask_programs(version: str, nvcc: Path, host_config: str) -> Row:
    """Return the row from the output of nvcc and of the ptxas beside it."""
    ptxas = nvcc.with_name(nvcc.name.replace("nvcc", "ptxas"))

    def run(program: Path, *options: str) -> str:
        return shell.try_capture(str(program), *options, what=f"query {program.name}") or ""

    return build_toolkit_row(
        version,
        host_config=host_config,
        ptxas_help=run(ptxas, "--help"),
        gpu_code=run(nvcc, "--list-gpu-code"),
        ptx_isa=run(ptxas, "--list-version") or _ask_refused_version(ptxas),
        nvcc_help=run(nvcc, "--help"),
    )


def _ask_refused_version(ptxas: Path) -> str:
    """Return the message of a ptxas before 13.0, which cannot list its PTX versions."""
    with TemporaryDirectory(prefix="torchyard-") as folder:
        source = Path(folder, "refused.ptx")
        source.write_text(REFUSED_PTX, encoding="ascii")
        argv = (str(ptxas), str(source), "-o", str(source.with_suffix(".cubin")))
        command = Command(argv, shell.build_host_env(), "query ptxas", timeout=_PROGRAM_TIMEOUT)
        try:
            return shell.capture_output(command)
        except CommandFailedError as error:
            return error.output
        except MissingToolError:
            return ""


def read_published_toolkit(
    index: PackageIndex, files: Sequence[IndexFile], cuda: str, host: Host
) -> Row:
    """Return the row of the newest toolkit `cuda` ("13.6") on a package index, {} without wheels.

    `files` are those of the project cuda-toolkit. If the packages have programs for this machine,
    they are downloaded to a temporary folder and run. Raises `FetchError`.
    """
    releases = [one for one in list_releases(files) if format_major_minor(one) == cuda]
    if not releases:
        return {}
    file = select_files(files, releases[-1])[0]
    members = index.read_members(file, [METADATA_MEMBER])
    metadata, _ = parse_email(next(iter(members.values()), b""))
    pins = dict(_list_pins(metadata.get("requires_dist", [])))
    platform = (host.system, normalize_machine(host.machine))
    row: Row = {}
    evidence = [{"file": file.name, "version": releases[-1], "sha256": file.sha256}]
    with TemporaryDirectory(prefix="torchyard-") as folder:
        header = ""
        for package in COMPILER_PACKAGES:
            wheels = select_files(index.list_files(package), pins.get(package, ""))
            wheel = choose_wheel(wheels, [platform], host.python.minor)
            if wheel and platform in list_wheel_pythons([wheel.name]):
                header = _unpack_compiler(index, wheel, Path(folder)) or header
                version = pins[package]
                evidence.append({"file": wheel.name, "version": version, "sha256": wheel.sha256})
        nvcc = Path(folder, "nvcc.exe" if host.system == "windows" else "nvcc")
        if has_compiler := nvcc.is_file():
            row = _ask_programs(pins[COMPILER_PACKAGES[0]], nvcc, header)
    extras = metadata.get("provides_extra", [])
    published = {"pypi": has_compiler, "pypi_cuobjdump": _CUOBJDUMP_EXTRA in extras}
    origin = f"read from the packages of cuda-toolkit {releases[-1]}"
    status = f"verified: {origin}"
    return {**row, **published, "origin": origin, "status": status, "evidence": evidence}


def _list_pins(requirements: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the package and the version of each requirement such as `nvidia-cuda-nvcc==13.5.37`."""
    for text in requirements:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        specifier = str(requirement.specifier)
        if specifier.startswith("=="):
            yield canonicalize_name(requirement.name), specifier.removeprefix("==").rstrip(".*")


def _unpack_compiler(index: PackageIndex, wheel: IndexFile, folder: Path) -> str:
    """Write nvcc and ptxas of a wheel into the folder, and return the text of host_config.h."""
    header = ""
    patterns = [HOST_CONFIG_MEMBER, *(f"{one}*" for one in (PTXAS_MEMBER, NVCC_MEMBER))]
    for name, content in index.read_members(wheel, patterns).items():
        path = folder / PurePosixPath(name).name
        if path.name in _PROGRAMS:
            path.write_bytes(content)
            path.chmod(0o755)
        elif path.name == "host_config.h":
            header = content.decode("utf-8", "replace")
    return header
