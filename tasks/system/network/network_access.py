"""Retry network actions, print a line for each retry, and switch to offline mode."""

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tasks.system import files
from tasks.system.output import print_line

RETRY_PAUSES = (2.0, 8.0)  # seconds before the second and the third attempt

_T = TypeVar("_T")


def retry_action(
    subject: str,
    action: Callable[[], _T],
    find_reason: Callable[[Exception], str],
    pauses: tuple[float, ...] | None = None,
) -> _T:
    """Run an action. Run it again after failures for which `find_reason` returns a reason.

    Before each retry, wait for the next of `pauses` (in seconds, randomly up to 50 % longer).
    After the last retry, raise its exception.
    """
    pauses = RETRY_PAUSES if pauses is None else pauses
    for number, pause in enumerate(pauses, 2):
        try:
            return action()
        except Exception as error:
            if not (reason := find_reason(error)):
                raise
        seconds = pause * (1 + random.random() / 2)  # noqa: S311 - no secret
        attempt = f"{number} of {len(pauses) + 1}"
        print_line(f"{subject}: {reason}; trying again in {seconds:.0f} s ({attempt})")
        time.sleep(seconds)
    return action()


_OFFLINE_FLAG = "_TORCHYARD_OFFLINE"
# Variables in which the user may have set other indexes
_USER_INDEX_VARIABLES = (
    *("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX_URL"),
    *("UV_EXTRA_INDEX_URL", "UV_TORCH_BACKEND", "UV_NO_CONFIG"),
)


def start_offline_mode(wheels: Path) -> None:
    """Restrict uv and pip to the folder `wheels`, and git to local repositories, from now on."""
    for name in _USER_INDEX_VARIABLES:
        os.environ.pop(name, None)
    where = wheels.absolute().as_uri()
    # uv has no variable for no-index, and offline uv would take other versions from its cache
    config = wheels.with_name(f"{wheels.name}-uv.toml").absolute()
    files.write_atomic(config, "no-index = true\n")
    os.environ |= {_OFFLINE_FLAG: str(wheels), "GIT_ALLOW_PROTOCOL": "file"}
    os.environ |= {"UV_OFFLINE": "1", "UV_FIND_LINKS": where, "UV_CONFIG_FILE": str(config)}
    os.environ |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": where, "PIP_CONFIG_FILE": os.devnull}


def is_offline() -> bool:
    """Return True if offline mode was started."""
    return _OFFLINE_FLAG in os.environ
