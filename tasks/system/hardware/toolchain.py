"""Identify tools by real path and version, choose compilers, and assemble a CUDA_HOME folder."""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath

from tasks.core.deps_model import CompilerLimits, Program
from tasks.core.errors import MissingToolError
from tasks.knowledge.host_compilers import CompilerKind, HostCompiler, explain_compiler_rejection
from tasks.system import files, shell
from tasks.system.hardware import msvc_toolsets
from tasks.system.hardware.operating_system import format_install_command

_VERSION_NUMBER = re.compile(r"\d\.\d")
_IDENTIFIED_TOOLS = ("toolchain.cc", "toolchain.cxx", "toolchain.nvcc", "toolchain.cudahost")


def resolve_tool_identity(name: str, value: str) -> str:
    """Return the version and real path of a tool (`toolchain.cxx`); for other settings, `value`."""
    if name == "toolchain.tree":
        return os.path.realpath(value)
    if name not in _IDENTIFIED_TOOLS:
        return value
    # The real path is not run: a compiler cache passes --version on to the compiler of that name
    return f"{_read_version_lines(value)} ({os.path.realpath(value)})"


def hash_program(program: str) -> str:
    """Return the first 16 digits of the sha256 of the program's file; "" if there is no file."""
    return files.read_artifact(Path(program)).sha256[:16] if Path(program).is_file() else ""


def stamp_program(program: str) -> str:
    """Return the size and modification time of a program's file; "gone" if there is no file."""
    try:
        status = Path(program).stat()
    except OSError:
        return "gone"
    return f"{status.st_size}:{status.st_mtime_ns}"


def build_nvcc_path(home: str) -> str:
    """Return the path of nvcc in the CUDA toolkit `home`."""
    return str(Path(home) / "bin" / ("nvcc.exe" if os.name == "nt" else "nvcc"))


@cache
def _read_version_lines(program: str) -> str:
    """Return the version lines that `program --version` prints; "" if it fails, as cl.exe does."""
    text = shell.try_capture(program, "--version", what=f"ask {program} its version") or ""
    lines = (line.strip() for line in text.splitlines() if _VERSION_NUMBER.search(line))
    # GCC's output begins with the name that it was called by
    return " ".join(lines).removeprefix(f"{Path(program).name} ")


@dataclass(frozen=True)
class CompilerPair:
    """A C and a C++ compiler. `why` explains an unusual choice. `msvc` is set only on Windows."""

    cc: Program
    cxx: Program
    kind: CompilerKind
    why: str = ""
    msvc: msvc_toolsets.ChosenToolset | None = None


def choose_compilers(
    requested: tuple[str | None, str | None], limits: CompilerLimits
) -> CompilerPair:
    """Return a C and a C++ compiler that `limits` allows.

    If CXX is requested, only the pair `requested` (CC, CXX) is tried. Otherwise gcc, cc, gcc-N,
    clang and clang-N are tried, highest N first. Raises `MissingToolError` with an install command.
    """
    if sys.platform == "win32":
        selection = msvc_toolsets.choose_toolset(limits)
        return CompilerPair(selection.cl, selection.cl, "msvc", selection.why, selection)
    cc, cxx = requested
    rejection = ""
    for c_name, cxx_name in [(cc or cxx, cxx)] if cxx else _list_compiler_names(limits):
        c, inspection = find_program(c_name), _inspect_compiler(cxx_name)
        if not c or not inspection:
            continue
        cplusplus, kind = inspection
        compiler = HostCompiler(cxx_name, kind, cplusplus.version)
        if not (reason := explain_compiler_rejection(limits, compiler)):
            used = f"{rejection}: {cxx_name} ({cplusplus.version}) is used" if rejection else ""
            return CompilerPair(c, cplusplus, kind, used)
        rejection = rejection or reason
    raise _build_compiler_error(cxx, limits, rejection)


def find_program(name: str) -> Program | None:
    """Return a program (a name or a path) and the version that it prints; None if not found."""
    inspection = _inspect_compiler(name)
    return inspection[0] if inspection else None


def can_link_library(cxx: str, library: str, scratch: Path) -> bool:
    """Return True if the compiler `cxx` can link the library ("openblas").

    The test writes a temporary file to the folder `scratch`.
    """
    product = scratch / f"links-with-{library}"
    argv = (cxx, "-shared", "-x", "c++", os.devnull, f"-l{library}", "-o", str(product))
    can_link = shell.try_capture(*argv, what=f"look for {library}") is not None
    product.unlink(missing_ok=True)
    return can_link


