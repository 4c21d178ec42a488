"""Open the profile and yield its tasks to doit.

README.md explains the use; `doit list` shows the tasks.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from doit import get_var
from doit.exceptions import InvalidDodoFile

from tasks.cli.startup import finish_loading, prepare_process

prepare_process()

from tasks.cli.session import open_session
from tasks.core.errors import TorchyardError
from tasks.system.find_project import open_checkout
from tasks.system.invocation import read_default_profile
from tasks.system.screen import format_for_stderr

_PROJECT = open_checkout(Path(__file__).resolve().parent)
_PROFILE = get_var("profile", read_default_profile())

try:
    _SETUP = open_session(_PROJECT, _PROFILE, os.environ, sys.argv[1:])
except TorchyardError as error:
    raise InvalidDodoFile(format_for_stderr(str(error), len("ERROR: "))) from None
except ModuleNotFoundError as error:  # after an update of the checkout
    message = f"the Python package {error.name} is not installed\n  → run: pip install -e ."
    raise InvalidDodoFile(message) from None

finish_loading()

DOIT_CONFIG = _SETUP.doit_config


def task_torchyard() -> Iterator[dict[str, Any]]:
    """Yield every task."""
    yield from _SETUP.tasks()
