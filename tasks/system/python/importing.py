"""Modules imported once, in a process of their own: the first thing a person would do with them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tasks.core.errors import CommandFailedError
from tasks.core.model import Command
from tasks.system import shell

IMPORT_TIMEOUT = 600.0  # seconds: far more than a cold disk needs, so that a hang ends
_EXCEPTION_LINE = re.compile(r"[\w.]*(?:Error|Exception|Interrupt|Exit)\b")  # how a traceback ends
# `ImportError: libcuda.so.1: cannot open shared object file: No such file or directory`
_MISSING_DRIVER = re.compile(
    r"\blib(?:cuda|nvidia-[\w-]+|nvcuvid|nvoptix|cudadebugger)\.so\S*: cannot open shared"
    r"|NVIDIA driver|active drivers|No CUDA GPUs are available"
    r"|Unknown compute capability"  # tiny-cuda-nn
)


@dataclass(frozen=True)
class ImportResult:
    """What an import printed, and how it ended: `problem` is "" where it went well, and `error` has
    the log. `lacks_driver`: it needs the driver of a card, which this machine need not have.
    """

    lines: tuple[str, ...]
    problem: str = ""
    error: CommandFailedError | None = None

    @property
    def needs_driver(self) -> bool:
        """Whether a machine with a card might import it."""
        return bool(_MISSING_DRIVER.search(self.problem))


def try_import(python: str, code: str, command: Command) -> ImportResult:
    """Run `code` as `command` says but for its argv; its `cwd` should hold no modules, -c takes
    those first.
    """
    argv = (python, "-X", "faulthandler", "-c", code)
    lines: list[str] = []
    try:
        shell.run_command(replace(command, argv=argv, timeout=IMPORT_TIMEOUT), lines.append)
    except CommandFailedError as error:
        return ImportResult(tuple(lines), find_raised_exception(lines) or error.message, error)
    return ImportResult(tuple(lines))


def find_raised_exception(lines: Sequence[str]) -> str:
    """The exception that ended it; those before it in a traceback led to it."""
    return next((line for line in reversed(lines) if _EXCEPTION_LINE.match(line)), "")
