"""What adds a package to this machine, for remedies. Nothing is installed here."""

from __future__ import annotations

import platform
import sys

from tasks.knowledge import KNOWLEDGE_FOLDER, load_knowledge, packagemanagers


def list_system_names() -> tuple[str, ...]:
    """Return the names of this system, the most specific first: `ubuntu-24.04`, `ubuntu`, `debian`;
    () if they cannot be read.
    """
    known = {"win32": ("windows",), "darwin": ("macos",)}
    if sys.platform in known:
        return known[sys.platform]
    try:
        told = platform.freedesktop_os_release()
    except OSError:
        return ()
    release = f"{told['ID']}-{told['VERSION_ID']}" if "VERSION_ID" in told else ""
    return (*filter(None, [release]), told["ID"], *told.get("ID_LIKE", "").split())


def format_install_command(asked: str, **words: str) -> str:
    """`tasks.knowledge.packagemanagers.installing`, here."""
    return packagemanagers.format_install_hint(
        load_knowledge(KNOWLEDGE_FOLDER), list_system_names(), asked, **words
    )
