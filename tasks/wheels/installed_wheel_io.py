"""A distribution as it lies installed, and whether it is still what was installed.

Known from names, sizes and times alone: no file is read but RECORD. A file that was written since
RECORD was is one that somebody changed.
"""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from email.parser import BytesParser
from pathlib import Path, PurePosixPath

from tasks.system import files
from tasks.wheels import wheel_record
from tasks.wheels.wheel_record import RecordRow


@dataclass(frozen=True)
class InstalledWheel:
    """`rows` of its RECORD by path; `ending` of its lines; `info` is its dist-info folder in
    `site`.
    """

    site: Path
    info: Path
    rows: Mapping[str, RecordRow]
    ending: str


def hash_installed_record(site: Path, name: str) -> str:
    """sha256 of the RECORD of an installed distribution, "" where there is none, or not one."""
    info = _find_dist_info(site, name)
    record = info / "RECORD" if info else None
    return files.read_artifact(record).sha256 if record and record.is_file() else ""


def has_all_files(site: Path, name: str) -> bool:
    """Whether every file that RECORD lists is there; bytecode may be missing, and a file that a
    person edited is one.
    """
    info = _find_dist_info(site, name)
    if info is None or not (info / "RECORD").is_file():
        return False
    rows = wheel_record.parse_record((info / "RECORD").read_text(encoding="utf-8"))
    return all((site / row.path).exists() for row in rows if row.size)


def find_unmodified_wheel(site: Path, name: str, digest: str) -> InstalledWheel | None:
    """The distribution, where its RECORD has that digest and its files are those that it lists;
    else None.
    """
    info = _find_dist_info(site, name)
    if info is None or not digest or hash_installed_record(site, name) != digest:
        return None
    text = (info / "RECORD").read_bytes().decode("utf-8")
    found = {row.path: row for row in wheel_record.parse_record(text)}
    ending = "\r\n" if "\r\n" in text else "\n"
    if wheel_record.format_record(found.values(), ending) != text:
        return None  # of an installer that writes it in another way
    newest = (info / "RECORD").stat().st_mtime_ns
    if not all(_is_unchanged(site, row, newest) for row in found.values()):
        return None
    return InstalledWheel(site, info, found, ending)


def _find_dist_info(site: Path, name: str) -> Path | None:
    """None where another installation of it, or a way to one, lies beside it."""
    infos = list(site.glob(f"{name}-*.dist-info"))
    others = [*site.glob(f"{name}*.egg-*"), *site.glob(f"__editable__.{name}-*")]
    return infos[0] if len(infos) == 1 and not others else None


def _is_unchanged(site: Path, row: RecordRow, newest: int) -> bool:
    if not row.size:
        return True  # RECORD itself, and bytecode, which Python makes again
    try:
        found = (site / row.path).lstat()
    except OSError:
        return False
    regular = stat.S_ISREG(found.st_mode)
    return regular and str(found.st_size) == row.size and found.st_mtime_ns <= newest


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
    listed = wheel_record.parse_record(archive.read(name).decode("utf-8"))
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
