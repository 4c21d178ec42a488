"""Inspect an installed distribution without reading the contents of its files."""

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from email.parser import BytesParser
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

from tasks.system import files
from tasks.wheels import wheel_record
from tasks.wheels.wheel_record import RecordRow


@dataclass(frozen=True)
class InstalledWheel:
    """An installed distribution. `rows` are RECORD's rows by path; `ending` is its line ending."""

    site: Path
    info: Path
    rows: Mapping[str, RecordRow]
    ending: str


def hash_installed_record(site: Path, name: str) -> str:
    """Return the sha256 of RECORD, "" if the package is missing, editable or installed twice."""
    record = _find_record(site, name)
    return files.read_artifact(record).sha256 if record else ""


def has_all_files(site: Path, name: str) -> bool:
    """Return True if all files in RECORD except bytecode exist; contents are not compared."""
    if not (record := _find_record(site, name)):
        return False
    rows = wheel_record.parse_record(record.read_text(encoding="utf-8"))
    return all((site / row.path).exists() for row in rows if row.size)


def find_unmodified_wheel(site: Path, name: str, digest: str) -> InstalledWheel | None:
    """Return the distribution; `None` if it is modified or `digest` is not the sha256 of RECORD."""
    record = _find_record(site, name)
    if not record or not digest or files.read_artifact(record).sha256 != digest:
        return None
    text = record.read_bytes().decode("utf-8")
    rows = {row.path: row for row in wheel_record.parse_record(text)}
    newline = "\r\n" if "\r\n" in text else "\n"
    if wheel_record.format_record(rows.values(), newline) != text:
        return None  # an installer with another format wrote RECORD
    newest = record.stat().st_mtime_ns
    for row in rows.values():
        if not row.size:
            continue  # RECORD, and bytecode, which Python regenerates
        try:
            status = (site / row.path).lstat()
        except OSError:
            return None
        # a file that is newer than RECORD counts as modified
        same_size = stat.S_ISREG(status.st_mode) and str(status.st_size) == row.size
        if not same_size or status.st_mtime_ns > newest:
            return None
    return InstalledWheel(site, record.parent, rows, newline)


def _find_record(site: Path, name: str) -> Path | None:
    """Return a package's RECORD, None if the package is missing, editable or installed twice."""
    infos = list(site.glob(f"{name}-*.dist-info"))
    others = [*site.glob(f"{name}*.egg-*"), *site.glob(f"__editable__.{name}-*")]
    record = infos[0] / "RECORD" if len(infos) == 1 and not others else None
    return record if record and record.is_file() else None


# The files that uv and pip add to dist-info
INSTALLER_FILES = ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_cache.json")
# The fields that determine scripts, dependencies and file locations
_COMPARED_FIELDS = {
    "METADATA": ("Name", "Requires-Dist", "Requires-Python", "Provides-Extra"),
    "WHEEL": ("Wheel-Version", "Root-Is-Purelib", "Tag"),
}


@dataclass(frozen=True)
class WheelDifference:
    """The difference between an installed wheel and a new wheel, with paths as in RECORD.

    `info` is the new dist-info, and `described` are its files except RECORD. Of the other files,
    `written` are new or changed, and `vanished` are gone. `rows` are those of the new RECORD.
    `kept` are the rows of scripts and bytecode that the installer made.
    """

    info: str
    described: tuple[str, ...]
    written: tuple[str, ...]
    vanished: tuple[str, ...]
    rows: Mapping[str, RecordRow]
    kept: tuple[RecordRow, ...]


def compare_wheels(here: InstalledWheel, old: ZipFile, new: ZipFile) -> WheelDifference | None:
    """Compare the installed wheel `old` to `new`; return `None` if only pip or uv can update it."""
    (old_info, before), (info, after) = _read_record_rows(old), _read_record_rows(new)
    old_rows = {path: row for path, row in before.items() if path != f"{old_info}/RECORD"}
    same_metadata = _read_compared_metadata(old, old_info) == _read_compared_metadata(new, info)
    if not same_metadata or not old_rows.items() <= here.rows.items():
        return None
    installer_rows = [row for path, row in here.rows.items() if path not in old_rows]
    kept = tuple(row for row in installer_rows if not _is_within(row.path, old_info))
    installer_paths = {f"{old_info}/{name}" for name in INSTALLER_FILES}
    unknown = {row.path for row in installer_rows} - installer_paths
    has_data = any(path.partition("/")[0].endswith(".data") for path in (*before, *after))
    if has_data or not all(is_bytecode(path) or path.startswith("../") for path in unknown):
        return None
    changed = [path for path, row in after.items() if before.get(path) != row]
    return WheelDifference(
        info=info,
        described=tuple(p for p in after if _is_within(p, info) and p != f"{info}/RECORD"),
        written=tuple(p for p in changed if not _is_within(p, info)),
        vanished=tuple(p for p in before if p not in after and not _is_within(p, old_info)),
        rows=after,
        kept=kept,
    )


def find_bytecode_source(bytecode: str) -> str:
    """Return the source path of a bytecode file: `a/b.py` for `a/__pycache__/b.cpython-313.pyc`."""
    path = PurePosixPath(bytecode)
    return str(path.parent.parent / f"{path.name.partition('.')[0]}.py")


def is_bytecode(path: str) -> bool:
    """Return True if the path is a bytecode file in a `__pycache__` directory."""
    return path.endswith(".pyc") and PurePosixPath(path).parent.name == "__pycache__"


def _read_record_rows(archive: ZipFile) -> tuple[str, dict[str, RecordRow]]:
    """Return the path of dist-info, and the RECORD rows (by path) of files in the archive."""
    record = next(n for n in archive.namelist() if n.endswith(".dist-info/RECORD"))
    rows = wheel_record.parse_record(archive.read(record).decode("utf-8"))
    members = set(archive.namelist())
    return record.rpartition("/")[0], {row.path: row for row in rows if row.path in members}


def _is_within(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def _read_compared_metadata(archive: ZipFile, info: str) -> list[object]:
    """Return entry_points.txt and the metadata fields that an update in place must not change."""
    names, members = (*_COMPARED_FIELDS, "entry_points.txt"), set(archive.namelist())
    texts = {n: archive.read(f"{info}/{n}") if f"{info}/{n}" in members else b"" for n in names}
    compared: list[object] = [texts["entry_points.txt"]]
    for name, fields in _COMPARED_FIELDS.items():
        message = BytesParser().parsebytes(texts[name], headersonly=True)
        compared += [sorted(map(str, message.get_all(field, []))) for field in fields]
    return compared
