"""What the system's loader knows of libraries that no path of a library's own leads to: ld.so(8).

It does not know whether a file fits or who needs it; that is `tasks.wheels.linking.linkage`.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Mapping

from tasks.core.errors import CommandFailedError
from tasks.core.model import Command
from tasks.system import shell

# `	libgomp.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libgomp.so.1`, in every language
_LDCONFIG_ENTRY = re.compile(r"^\s+(\S+) \(.*\) => (/.*)$", re.MULTILINE)
_LDCONFIG_TIMEOUT = 60.0


def read_loader_cache(env: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
    """Library → the files that the loader's cache names for it, best first.

    Empty where the system keeps no cache (musl, Nix); then its folders have to do.
    """
    # not everybody has the folders of the administrator's programs on PATH
    places = os.pathsep.join([env.get("PATH", ""), "/usr/sbin", "/sbin"])
    program = shutil.which("ldconfig", path=places)
    if program is None:
        return {}
    command = Command(
        (program, "-p"), env, "list the system's libraries", timeout=_LDCONFIG_TIMEOUT
    )
    try:
        return parse_ldconfig_listing(shell.capture_output(command))
    except CommandFailedError:
        return {}


def parse_ldconfig_listing(listing: str) -> Mapping[str, tuple[str, ...]]:
    """What `ldconfig -p` lists; a library is there once for each machine it is made for."""
    found: dict[str, tuple[str, ...]] = {}
    for name, place in _LDCONFIG_ENTRY.findall(listing):
        found[name] = (*found.get(name, ()), place)
    return found


def list_loader_folders() -> tuple[str, ...]:
    """Where the loader looks last, whatever the cache says; Debian has a folder for each
    machine.
    """
    debian = f"{platform.machine()}-linux-gnu"
    return (f"/lib/{debian}", f"/usr/lib/{debian}", "/lib64", "/usr/lib64", "/lib", "/usr/lib")
