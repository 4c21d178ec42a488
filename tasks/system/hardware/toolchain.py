"""Identify tools by real path and version, choose compilers, and assemble a CUDA home.

A compiler that was upgraded in place has the same path and another version. A compiler that is
called by another name (`cc`, `gcc-13`) resolves to the same path.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath

from tasks.core.deps_model import CompilerLimits, Program
from tasks.core.errors import CommandFailedError, MissingToolError
from tasks.core.model import Command
from tasks.knowledge.host_compilers import CompilerKind, HostCompiler, explain_compiler_rejection
from tasks.system import files, shell
from tasks.system.hardware import msvc_toolsets
from tasks.system.hardware.operating_system import format_install_command

_VERSION_NUMBER = re.compile(r"\d\.\d")
_IDENTIFIED_TOOLS = ("toolchain.cc", "toolchain.cxx", "toolchain.nvcc", "toolchain.cudahost")


def resolve_tool_identity(name: str, value: str) -> str:
    """Return the identity of `toolchain.cxx` and similar from its path.

    A version is its own identity, and so is an interpreter, whose links lead to another
    environment.
    """
    if name == "toolchain.tree":
        return os.path.realpath(value)
    if name not in _IDENTIFIED_TOOLS:
        return value
    real = os.path.realpath(value)
    # run by the given name: a compiler cache passes --version on to the compiler
    return f"{_read_version_lines(value)} ({real})"


def hash_program(program: str) -> str:
    """Return the first 16 digits of the sha256 of the program's file, "" if there is no file."""
    return files.read_artifact(Path(program)).sha256[:16] if Path(program).is_file() else ""


def stamp_program(program: str) -> str:
    """Return size and modification time of the file, links followed; "gone" without a file."""
    try:
        status = Path(program).stat()
    except OSError:
        return "gone"
    return f"{status.st_size}:{status.st_mtime_ns}"


def build_nvcc_path(home: str) -> str:
    """Return the path of the compiler of a CUDA toolkit."""
    return str(Path(home) / "bin" / ("nvcc.exe" if os.name == "nt" else "nvcc"))


@cache
def _read_version_lines(program: str) -> str:
    """Return the output lines with a version number: GCC's first line, nvcc's release and build.

    "" if the program does not support --version (cl.exe).
    """
    command = Command((program, "--version"), shell.build_host_env(), f"ask {program} its version")
    try:
        lines = shell.capture_output(command).splitlines()
    except (CommandFailedError, MissingToolError):
        return ""
    version_lines = " ".join(line.strip() for line in lines if _VERSION_NUMBER.search(line))
    return version_lines.removeprefix(
        f"{Path(program).name} "
    )  # GCC begins with the name it was called by


_OLDEST_NUMBERS = {"gcc": 9, "clang": 7}  # of the numbered names to look for


@dataclass(frozen=True)
class CompilerPair:
    """The C and the C++ compiler.

    `why` is a sentence if they are not the default ones; `msvc` is their toolset on Windows.
    """

    cc: Program
    cxx: Program
    kind: CompilerKind
    why: str = ""
    msvc: msvc_toolsets.ChosenToolset | None = None


def choose_compilers(asked: tuple[str | None, str | None], limits: CompilerLimits) -> CompilerPair:
    """Return the compilers that `limits` allows.

    These are only the requested ones (CC, CXX) if set, else the first of gcc, cc, gcc-N, clang and
    clang-N, the newest N first. Raises `MissingToolError` with the command that installs one.
    """
    if sys.platform == "win32":
        selection = msvc_toolsets.choose_toolset(limits)
        return CompilerPair(selection.cl, selection.cl, "msvc", selection.why, selection)
    rejection = ""
    for cc, cxx in [(asked[0] or asked[1], asked[1])] if asked[1] else _list_compiler_names(limits):
        programs = (_inspect_compiler(cc), _inspect_compiler(cxx))
        if not programs[0] or not programs[1]:
            continue
        (c, _), (cplusplus, kind) = programs[0], programs[1]
        reason = explain_compiler_rejection(limits, HostCompiler(str(cxx), kind, cplusplus.version))
        if not reason:
            selection = f"{cxx} ({cplusplus.version}) is used"
            return CompilerPair(
                c, cplusplus, kind, f"{rejection}: {selection}" if rejection else ""
            )
        rejection = rejection or reason
    raise _build_compiler_error(asked[1], limits, rejection)


def find_program(name: str) -> Program | None:
    """Return a program on PATH (or at a path) with the version that it prints."""
    inspection = _inspect_compiler(name)
    return inspection[0] if inspection else None


def can_link_library(cxx: str, library: str, scratch: Path) -> bool:
    """Return True if the linker finds the library ("openblas"); `scratch` is a managed folder."""
    product = scratch / f"links-with-{library}"
    empty = "NUL" if sys.platform == "win32" else "/dev/null"
    argv = (cxx, "-shared", "-x", "c++", empty, f"-l{library}", "-o", str(product))
    try:
        shell.capture_output(Command(argv, shell.build_host_env(), f"look for {library}"))
    except (CommandFailedError, MissingToolError):
        return False
    product.unlink(missing_ok=True)
    return True