def _list_compiler_names(limits: CompilerLimits) -> Iterator[tuple[str, str]]:
    """Yield the C and C++ compiler names to try; numbered names begin with the newest allowed."""
    yield from (("gcc", "g++"), ("cc", "c++"))
    yield from ((f"gcc-{n}", f"g++-{n}") for n in range(limits.gcc_max or 0, 8, -1))
    yield "clang", "clang++"
    yield from ((f"clang-{n}", f"clang++-{n}") for n in range(limits.clang_max or 0, 6, -1))


def _inspect_compiler(name: str) -> tuple[Program, CompilerKind] | None:
    """Return the path, version and kind of the compiler `name`; None if it cannot run."""
    path = shutil.which(name)
    text = shell.try_capture(path, "--version", what=f"ask {name} its version") if path else None
    if path is None or text is None:
        return None
    version_match = re.search(r"\d+\.\d+(\.\d+)*", re.sub(r"\(.*?\)", "", text))
    names = f"{Path(path).resolve().name} {text.partition(chr(10))[0]}"
    kind: CompilerKind = "clang" if "clang" in names.lower() else "gcc"
    return Program(path, version_match[0] if version_match else ""), kind


def _build_compiler_error(
    requested: str | None, limits: CompilerLimits, rejection: str
) -> MissingToolError:
    if requested:
        hint = "set CXX to another compiler; or remove CXX, and torchyard finds a supported one"
        message = rejection or f"there is no compiler {requested}"
        return MissingToolError(message, location="build.env.CXX", hint=hint)
    if not rejection:
        hint = format_install_command("compiler")
        return MissingToolError("this machine has no C++ compiler", hint=hint)
    hint = f"install g++ {limits.gcc_min} or later"
    if limits.gcc_max:
        install = format_install_command("newest-gcc", gcc=str(limits.gcc_max))
        hint = f"{install}  (torchyard then finds this g++), or choose a newer toolkit.version"
    return MissingToolError(rejection, hint=hint)


_LIBRARY_PACKAGES = ("cudnn", "nccl", "cusparselt", "nvshmem")


def assemble_cuda_home(site_packages: PurePath, home: PurePath) -> Path:
    """Link the CUDA packages in `site_packages` into the folder `home`; return the CUDA_HOME."""
    toolkit = find_packages_root(site_packages)
    if sys.platform == "win32":
        return toolkit

    files.remove_owned(home)
    tree = files.create_owned_folder(home)
    shutil.copytree(toolkit / "bin", tree / "bin", copy_function=files.link_or_copy)
    (tree / "nvvm").symlink_to(toolkit / "nvvm")
    (tree / "lib64").mkdir()
    (tree / "lib").symlink_to("lib64")
    packages = (toolkit, *(toolkit.parent / name for name in _LIBRARY_PACKAGES))
    headers = [path / "include" for path in packages if (path / "include").is_dir()]
    if len(headers) == 1:  # as one link: headers that are installed later appear in it
        (tree / "include").symlink_to(headers[0])
    else:
        (tree / "include").mkdir()
        for header in (header for folder in headers for header in sorted(folder.iterdir())):
            _link_if_missing(tree / "include" / header.name, str(header))
    link_new_libraries(site_packages, home)
    return tree


def find_packages_root(site_packages: PurePath) -> Path:
    """Return the folder nvidia/cuNN that contains nvcc."""
    programs = Path(site_packages).glob("nvidia/cu*/bin/nvcc*")
    compilers = [path for path in programs if path.name in {"nvcc", "nvcc.exe"}]
    if compilers:
        return max(compilers).parent.parent
    message = "the installed CUDA packages contain no nvcc"
    hint = "choose toolkit.version 13.0 or later: older packages contain no nvcc"
    raise MissingToolError(message, location=str(site_packages), hint=hint)


def link_new_libraries(site_packages: PurePath, home: PurePath) -> None:
    """Link libraries that were installed after `home` was assembled, such as torch's cuBLAS."""
    if sys.platform == "win32" or not files.is_owned(home):
        return
    site, lib64 = Path(site_packages), Path(home) / "lib64"
    folders = [find_packages_root(site), *(site / "nvidia" / name for name in _LIBRARY_PACKAGES)]
    for library in (path for folder in folders for path in sorted(folder.glob("lib/lib*"))):
        _link_if_missing(lib64 / library.name, str(library))
        if ".so." in library.name:
            _link_if_missing(lib64 / f"{library.name.partition('.so.')[0]}.so", library.name)


def _link_if_missing(place: Path, to: str) -> None:
    if not place.is_symlink() and not place.exists():
        place.symlink_to(to)
