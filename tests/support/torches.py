"""An installed torch of two libraries and a header, compiled in no time."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tasks.core.deps_model import DepsManifest, Program
from tasks.core.model import InstalledTorch
from tasks.stages.wheel.model import AbiReadOptions
from tasks.wheels import wheel_record
from tests.support.sharedlibrary import compile_library

_TOOL = Program("/t", "1")
_TOOLS = (_TOOL, _TOOL, _TOOL, _TOOL)
DEPS = DepsManifest(
    "/venv/bin/python", "3.12.1", "env-1", None, "/venv/bin", None, None, *_TOOLS, None
)
C10 = "int c10_answer(void) { return 42; }\n"
CPU = "int torch_add(int a, int b) { return a + b; }\n"
CPP_EXTENSION = "cflags = ['-std=c++20']\nif windows:\n    cflags = ['/std:c++20']\n"


class Torch:
    """A torch in `folder`, with RECORD unless it came otherwise."""

    def __init__(self, folder: Path, *, record: bool = True) -> None:
        self.folder, self.record = folder / "site" / "torch", record
        self.reading = AbiReadOptions(17, folder / "wheel-symbols.json", folder / "surfaces")
        self.found = InstalledTorch("2.15.0+cu132", "13.2", str(self.folder))
        self.deps = DEPS
        self.write("include/c10/a.h", "int c10_answer(void);\n")
        self.write("share/cmake/Torch/TorchConfig.cmake", "set(TORCH_FOUND TRUE)\n")
        self.write("utils/cpp_extension.py", CPP_EXTENSION)
        self.compile("c10", C10)
        self.compile("torch_cpu", CPU)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        self.listed()

    def compile(self, name: str, source: str) -> Path:
        path = compile_library(self.folder / "lib" / f"lib{name}.so", source)
        self.listed()
        return path

    def listed(self) -> None:
        """RECORD as an installer leaves it."""
        if not self.record:
            return
        info = self.folder.parent / "torch-2.15.0.dist-info"
        info.mkdir(exist_ok=True)
        every = [path for path in self.folder.rglob("*") if path.is_file()]
        rows = [
            wheel_record.RecordRow(
                path.relative_to(self.folder.parent).as_posix(),
                wheel_record.encode_digest(hashlib.sha256(path.read_bytes()).digest()),
                str(path.stat().st_size),
            )
            for path in every
        ]
        (info / "RECORD").write_text(wheel_record.format_record(rows, "\n"), encoding="utf-8")
