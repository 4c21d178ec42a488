"""Files that are put into the dist-info of a wheel while it is written, and RECORD, which lists
them.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping, Sequence

from tasks.wheels.files import recordfile, wheelfile
from tasks.wheels.files.recordfile import RecordRow

SIGNATURE_FILES = ("RECORD.jws", "RECORD.p7s")  # of another RECORD


def list_replaced_members(archive: zipfile.ZipFile, added: Mapping[str, bytes]) -> frozenset[str]:
    """The members of a wheel that `close` writes anew, or leaves out; `added` are named within
    dist-info.
    """
    if not added:
        return frozenset()
    listing = wheelfile.find_dist_info_file(archive, "RECORD")
    info = listing.removesuffix("RECORD")
    return frozenset({listing, *(f"{info}{name}" for name in (*added, *SIGNATURE_FILES))})


def write_dist_info(
    out: zipfile.ZipFile,
    archive: zipfile.ZipFile,
    added: Mapping[str, bytes],
    changed: Sequence[RecordRow] = (),
) -> Mapping[str, str]:
    """Write `added`, and RECORD as that of `archive` with their rows, as the last members of `out`;
    they have RECORD's time and mode. `changed` are rows of members that `out` has in other bytes.
    Returns path → sha256 of everything in it.
    """
    listing = wheelfile.find_dist_info_file(archive, "RECORD")
    info, like = listing.removesuffix("RECORD"), archive.getinfo(listing)
    gone = {*list_replaced_members(archive, added), *(row.path for row in changed)}
    new = [*changed]
    new += [write_member(out, like, f"{info}{name}", added[name]) for name in sorted(added)]
    listed = recordfile.parse_record(archive.read(listing).decode("utf-8"))
    rows = [*(row for row in listed if row.path not in gone), *new, RecordRow(listing)]
    write_member(out, like, listing, recordfile.format_record(rows, "\n").encode())
    return {row.path: row.digest for row in rows}


def write_member(
    out: zipfile.ZipFile, like: zipfile.ZipInfo, name: str, content: bytes
) -> RecordRow:
    """Write a member with the time and the mode of another; its row for RECORD."""
    info = zipfile.ZipInfo(name, like.date_time)
    info.external_attr, info.create_system = like.external_attr, like.create_system
    info.compress_type = zipfile.ZIP_DEFLATED
    out.writestr(info, content)
    return RecordRow(
        name, recordfile.encode_digest(hashlib.sha256(content).digest()), str(len(content))
    )
