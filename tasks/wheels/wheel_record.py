"""Parse and format RECORD, the list of files in a wheel or an installed distribution."""

import base64
import csv
import io
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class RecordRow(NamedTuple):
    """A file in RECORD with its digest (`sha256=…`) and its size, both "" if not recorded."""

    path: str
    digest: str = ""
    size: str = ""


def parse_record(text: str) -> Iterator[RecordRow]:
    """Yield the rows of RECORD; skip malformed lines."""
    for row in csv.reader(io.StringIO(text, newline="")):
        if len(row) == 3:
            yield RecordRow(*row)


def format_record(listed: Iterable[RecordRow], ending: str) -> str:
    """Return the text of RECORD with sorted rows. `ending` is the line ending: LF or CR LF."""
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator=ending).writerows(sorted(listed))
    return stream.getvalue()


def encode_digest(digest: bytes) -> str:
    """Return a sha256 digest in the notation of RECORD (`sha256=…`)."""
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def convert_to_hex(digest: str) -> str:
    """Return a RECORD digest in hexadecimal, or "" if the digest is not a sha256."""
    kind, _, text = digest.partition("=")
    if kind != "sha256":
        return ""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).hex()
