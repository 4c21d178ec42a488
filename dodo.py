"""Open the profile and yield its tasks to doit.

README.md explains the use; `doit list` shows the tasks.
"""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from doit import get_var
from doit.exceptions import InvalidDodoFile

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Until the reporter handles SIGINT there is nothing to clean up, and a traceback does not help
    signal.signal(signal.SIGINT, signal.SIG_DFL)

if gc.isenabled():
    gc.disable()  # objects created at load live until exit: a collection would free nothing

# Otherwise pydantic reads the metadata of every installed package for plugins, and loads them
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

from tasks.cli.session import open_session
from tasks.core.errors import TorchyardError
from tasks.system.find_project import open_checkout
from tasks.system.invocation import read_default_profile
from tasks.system.screen import format_for_stderr

_ROOT = Path(__file__).resolve().parent
_PROFILE = get_var("profile", read_default_profile())

try:
    _SETUP = open_session(open_checkout(_ROOT), _PROFILE, os.environ, sys.argv[1:])
except TorchyardError as error:
    raise InvalidDodoFile(format_for_stderr(str(error), len("ERROR: "))) from None

gc.enable()

DOIT_CONFIG = _SETUP.doit_config


def task_torchyard() -> Iterator[dict[str, Any]]:
    """Yield every task."""
    yield from _SETUP.tasks()
