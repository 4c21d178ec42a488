"""Who is at this machine, and what it is called: only so that a report can leave it out."""

from __future__ import annotations

import getpass
import os
import platform
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def list_home_folders() -> tuple[str, ...]:
    """The home folder, as it is called and where it really is."""
    found = [os.environ.get(name, "") for name in ("HOME", "USERPROFILE")]
    with suppress(RuntimeError):  # neither a variable nor an account tells it
        found.append(str(Path.home()))
    real = [os.path.realpath(path) for path in found if path]
    return tuple(dict.fromkeys(filter(None, (*found, *real))))


def list_user_names() -> tuple[str, ...]:
    """The names that this person goes by here; the one before sudo, too."""
    return tuple(dict.fromkeys(filter(None, _iterate_user_names())))


def _iterate_user_names() -> Iterator[str]:
    yield from (os.environ.get(name, "") for name in ("SUDO_USER", "USER", "USERNAME", "LOGNAME"))
    with suppress(OSError, KeyError, ImportError):  # a number without a name, in a container
        yield getpass.getuser()


def list_host_names() -> tuple[str, ...]:
    """The machine's name, and the first part of it."""
    name = platform.node()
    return tuple(dict.fromkeys(filter(None, (name, name.split(".")[0]))))
