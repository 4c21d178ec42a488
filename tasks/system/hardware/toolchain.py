"""Who a tool really is: its path without links, and what it says of its version.

A compiler that was upgraded in place has the same path and other words; one that is called by
another name (`cc`, `gcc-13`) has the same path in the end.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

from tasks.core.errors import CommandFailedError, MissingToolError
from tasks.core.model import Command
from tasks.system import files, shell

_VERSION_NUMBER = re.compile(r"\d\.\d")
_IDENTIFIED_TOOLS = ("toolchain.cc", "toolchain.cxx", "toolchain.nvcc", "toolchain.cudahost")


def resolve_tool_identity(name: str, value: str) -> str:
    """The identity of `toolchain.cxx` and the like from its path; a version, and an interpreter,
    whose links lead to another environment, are themselves.
    """
    if name == "toolchain.tree":
        return os.path.realpath(value)
    if name not in _IDENTIFIED_TOOLS:
        return value
    real = os.path.realpath(value)
    # by the name that it was called: a compiler cache in front passes the question on
    return f"{_read_version_lines(value)} ({real})"


def hash_program(program: str) -> str:
    """The beginning of the sha256 of its file; "" where there is none."""
    return files.read_artifact(Path(program)).sha256[:16] if Path(program).is_file() else ""


def stamp_program(program: str) -> str:
    """Size and time of its file, links followed; "gone" where there is none."""
    try:
        found = Path(program).stat()
    except OSError:
        return "gone"
    return f"{found.st_size}:{found.st_mtime_ns}"


def build_nvcc_path(home: str) -> str:
    """The compiler of a CUDA toolkit."""
    return str(Path(home) / "bin" / ("nvcc.exe" if os.name == "nt" else "nvcc"))


@cache
def _read_version_lines(program: str) -> str:
    """What it says with a number and a dot in it: GCC's first line, nvcc's release and build; ""
    where it cannot be asked (cl.exe knows no --version).
    """
    command = Command((program, "--version"), shell.build_host_env(), f"ask {program} its version")
    try:
        lines = shell.capture_output(command).splitlines()
    except (CommandFailedError, MissingToolError):
        return ""
    told = " ".join(line.strip() for line in lines if _VERSION_NUMBER.search(line))
    return told.removeprefix(f"{Path(program).name} ")  # GCC begins with what it was called