def _list_compiler_names(limits: CompilerLimits) -> Iterator[tuple[str, str]]:
    yield from (("gcc", "g++"), ("cc", "c++"))
    yield from ((f"gcc-{n}", f"g++-{n}") for n in _list_compiler_numbers("gcc", limits.gcc_max))
    yield "clang", "clang++"
    yield from (
        (f"clang-{n}", f"clang++-{n}") for n in _list_compiler_numbers("clang", limits.clang_max)
    )


def _list_compiler_numbers(kind: CompilerKind, newest: int | None) -> range:
    """Return the numbers of compiler names to look for, the newest first.

    Empty without an upper limit: the unnumbered name is then the newest already.
    """
    return range(newest, _OLDEST_NUMBERS[kind] - 1, -1) if newest else range(0)


def _inspect_compiler(name: str | None) -> tuple[Program, CompilerKind] | None:
    """Return a compiler's path, version and kind.

    The kind comes from the version output: c++, or a compiler cache's g++, can be a link to
    anything.
    """
    path = shutil.which(name) if name else None
    if not path:
        return None
    try:
        text = shell.capture_output(
            Command((path, "--version"), shell.build_host_env(), f"ask {name} its version")
        )
    except (CommandFailedError, MissingToolError):
        return None
    version_match = re.search(r"\d+\.\d+(\.\d+)*", re.sub(r"\(.*?\)", "", text))
    names = f"{Path(path).resolve().name} {text.partition(chr(10))[0]}"
    kind: CompilerKind = "clang" if "clang" in names.lower() else "gcc"
    return Program(path, version_match[0] if version_match else ""), kind


def _build_compiler_error(
    asked: str | None, limits: CompilerLimits, refused: str
) -> MissingToolError:
    if asked:
        message = f"the compiler {asked} is not there"
        return MissingToolError(
            refused or message,
            location="build.env.CXX",
            hint="name another one, or take the line out: one that is taken is then looked for",
        )
    if not refused:
        return MissingToolError(
            "there is no C++ compiler here", hint=format_install_command("compiler")
        )
    if limits.gcc_max:
        return MissingToolError(
            refused,
            hint=f"{format_install_command('newest-gcc', gcc=str(limits.gcc_max))}  (it is "
            "then found by itself), or choose a newer toolkit.version",
        )
    return MissingToolError(refused, hint=f"install a g++ of {limits.gcc_min} or later")


_LIBRARY_PACKAGES = ("cudnn", "nccl", "cusparselt", "nvshmem")


def assemble_cuda_home(site_packages: PurePath, home: PurePath) -> Path:
    """Assemble `home` from the packages under `site_packages` and return CUDA_HOME."""
    toolkit = find_packages_root(site_packages)
    if sys.platform == "win32":
        return toolkit
    files.remove_owned(home)
    tree = files.create_owned_folder(home)
    _copy_programs(toolkit / "bin", tree / "bin")
    (tree / "nvvm").symlink_to(toolkit / "nvvm")
    (tree / "lib64").mkdir()
    (tree / "lib").symlink_to("lib64")
    _link_headers(toolkit, tree)
    link_new_libraries(site_packages, home)
    return tree


def find_packages_root(site_packages: PurePath) -> Path:
    """Return the folder nvidia/cuNN that holds nvcc."""
    for nvcc in sorted(Path(site_packages).glob("nvidia/cu*/bin/nvcc*"), reverse=True):
        if nvcc.stem == "nvcc" and nvcc.suffix in {"", ".exe"}:
            return nvcc.parent.parent
    raise MissingToolError(
        "the CUDA packages that were installed hold no nvcc",
        location=str(site_packages),
        hint="choose toolkit.version 13.0 or later: older packages lack it",
    )


def link_new_libraries(site_packages: PurePath, home: PurePath) -> None:
    """Link libraries that were installed later: torch brings cuBLAS and others for extensions."""
    if sys.platform == "win32" or not files.is_owned(home):
        return
    lib64 = Path(home) / "lib64"
    for library in _list_libraries(Path(site_packages)):
        _link_if_missing(lib64 / library.name, str(library))
        if ".so." in library.name:
            _link_if_missing(lib64 / f"{library.name.partition('.so.')[0]}.so", library.name)


def _list_libraries(site_packages: Path) -> Iterator[Path]:
    yield from sorted(find_packages_root(site_packages).glob("lib/lib*"))
    for name in _LIBRARY_PACKAGES:
        yield from sorted(site_packages.glob(f"nvidia/{name}/lib/lib*"))


def _link_if_missing(place: Path, to: str) -> None:
    if not place.is_symlink() and not place.exists():
        place.symlink_to(to)


def _copy_programs(source: Path, dest: Path) -> None:
    def link_or_copy(original: str, copy: str) -> None:
        try:
            os.link(original, copy)
        except OSError:
            shutil.copy2(original, copy)

    shutil.copytree(source, dest, copy_function=link_or_copy)


def _link_headers(toolkit: Path, tree: Path) -> None:
    """Link the headers, as one folder if all are in one folder.

    Headers of packages that are installed later then appear automatically. Otherwise link each
    header.
    """
    folders = [
        toolkit / "include",
        *(toolkit.parent / name / "include" for name in _LIBRARY_PACKAGES),
    ]
    present = [folder for folder in folders if folder.is_dir()]
    if len(present) == 1:
        (tree / "include").symlink_to(present[0])
        return
    (tree / "include").mkdir()
    for folder in present:
        for header in sorted(folder.iterdir()):
            _link_if_missing(tree / "include" / header.name, str(header))
