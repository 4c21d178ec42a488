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
from tasks.wheels.files.distribution import Installed
from tasks.wheels.files.recordfile import Row

# What uv and pip themselves leave in dist-info
OWN = ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_cache.json")
# What decides which scripts and dependencies there are, and where files go
_SAME = {
    "METADATA": ("Name", "Requires-Dist", "Requires-Python", "Provides-Extra"),
    "WHEEL": ("Wheel-Version", "Root-Is-Purelib", "Tag"),
}


@dataclass(frozen=True)
class Difference:
    """Paths are those of RECORD, below site-packages.

    `info` is the name of the new dist-info, whose files of the wheel are in `described`; `written`
    and `vanished` are files outside it. `rows` are those of the new wheel, `kept` the installer's
    own outside dist-info: scripts and bytecode.
    """

    info: str
    described: tuple[str, ...]
    written: tuple[str, ...]
    vanished: tuple[str, ...]
    rows: Mapping[str, Row]
    kept: tuple[Row, ...]


def between(here: Installed, old: zipfile.ZipFile, new: zipfile.ZipFile) -> Difference | None:
    """`here` is an installation of the wheel `old`; both wheels were verified. None where only an
    installer knows what to do.
    """
    before, after = _rows(old), _rows(new)
    info, was = _info(after), _info(before)
    listed = {path: row for path, row in before.items() if path != f"{was}/RECORD"}
    if not _alike(old, was, new, info) or not listed.items() <= here.rows.items():
        return None
    own = [row for path, row in here.rows.items() if path not in listed]
    if _spread(before) or _spread(after) or not all(_known(row, was) for row in own):
        return None
    changed = [path for path, row in after.items() if before.get(path) != row]
    return Difference(
        info=info,
        described=tuple(p for p in after if _within(p, info) and p != f"{info}/RECORD"),
        written=tuple(p for p in changed if not _within(p, info)),
        vanished=tuple(p for p in before if p not in after and not _within(p, was)),
        rows=after,
        kept=tuple(row for row in own if not _within(row.path, was)),
    )


def source_of(bytecode: str) -> str:
    """`a/__pycache__/b.cpython-313.pyc` is of `a/b.py`."""
    path = PurePosixPath(bytecode)
    return str(path.parent.parent / f"{path.name.partition('.')[0]}.py")


def is_bytecode(path: str) -> bool:
    """Whether an installer compiled it."""
    return path.endswith(".pyc") and PurePosixPath(path).parent.name == "__pycache__"


def _rows(archive: zipfile.ZipFile) -> dict[str, Row]:
    name = next(n for n in archive.namelist() if n.endswith(".dist-info/RECORD"))
    listed = recordfile.rows(archive.read(name).decode("utf-8"))
    held = set(archive.namelist())
    return {row.path: row for row in listed if row.path in held}


def _info(rows: Mapping[str, Row]) -> str:
    return next(p for p in rows if p.endswith(".dist-info/RECORD")).rpartition("/")[0]


def _within(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def _spread(rows: Mapping[str, Row]) -> bool:
    return any(path.partition("/")[0].endswith(".data") for path in rows)


def _known(row: Row, info: str) -> bool:
    """A row that only the installer has: what it leaves in dist-info, bytecode, scripts."""
    if _within(row.path, info):
        return row.path.removeprefix(f"{info}/") in OWN
    return is_bytecode(row.path) or row.path.startswith("../")


def _alike(old: zipfile.ZipFile, was: str, new: zipfile.ZipFile, info: str) -> bool:
    pairs = [
        (_read(old, f"{was}/{name}"), _read(new, f"{info}/{name}"), fields)
        for name, fields in _SAME.items()
    ]
    scripts = "entry_points.txt"
    return _read(old, f"{was}/{scripts}") == _read(new, f"{info}/{scripts}") and all(
        _fields(one, fields) == _fields(other, fields) for one, other, fields in pairs
    )


def _read(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        return archive.read(name)
    except KeyError:
        return b""


def _fields(text: bytes, names: tuple[str, ...]) -> list[list[str]]:
    message = BytesParser().parsebytes(text, headersonly=True)
    return [sorted(map(str, message.get_all(name, []))) for name in names]
