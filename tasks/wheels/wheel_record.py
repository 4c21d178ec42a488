"""RECORD, the list of files of a wheel or an installed distribution, as rows and as text.

Format: https://packaging.python.org/specifications/recording-installed-packages/#the-record-file
"""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class RecordRow(NamedTuple):
    """A file: its path below site-packages, its digest (`sha256=…`) and its size in bytes; the last
    two are "" for RECORD itself and for bytecode.
    """

    path: str
    digest: str = ""
    size: str = ""


def parse_record(text: str) -> Iterator[RecordRow]:
    """The rows of a RECORD; lines of another form are passed over."""
    for row in csv.reader(io.StringIO(text, newline="")):
        if len(row) == 3:
            yield RecordRow(*row)


def format_record(listed: Iterable[RecordRow], ending: str) -> str:
    """RECORD as uv (`ending` LF) and pip (CR LF) write it: sorted."""
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator=ending).writerows(sorted(listed))
    return stream.getvalue()


def encode_digest(digest: bytes) -> str:
    """A sha256 as RECORD writes it."""
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def convert_to_hex(digest: str) -> str:
    """A digest of RECORD as sha256sum writes it, "" where it is none of sha256."""
    kind, _, text = digest.partition("=")
    if kind != "sha256":
        return ""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).hex()
