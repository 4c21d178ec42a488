"""Inspect an installed distribution, and check that it is unmodified.

Only names, sizes and modification times of the files are compared; their contents are not read. A
file that is newer than RECORD counts as modified.
"""

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
    """An installed distribution.

    `site` is the site-packages directory, and `info` the dist-info directory in `site`. `rows` are
    the rows of RECORD by path, and `ending` is the line ending of RECORD.
    """

    site: Path
    info: Path
    rows: Mapping[str, RecordRow]
    ending: str


def hash_installed_record(site: Path, name: str) -> str:
    """Return the sha256 of RECORD of the installed package `name`, "" if there is no single one."""
    info = _find_dist_info(site, name)
    record = info / "RECORD" if info else None
    return files.read_artifact(record).sha256 if record and record.is_file() else ""


def has_all_files(site: Path, name: str) -> bool:
    """Return True if every file in RECORD except bytecode exists; its content may differ."""
    info = _find_dist_info(site, name)
    if info is None or not (info / "RECORD").is_file():
        return False
    rows = wheel_record.parse_record((info / "RECORD").read_text(encoding="utf-8"))
    return all((site / row.path).exists() for row in rows if row.size)


def find_unmodified_wheel(site: Path, name: str, digest: str) -> InstalledWheel | None:
    """Return the distribution, None if modified or if the sha256 of RECORD is not `digest`."""
    info = _find_dist_info(site, name)
    if info is None or not digest or hash_installed_record(site, name) != digest:
        return None
    text = (info / "RECORD").read_bytes().decode("utf-8")
    rows = {row.path: row for row in wheel_record.parse_record(text)}
    newline = "\r\n" if "\r\n" in text else "\n"
    if wheel_record.format_record(rows.values(), newline) != text:
        return None  # an installer with another format wrote RECORD
    newest = (info / "RECORD").stat().st_mtime_ns
    if not all(_is_unchanged(site, row, newest) for row in rows.values()):
        return None
    return InstalledWheel(site, info, rows, newline)


def _find_dist_info(site: Path, name: str) -> Path | None:
    """Return the dist-info directory, None for several or an editable installation, or none."""
    infos = list(site.glob(f"{name}-*.dist-info"))
    others = [*site.glob(f"{name}*.egg-*"), *site.glob(f"__editable__.{name}-*")]
    return infos[0] if len(infos) == 1 and not others else None


def _is_unchanged(site: Path, row: RecordRow, newest: int) -> bool:
    if not row.size:
        return True  # RECORD, and bytecode, which Python regenerates
    try:
        status = (site / row.path).lstat()
    except OSError:
        return False
    regular = stat.S_ISREG(status.st_mode)
    return regular and str(status.st_size) == row.size and status.st_mtime_ns <= newest


# The files that uv and pip add to dist-info
INSTALLER_FILES = ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_cache.json")
# The fields that determine scripts, dependencies and file locations
_COMPARED_FIELDS = {
    "METADATA": ("Name", "Requires-Dist", "Requires-Python", "Provides-Extra"),
    "WHEEL": ("Wheel-Version", "Root-Is-Purelib", "Tag"),
}


@dataclass(frozen=True)
class WheelDifference:
    """The difference between an installed wheel and a new wheel; paths are as in RECORD.

    `info` is the name of the new dist-info directory, and `described` are the new wheel's files in
    it. `written` and `vanished` are the changed and the removed files outside dist-info. `rows` are
    the RECORD rows of the new wheel. `kept` are the rows of installed scripts and bytecode.
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
    """Return the difference from the installed `old` to `new`, None if an installer is needed."""
    (old_info, before), (info, after) = _read_record_rows(old), _read_record_rows(new)
    old_rows = {path: row for path, row in before.items() if path != f"{old_info}/RECORD"}
    if _read_compared_metadata(old, old_info) != _read_compared_metadata(new, info):
        return None
    if not old_rows.items() <= here.rows.items():
        return None
    installer_rows = [row for path, row in here.rows.items() if path not in old_rows]
    has_data = any(path.partition("/")[0].endswith(".data") for path in (*before, *after))
    if has_data or not all(_is_installer_row(row, old_info) for row in installer_rows):
        return None
    changed = [path for path, row in after.items() if before.get(path) != row]
    return WheelDifference(
        info=info,
        described=tuple(p for p in after if _is_within(p, info) and p != f"{info}/RECORD"),
        written=tuple(p for p in changed if not _is_within(p, info)),
        vanished=tuple(p for p in before if p not in after and not _is_within(p, old_info)),
        rows=after,
        kept=tuple(row for row in installer_rows if not _is_within(row.path, old_info)),
    )


def find_bytecode_source(bytecode: str) -> str:
    """Return the source of a bytecode file: `a/b.py` for `a/__pycache__/b.cpython-313.pyc`."""
    path = PurePosixPath(bytecode)
    return str(path.parent.parent / f"{path.name.partition('.')[0]}.py")


def is_bytecode(path: str) -> bool:
    """Return True if the path is a bytecode file in a `__pycache__` directory."""
    return path.endswith(".pyc") and PurePosixPath(path).parent.name == "__pycache__"


def _read_record_rows(archive: zipfile.ZipFile) -> tuple[str, dict[str, RecordRow]]:
    """Return the name of dist-info, and the rows of RECORD by path; skip missing members."""
    record = next(n for n in archive.namelist() if n.endswith(".dist-info/RECORD"))
    rows = wheel_record.parse_record(archive.read(record).decode("utf-8"))
    members = set(archive.namelist())
    return record.rpartition("/")[0], {row.path: row for row in rows if row.path in members}


def _is_within(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def _is_installer_row(row: RecordRow, info: str) -> bool:
    """Return True for a file that an installer adds: some dist-info files, bytecode, scripts."""
    if _is_within(row.path, info):
        return row.path.removeprefix(f"{info}/") in INSTALLER_FILES
    return is_bytecode(row.path) or row.path.startswith("../")


def _read_compared_metadata(archive: zipfile.ZipFile, info: str) -> list[object]:
    """Return entry_points.txt and the metadata fields that an update in place must not change."""
    names = (*_COMPARED_FIELDS, "entry_points.txt")
    members = set(archive.namelist())
    texts = {n: archive.read(f"{info}/{n}") if f"{info}/{n}" in members else b"" for n in names}
    compared: list[object] = [texts["entry_points.txt"]]
    for name, fields in _COMPARED_FIELDS.items():
        message = BytesParser().parsebytes(texts[name], headersonly=True)
        compared += [sorted(map(str, message.get_all(field, []))) for field in fields]
    return compared
