"""The C and C++ compilers of this machine, within what the CUDA toolkit accepts.

Which GCC a toolkit takes is a fact of config/knowledge; here is only which ones are installed. On
Windows the compiler is found in the environment or through vswhere.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

from tasks.effects import shell
from tasks.errors import CommandFailedError, MissingToolError
from tasks.model import Command
from tasks.stages.deps.job import Program


def find(
    asked_cc: str | None, asked_cxx: str | None, gcc_max: int | None
) -> tuple[Program, Program]:
    """C and C++ compiler. `gcc_max` is the newest GCC major that the toolkit accepts, None for no
    limit.

    Raises `MissingToolError` with the command that installs one.
    """
    if sys.platform == "win32":
        compiler = _msvc()
        return compiler, compiler
    pairs = [(asked_cc, asked_cxx)] if asked_cxx else [*_gcc_names(gcc_max), ("clang", "clang++")]
    for cc, cxx in pairs:
        found = (_program(cc or cxx), _program(cxx))
        if found[0] and found[1] and _accepted(found[1], gcc_max):
            return found[0], found[1]
    raise _no_compiler(asked_cxx, gcc_max)


def program(name: str) -> Program | None:
    """A program on PATH (or at a path) with the version it tells."""
    return _program(name)


def links_with(cxx: str, library: str, scratch: Path) -> bool:
    """Whether the linker finds a library by name ("openblas"); `scratch` is a folder of ours."""
    product = scratch / f"links-with-{library}"
    empty = "NUL" if sys.platform == "win32" else "/dev/null"
    argv = (cxx, "-shared", "-x", "c++", empty, f"-l{library}", "-o", str(product))
    try:
        shell.capture(Command(argv, shell.host_env(), f"look for {library}"))
    except (CommandFailedError, MissingToolError):
        return False
    product.unlink(missing_ok=True)
    return True


def _gcc_names(gcc_max: int | None) -> list[tuple[str | None, str | None]]:
    numbered = range(gcc_max, 8, -1) if gcc_max else ()
    return [("gcc", "g++"), ("cc", "c++"), *((f"gcc-{n}", f"g++-{n}") for n in numbered)]


def _program(name: str | None) -> Program | None:
    path = shutil.which(name) if name else None
    if not path:
        return None
    try:
        text = shell.capture(
            Command((path, "--version"), shell.host_env(), f"ask {name} its version")
        )
    except (CommandFailedError, MissingToolError):
        return None
    found = re.search(r"\d+\.\d+(\.\d+)*", re.sub(r"\(.*?\)", "", text))
    return Program(path, found[0] if found else "")


def _accepted(compiler: Program, gcc_max: int | None) -> bool:
    is_gcc = "clang" not in Path(compiler.path).resolve().name
    return not (is_gcc and gcc_max and int(compiler.version.split(".")[0] or 0) > gcc_max)


def _no_compiler(asked: str | None, gcc_max: int | None) -> MissingToolError:
    if asked:
        return MissingToolError(
            f"the compiler {asked} (build.env CXX) is not there or not accepted by the toolkit"
        )
    here = _program("g++")
    if here and gcc_max:
        return MissingToolError(
            f"g++ here is {here.version}, and this CUDA toolkit takes GCC up to {gcc_max}",
            todo=f"apt install g++-{gcc_max}  (it is then found by itself), "
            "or choose a newer toolkit.version",
        )
    return MissingToolError("there is no C++ compiler here", todo="apt install build-essential")


def _msvc() -> Program:
    """cl.exe of the environment, else of the newest Visual Studio with the C++ tools."""
    if found := shutil.which("cl"):
        return Program(found, os.environ.get("VCTOOLSVERSION", ""))
    folder = Path(os.environ.get("PROGRAMFILES(X86)", r"C:\Program Files (x86)"))
    vswhere = folder / "Microsoft Visual Studio" / "Installer" / "vswhere.exe"
    requires = "Microsoft.VisualStudio.Component.VC.Tools.x86.x64"
    pattern = r"VC\Tools\MSVC\**\bin\Hostx64\x64\cl.exe"
    argv = (str(vswhere), "-latest", "-products", "*", "-requires", requires, "-find", pattern)
    try:
        lines = shell.capture(
            Command(argv, shell.host_env(), "look for Visual Studio")
        ).splitlines()
    except (CommandFailedError, MissingToolError):
        lines = []
    if not lines:
        raise MissingToolError(
            "there is no C++ compiler here",
            todo="winget install Microsoft.VisualStudio.2022.BuildTools --override "
            f'"--passive --add Microsoft.VisualStudio.Workload.VCTools --add {requires}"',
        )
    version = re.search(r"MSVC[\\/]([\d.]+)", lines[-1])
    return Program(lines[-1].strip(), version[1] if version else "")
