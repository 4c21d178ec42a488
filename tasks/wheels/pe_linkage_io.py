"""What a DLL of Windows, or an extension module, names as needed: its import tables.

Format: https://learn.microsoft.com/windows/win32/debug/pe-format, read by pefile, which delvewheel
brings.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tasks.core.errors import BadArtifactError
from tasks.wheels.library_linkage import SystemDlls

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


def classify_dlls(names: Iterable[str]) -> SystemDlls | None:
    """Whose these are, on x86-64; None without delvewheel, or where its lists have another form."""
    wanted = frozenset(names)
    try:
        lists: Any = importlib.import_module("delvewheel._dll_list")
        ignored = lists.ignore_regexes
        windows = frozenset(lists.ignore_names_x64)
        begun = frozenset(n for n in wanted if any(one.fullmatch(n) for one in ignored))
        runtime = frozenset(n for n in wanted if lists.vc_redist.fullmatch(n))
    except (ImportError, AttributeError, TypeError):
        return None
    python = frozenset(n for n in begun if n.startswith(("python", "libpypy")))
    # CPython for Windows lies beside these two
    python |= wanted & {"python3.dll", "vcruntime140.dll", "vcruntime140_1.dll"}
    return SystemDlls((wanted & windows) | (begun - python), python, runtime - python)
