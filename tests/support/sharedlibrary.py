"""Shared libraries of a line or two, made by the compiler of this machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

linux = pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("cc"), reason="needs a C compiler that makes ELF"
)


def make_library(path: Path, *needs: Path, rpath: str = "", inherited: bool = False) -> Path:
    """Compile `path`, which calls into each of `needs`; `rpath` becomes its RUNPATH, or its RPATH
    where it is `inherited`.
    """
    names = [_function(need) for need in needs]
    calls = " + ".join(["1", *(f"{name}()" for name in names)])
    source = "".join(f"int {name}(void);\n" for name in names)
    path.parent.mkdir(parents=True, exist_ok=True)
    code = path.with_suffix(".c")
    code.write_text(f"{source}int {_function(path)}(void) {{ return {calls}; }}\n")
    tags = "--disable-new-dtags" if inherited else "--enable-new-dtags"
    argv = ["cc", "-shared", "-fPIC", "-o", str(path), str(code), f"-Wl,-soname,{path.name}"]
    argv += ["-Wl,--no-as-needed"]  # compilers differ in what they leave out by themselves
    argv += [f"-Wl,{tags},-rpath,{rpath}"] if rpath else []
    subprocess.run([*argv, *map(str, needs)], check=True)
    code.unlink()
    return path


def compile_library(path: Path, source: str, *options: str, compiler: str = "cc") -> Path:
    """A library of this C source, or C++ with `compiler` c++."""
    path.parent.mkdir(parents=True, exist_ok=True)
    code = path.with_suffix(".cpp" if compiler == "c++" else ".c")
    code.write_text(source, encoding="utf-8")
    argv = [compiler, "-shared", "-fPIC", "-o", str(path), str(code), *options]
    subprocess.run(argv, check=True)
    code.unlink()
    return path


def _function(library: Path) -> str:
    return library.name.partition(".")[0].replace("-", "_")
