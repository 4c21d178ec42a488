"""What the path of an output tells: its kind, its name, and the folder that its source is in.
Pure.
"""

from __future__ import annotations

import re
from typing import Literal

OutputKind = Literal["C and C++", "CUDA", "linked", "other"]
OUTPUT_KINDS: tuple[OutputKind, ...] = ("C and C++", "CUDA", "linked", "other")

_CUDA_OUTPUT = re.compile(r"\.(cu|hip)\.(o|obj)$|\.cubin$|\.fatbin$")
_OBJECT_OUTPUT = re.compile(r"\.(o|obj)$")
_LINKED_OUTPUT = re.compile(r"\.(a|lib|so(\.\d+)*|dll|dylib|pyd|exe)$")
_CMAKE_FOLDER = re.compile(r"(^|/)CMakeFiles/[^/]+\.dir(?=/)")
_FOLDER_DEPTH = 3  # folders of a path that are told apart


def classify_output(output: str) -> OutputKind:
    """By its suffix: `a.cu.o` is CUDA, `a.cpp.o` C and C++, `libc10.so` linked."""
    if _CUDA_OUTPUT.search(output):
        return "CUDA"
    if _OBJECT_OUTPUT.search(output):
        return "C and C++"
    return "linked" if _LINKED_OUTPUT.search(output) else "other"


def find_source_folder(output: str) -> str:
    """The folder of the source as CMake names it, without its own: of
    `caffe2/CMakeFiles/torch_cpu.dir/__/aten/src/ATen/native/Copy.cpp.o` it is `aten/src/ATen`.
    """
    path = _CMAKE_FOLDER.sub(r"\1", output.replace("\\", "/"))
    parts: list[str] = []
    for part in path.split("/")[:-1]:
        if part in {"__", ".."}:
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return "/".join(parts[:_FOLDER_DEPTH]) or "."


def extract_output_name(output: str) -> str:
    """The last part of its path."""
    return output.replace("\\", "/").rsplit("/", 1)[-1]
