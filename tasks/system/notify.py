"""A person's own program, told how a build went."""

from __future__ import annotations

import os

from tasks.core.model import Command
from tasks.system import shell

_NOTIFY_TIMEOUT = 10.0  # seconds


def run_notification(
    command: tuple[str, ...], outcome: str, profile: str, seconds: float, message: str
) -> None:
    """Run it, with all of the person's environment: it is no part of the build, and a desktop is
    found by variables. Raises `BuildError` where it fails, is not there, or takes too long.
    """
    told = {
        "TORCHYARD_OUTCOME": outcome,
        "TORCHYARD_PROFILE": profile,
        "TORCHYARD_SECONDS": str(round(seconds)),
        "TORCHYARD_MESSAGE": message,
    }
    env = {**os.environ, **told}
    shell.run_command(Command(command, env, f"run {command[0]}", timeout=_NOTIFY_TIMEOUT))
