"""Which system a test is for, and whether Windows is Wine here."""

from __future__ import annotations

import sys

import pytest

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="not run: POSIX only")
windows_only = pytest.mark.skipif(sys.platform != "win32", reason="not run: Windows only")
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
