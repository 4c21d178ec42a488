"""What the path of an output tells: its kind, its name, and the folder that its source is in.
Pure.
"""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal["C and C++", "CUDA", "linked", "other"]
KINDS: tuple[Kind, ...] = ("C and C++", "CUDA", "linked", "other")

_CUDA = re.compile(r"\.(cu|hip)\.(o|obj)$|\.cubin$|\.fatbin$")
_COMPILED = re.compile(r"\.(o|obj)$")
_LINKED = re.compile(r"\.(a|lib|so(\.\d+)*|dll|dylib|pyd|exe)$")
_CMAKES = re.compile(r"(^|/)CMakeFiles/[^/]+\.dir(?=/)")
_DEEP = 3  # folders of a path that are told apart


def kind(output: str) -> Kind:
    """By its suffix: `a.cu.o` is CUDA, `a.cpp.o` C and C++, `libc10.so` linked."""
    if _CUDA.search(output):
        return "CUDA"
    if _COMPILED.search(output):
        return "C and C++"
    return "linked" if _LINKED.search(output) else "other"


def folder(output: str) -> str:
    """The folder of the source as CMake names it, without its own: of
    `caffe2/CMakeFiles/torch_cpu.dir/__/aten/src/ATen/native/Copy.cpp.o` it is `aten/src/ATen`.
    """
    path = _CMAKES.sub(r"\1", output.replace("\\", "/"))
    parts: list[str] = []
    for part in path.split("/")[:-1]:
        if part in {"__", ".."}:
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return "/".join(parts[:_DEEP]) or "."


def name(output: str) -> str:
    """The last part of its path."""
    return output.replace("\\", "/").rsplit("/", 1)[-1]
