"""A distribution as it lies installed, and whether it is still what was installed.

Known from names, sizes and times alone: no file is read but RECORD. A file that was written since
RECORD was is one that somebody changed.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tasks.system import files
from tasks.wheels.files import recordfile
from tasks.wheels.files.recordfile import RecordRow


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
    rows = recordfile.parse_record((info / "RECORD").read_text(encoding="utf-8"))
    return all((site / row.path).exists() for row in rows if row.size)


def find_unmodified_wheel(site: Path, name: str, digest: str) -> InstalledWheel | None:
    """The distribution, where its RECORD has that digest and its files are those that it lists;
    else None.
    """
    info = _find_dist_info(site, name)
    if info is None or not digest or hash_installed_record(site, name) != digest:
        return None
    text = (info / "RECORD").read_bytes().decode("utf-8")
    found = {row.path: row for row in recordfile.parse_record(text)}
    ending = "\r\n" if "\r\n" in text else "\n"
    if recordfile.format_record(found.values(), ending) != text:
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
