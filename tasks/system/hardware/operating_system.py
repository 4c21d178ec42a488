"""Return this system's names, user, home folders and commands to install packages."""

import getpass
import os
import platform
import sys
from contextlib import suppress
from pathlib import Path

from tasks.knowledge import package_managers
from tasks.knowledge.knowledge_files_io import KNOWLEDGE_FOLDER, load_knowledge


def list_system_names() -> tuple[str, ...]:
    """Return the system's names, the most specific first: `ubuntu-24.04`, `ubuntu`, `debian`."""
    fixed_names = {"win32": ("windows",), "darwin": ("macos",)}
    if sys.platform in fixed_names:
        return fixed_names[sys.platform]
    try:
        os_release = platform.freedesktop_os_release()
    except OSError:
        return ()
    release = f"{os_release['ID']}-{os_release['VERSION_ID']}" if "VERSION_ID" in os_release else ""
    return (*filter(None, [release]), os_release["ID"], *os_release.get("ID_LIKE", "").split())


def format_install_command(package: str, **words: str) -> str:
    """Return the command or advice to install `package` here, with `words` filled in."""
    knowledge = load_knowledge(KNOWLEDGE_FOLDER)
    return package_managers.format_install_hint(knowledge, list_system_names(), package, **words)


def list_home_folders() -> tuple[str, ...]:
    """Return the home folder's paths: as in the environment, and with symbolic links resolved."""
    paths = [os.environ.get(name, "") for name in ("HOME", "USERPROFILE")]
    with suppress(RuntimeError):  # neither a variable nor an account names it
        paths.append(str(Path.home()))
    real = [os.path.realpath(path) for path in paths if path]
    return tuple(dict.fromkeys(filter(None, (*paths, *real))))


def list_user_names() -> tuple[str, ...]:
    """Return the names of the current user, including the user who ran sudo."""
    names = [os.environ.get(name, "") for name in ("SUDO_USER", "USER", "USERNAME", "LOGNAME")]
    with suppress(OSError, KeyError, ImportError):  # a user id without a name, in a container
        names.append(getpass.getuser())
    return tuple(dict.fromkeys(filter(None, names)))


def list_host_names() -> tuple[str, ...]:
    """Return the host name with and without the domain."""
    name = platform.node()
    return tuple(dict.fromkeys(filter(None, (name, name.split(".")[0]))))
