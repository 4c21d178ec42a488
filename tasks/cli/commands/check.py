"""`doit check`: lint, types and tests of torchyard itself, and its site where that can be built."""

from __future__ import annotations

import importlib.util
import sys

from tasks.core.errors import BuildError, MissingToolError
from tasks.core.model import Command
from tasks.lock.profile import Subject
from tasks.system import shell
from tasks.system.voice import show

_CHECKS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
    ("pytest", "-q", "tests/unit"),
)
_SITE = ("mkdocs", "build", "--strict", "--quiet")
_QUIET = {"NO_MKDOCS_2_WARNING": "1"}  # what its theme says of other programs, in each run


def run(subject: Subject) -> None:
    """Run each in turn and stop at the first that fails."""
    missing = [check[0] for check in _CHECKS if importlib.util.find_spec(check[0]) is None]
    if missing:
        raise MissingToolError(
            f"{', '.join(missing)} not installed here", todo="pip install -e '.[test]'"
        )
    site = all(importlib.util.find_spec(name) for name in ("mkdocs", "material"))
    for check in (*_CHECKS, *((_SITE,) if site else ())):
        show(" ".join(check))
        env = {**shell.host_env(), **_QUIET}
        command = Command((sys.executable, "-m", *check), env, check[0], cwd=subject.root)
        try:
            shell.run(command, show)
        except BuildError as error:
            raise BuildError(error.what, todo="the lines above say where") from error
    if not site:
        show("not run: the site (pip install -e '.[docs]')")
