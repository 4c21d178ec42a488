"""`doit check`: lint, type-check and test torchyard, and build its site if mkdocs is installed."""

import importlib.util
import sys

from tasks.core.errors import MissingToolError, TorchyardError
from tasks.core.model import Command
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.system import shell
from tasks.system.output import print_report

_CHECKS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
    ("pytest", "-q", "tests/unit"),
)
_SITE_BUILD = ("mkdocs", "build", "--strict", "--quiet")
_QUIET_ENV = {"NO_MKDOCS_2_WARNING": "1"}  # silence the theme's notice about MkDocs 2


def run(subject: SelectedProfile) -> None:
    """Run the checks in order and stop at the first failure."""
    missing = [check[0] for check in _CHECKS if importlib.util.find_spec(check[0]) is None]
    if missing:
        hint = "install it: pip install -e '.[test]'"
        raise MissingToolError(f"{', '.join(missing)}: not installed", hint=hint)
    site = all(importlib.util.find_spec(name) for name in ("mkdocs", "material"))
    for check in (*_CHECKS, *((_SITE_BUILD,) if site else ())):
        print_report(" ".join(check))
        env = {**shell.build_host_env(), **_QUIET_ENV}
        command = Command((sys.executable, "-m", *check), env, check[0], cwd=subject.root)
        try:
            shell.run_command(command, print_report)
        except TorchyardError as error:
            raise TorchyardError(error.message, hint="fix the errors in the lines above") from error
    if not site:
        print_report("the site was not built: to install mkdocs, run pip install -e '.[docs]'")
