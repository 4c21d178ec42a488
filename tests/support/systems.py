"""Which system a test is for, and whether Windows is Wine here."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="not run: POSIX only")
windows_only = pytest.mark.skipif(sys.platform != "win32", reason="not run: Windows only")
needs_git = pytest.mark.skipif(not shutil.which("git"), reason="not run: there is no git")
needs_pip = pytest.mark.skipif(not find_spec("pip"), reason="not run: this Python has no pip")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="not run: Linux only")


def is_wine() -> bool:
    """Wine's ntdll tells that it is one."""
    if sys.platform == "win32":
        import ctypes  # noqa: PLC0415 - of Windows

        return hasattr(ctypes.WinDLL("ntdll"), "wine_get_version")
    return False


def not_wine(lacks: str) -> pytest.MarkDecorator:
    """For what Windows has and Wine does not."""
    return pytest.mark.skipif(is_wine(), reason=f"not run: Wine {lacks}")


def _links() -> bool:
    """Windows lets not everyone make links, and Wine says that it made one."""
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder) / "link"
        try:
            os.symlink(folder, link, target_is_directory=True)  # noqa: PTH211 - as a person may
        except OSError:
            return False
        return link.is_symlink()


needs_links = pytest.mark.skipif(not _links(), reason="not run: no links can be made here")
