"""What a new wheel changes in an installation of the one before it, read from their RECORDs; and
whether that is all that an installer would change.

An installer also makes scripts, spreads the parts of `.data`, and settles dependencies: where any
of these may come out in another way there is no difference to be told, and the installer has to do
its work.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from email.parser import BytesParser
from pathlib import PurePosixPath

from tasks.wheels.files import recordfile
from tasks.wheels.files.distribution import InstalledWheel
from tasks.wheels.files.recordfile import RecordRow

# What uv and pip themselves leave in dist-info
INSTALLER_FILES = ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_cache.json")
# What decides which scripts and dependencies there are, and where files go
_COMPARED_FIELDS = {
    "METADATA": ("Name", "Requires-Dist", "Requires-Python", "Provides-Extra"),
    "WHEEL": ("Wheel-Version", "Root-Is-Purelib", "Tag"),
}


@dataclass(frozen=True)
class WheelDifference:
    """Paths are those of RECORD, below site-packages.

    `info` is the name of the new dist-info, whose files of the wheel are in `described`; `written`
    and `vanished` are files outside it. `rows` are those of the new wheel, `kept` the installer's
    own outside dist-info: scripts and bytecode.
    """

    info: str
    described: tuple[str, ...]
    written: tuple[str, ...]
    vanished: tuple[str, ...]
    rows: Mapping[str, RecordRow]
    kept: tuple[RecordRow, ...]


def compare_wheels(
    here: InstalledWheel, old: zipfile.ZipFile, new: zipfile.ZipFile
) -> WheelDifference | None:
    """`here` is an installation of the wheel `old`; both wheels were verified. None where only an
    installer knows what to do.
    """
    before, after = _read_record_rows(old), _read_record_rows(new)
    info, was = _find_dist_info_name(after), _find_dist_info_name(before)
    listed = {path: row for path, row in before.items() if path != f"{was}/RECORD"}
    if not _has_same_metadata(old, was, new, info) or not listed.items() <= here.rows.items():
        return None
    own = [row for path, row in here.rows.items() if path not in listed]
    if (
        _has_data_folder(before)
        or _has_data_folder(after)
        or not all(_is_installer_row(row, was) for row in own)
    ):
        return None
    changed = [path for path, row in after.items() if before.get(path) != row]
    return WheelDifference(
        info=info,
        described=tuple(p for p in after if _is_within(p, info) and p != f"{info}/RECORD"),
        written=tuple(p for p in changed if not _is_within(p, info)),
        vanished=tuple(p for p in before if p not in after and not _is_within(p, was)),
        rows=after,
        kept=tuple(row for row in own if not _is_within(row.path, was)),
    )


def find_bytecode_source(bytecode: str) -> str:
    """`a/__pycache__/b.cpython-313.pyc` is of `a/b.py`."""
    path = PurePosixPath(bytecode)
    return str(path.parent.parent / f"{path.name.partition('.')[0]}.py")


def is_bytecode(path: str) -> bool:
    """Whether an installer compiled it."""
    return path.endswith(".pyc") and PurePosixPath(path).parent.name == "__pycache__"


def _read_record_rows(archive: zipfile.ZipFile) -> dict[str, RecordRow]:
    name = next(n for n in archive.namelist() if n.endswith(".dist-info/RECORD"))
    listed = recordfile.parse_record(archive.read(name).decode("utf-8"))
    held = set(archive.namelist())
    return {row.path: row for row in listed if row.path in held}


def _find_dist_info_name(rows: Mapping[str, RecordRow]) -> str:
    return next(p for p in rows if p.endswith(".dist-info/RECORD")).rpartition("/")[0]


def _is_within(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def _has_data_folder(rows: Mapping[str, RecordRow]) -> bool:
    return any(path.partition("/")[0].endswith(".data") for path in rows)


def _is_installer_row(row: RecordRow, info: str) -> bool:
    """A row that only the installer has: what it leaves in dist-info, bytecode, scripts."""
    if _is_within(row.path, info):
        return row.path.removeprefix(f"{info}/") in INSTALLER_FILES
    return is_bytecode(row.path) or row.path.startswith("../")


def _has_same_metadata(old: zipfile.ZipFile, was: str, new: zipfile.ZipFile, info: str) -> bool:
    pairs = [
        (_read_member(old, f"{was}/{name}"), _read_member(new, f"{info}/{name}"), fields)
        for name, fields in _COMPARED_FIELDS.items()
    ]
    scripts = "entry_points.txt"
    return _read_member(old, f"{was}/{scripts}") == _read_member(new, f"{info}/{scripts}") and all(
        _read_header_fields(one, fields) == _read_header_fields(other, fields)
        for one, other, fields in pairs
    )


def _read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        return archive.read(name)
    except KeyError:
        return b""


def _read_header_fields(text: bytes, names: tuple[str, ...]) -> list[list[str]]:
    message = BytesParser().parsebytes(text, headersonly=True)
    return [sorted(map(str, message.get_all(name, []))) for name in names]
