"""What the settings mean on this host: strategy, targets, torch and toolkit, each with the reason
said aloud. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tasks.model import Arch, Interpreter, Strategy, System


@dataclass(frozen=True)
class ToolkitChoice:
    """Which CUDA toolkit compiles: `none` for a CPU build. `home` is known for `system` and
    `path`.
    """

    provider: Literal["none", "system", "pypi", "path"]
    version: str = ""
    home: str = ""
    why: str = ""


@dataclass(frozen=True)
class Choice:
    """The decisions that every stage's plan starts from.

    `torch` is the release without local part; `cuda` its CUDA as "13.2", None for a CPU torch.
    `index` is the package index of a prebuilt torch, empty for the default one.
    """

    system: System
    strategy: Strategy
    strategy_why: str
    targets: tuple[Arch, ...]
    targets_why: str
    ptx: bool
    torch: str
    cuda: str | None
    toolkit: ToolkitChoice
    python: Interpreter
    index: str = ""
