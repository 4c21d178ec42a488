"""`doit check`: lint, types and tests of torchyard itself."""

from __future__ import annotations

import importlib.util
import sys

from tasks.effects import shell
from tasks.effects.voice import show
from tasks.errors import BuildError, MissingToolError
from tasks.model import Command
from tasks.reports.subject import Subject

_CHECKS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
    ("pytest", "-q", "tests/unit"),
)


def run(subject: Subject) -> None:
    """Run each in turn and stop at the first that fails."""
    missing = [check[0] for check in _CHECKS if importlib.util.find_spec(check[0]) is None]
    if missing:
        raise MissingToolError(
            f"{', '.join(missing)} not installed here", todo="pip install -e '.[test]'"
        )
    for check in _CHECKS:
        show(" ".join(check))
        command = Command(
            (sys.executable, "-m", *check), shell.host_env(), check[0], cwd=subject.root
        )
        try:
            shell.run(command, show)
        except BuildError as error:
            raise BuildError(error.what, todo="the lines above say where") from error
