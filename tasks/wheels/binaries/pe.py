"""What a DLL of Windows, or an extension module, names as needed: its import tables.

Format: https://learn.microsoft.com/windows/win32/debug/pe-format, read by pefile, which delvewheel
brings.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.core.errors import BadArtifactError

_DOS_MAGIC = b"MZ"
_IMPORT_TABLES = ("IMPORT", "DELAY_IMPORT")  # needed to load it, and needed when it is first called


def is_pefile_installed() -> bool:
    """Whether pefile is installed here."""
    return importlib.util.find_spec("pefile") is not None


def read_needed_dlls(path: Path) -> tuple[str, ...] | None:
    """The DLLs that it needs, in small letters, as Windows compares them; None where it is no PE
    file. Raises `BadArtifactError` where it begins as one and cannot be read.
    """
    with path.open("rb") as stream:
        if stream.read(len(_DOS_MAGIC)) != _DOS_MAGIC:
            return None
    import pefile  # noqa: PLC0415 - may be missing, and takes its time to load

    kinds = [pefile.DIRECTORY_ENTRY[f"IMAGE_DIRECTORY_ENTRY_{name}"] for name in _IMPORT_TABLES]
    try:
        with pefile.PE(str(path), fast_load=True) as image:
            image.parse_data_directories(directories=kinds)
            return tuple(dict.fromkeys(_iterate_dll_names(image)))
    except pefile.PEFormatError as error:
        raise BadArtifactError(
            f"this library cannot be read: {error}",
            location=str(path),
            hint="see how it came there",
        ) from error


def _iterate_dll_names(image: Any) -> Iterator[str]:
    for table in _IMPORT_TABLES:
        for entry in getattr(image, f"DIRECTORY_ENTRY_{table}", ()):
            yield entry.dll.decode("ascii", "replace").lower()
