"""Read a package index, and single members of the wheels there, without downloading the wheels.

The pages are those of the Simple Repository API, in JSON (PEP 691) or in HTML (PEP 503), or lists
of links as for the option --find-links of uv and pip.
"""

import base64
import contextlib
import csv
import fnmatch
import hashlib
import html.parser
import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO
from urllib.parse import parse_qs, quote, unquote, urldefrag, urljoin, urlsplit
from urllib.request import url2pathname

from tasks.core.errors import FetchError
from tasks.core.package_files import IndexFile, PackageIndex
from tasks.system.network.download import split_login
from tasks.system.network.range_requests import HttpReader, HttpStatusError, RangeFile

_ACCEPTED_PAGES = "application/vnd.pypi.simple.v1+json, text/html;q=0.1"
_DISTRIBUTION_SUFFIXES = (".whl", ".tar.gz", ".zip")
_URL_CHARACTERS = "%/:=&?~#+!$,;'@()*[]"  # that are not quoted in links, as in pip
_MEMBER_HEADER_BYTES = 1024  # more than the header of a member usually has
_GAP_BYTES = 64 * 2**10  # members that are closer than this are loaded in one request
_PREFETCH_BYTES = 8 * 2**20
_STREAM_BLOCK_BYTES = 4 * 2**20
_RECORD_DIGESTS = frozenset({"sha256", "sha384", "sha512"})  # those that RECORD may have
_DAMAGE_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, struct.error, csv.Error),
    # zipfile raises these for unknown compression methods, short data and impossible values
    *(RuntimeError, EOFError, ValueError, IndexError, OSError),
)
_INDEX_HINT = "check the index settings (torch.index, UV_INDEX_URL, PIP_INDEX_URL)"
_DAMAGE_HINT = "if the error remains, a proxy or mirror changes the file: use the original index"


def open_package_index(
    place: str, *, timeout: float = 5.0, deadline: float | None = None
) -> PackageIndex:
    """Return the package index at `place`, which is not read yet.

    `place` is the URL of a simple index or of a page of links (`….html`), or a folder (a path or a
    file: URL) that is a simple index or contains wheels. `timeout` is the longest wait for data in
    seconds, `deadline` a value of time.monotonic(). Raises `FetchError` for another scheme.
    """
    is_url = "://" in place or place.startswith("file:")
    url = place if is_url else Path(place).absolute().as_uri()
    if urlsplit(url).scheme not in {"http", "https", "file"}:
        hint = "write a folder, or a URL that begins with https:, http: or file:"
        message = f"torchyard cannot read the package index {_strip_secrets(place)}"
        raise FetchError(message, hint=hint)
    return SimpleIndex(url, timeout, deadline)


class SimpleIndex:
    """A package index, or a list of links, on a web server or in a folder (a `PackageIndex`)."""

    def __init__(self, place: str, timeout: float, deadline: float | None) -> None:
        self.url = _strip_secrets(place)
        self._place, self._login = split_login(place)
        self._is_local = _is_local(place)
        self._reader = HttpReader(f"the package index {self.url}", timeout, deadline)

    @property
    def bytes_read(self) -> int:
        """Return the number of bytes that were received from web servers."""
        return self._reader.bytes_read

    @property
    def requests(self) -> int:
        """Return the number of HTTP requests."""
        return self._reader.requests

    def list_files(self, project: str) -> tuple[IndexFile, ...]:
        """Return the files of a project; () if the index has no such project."""
        name = _normalize_name(project)
        listed = self._list_local_files(name) if self._is_local else self._list_web_files(name)
        schemes = {"http", "https", "file"} if self._is_local else {"http", "https"}
        found: dict[str, IndexFile] = {}
        for file in listed:
            if _get_project(file.name) == name and urlsplit(file.url).scheme in schemes:
                found.setdefault(file.name, file)
        return tuple(found.values())

    def _list_web_files(self, name: str) -> tuple[IndexFile, ...]:
        parts = urlsplit(self._place)
        is_page = parts.path.endswith((".html", ".htm"))
        path = parts.path if is_page else f"{parts.path.rstrip('/')}/{name}/"
        url = self._add_login(parts._replace(path=path).geturl())
        try:
            page = self._reader.read_page(url, _ACCEPTED_PAGES)
        except HttpStatusError as error:
            # download.pytorch.org answers 403 for a project that it does not have
            is_pytorch = (parts.hostname or "").endswith("pytorch.org")
            if error.status in {404, 410} or (error.status == 403 and is_pytorch):
                return ()
            raise
        return self._parse_page(page.text, page.url, is_json="json" in page.content_type.lower())

    def _list_local_files(self, name: str) -> tuple[IndexFile, ...]:
        place = _get_path(self._place)
        pages, paths = [place], []
        try:
            if place.is_dir():
                candidates = (place / name / "index.html", place / "index.html")
                pages = [page for page in candidates if page.is_file()]
                paths = [path for path in sorted(place.iterdir()) if path.is_file()]
            texts = {page.as_uri(): page.read_text("utf-8", "replace") for page in pages}
            sizes = {path: path.stat().st_size for path in paths}
        except OSError as error:
            message = f"the package index {self.url} cannot be read: {error.strerror}"
            raise FetchError(message, hint=_INDEX_HINT) from error
        linked = [file for url, text in texts.items() for file in self._parse_page(text, url)]
        present = (IndexFile(path.name, path.as_uri(), size=size) for path, size in sizes.items())
        return (*linked, *present)

    def _parse_page(self, text: str, url: str, *, is_json: bool = False) -> tuple[IndexFile, ...]:
        try:
            return tuple(_parse_json_page(text, url) if is_json else _parse_html_page(text, url))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            message = f"the page {_strip_secrets(url)} of the package index {self.url} has an "
            message += f"unknown format: {error!r}"
            raise FetchError(message, hint=_INDEX_HINT) from error

    def read_members(self, file: IndexFile, names: Sequence[str]) -> Mapping[str, bytes]:
        """Return path → content of the members that match one of the fnmatch patterns `names`."""
        with _report_damage(file), self._open_wheel(file) as wheel:
            found = [
                info
                for path, info in wheel.members.items()
                if any(fnmatch.fnmatchcase(path, pattern) for pattern in names)
            ]
            if not found:
                return {}
            wheel.prefetch([*found, *wheel.record])
            content = {info.filename: wheel.archive.read(info) for info in found}
            for path, check in wheel.read_digests().items():
                if path in content:
                    check.update(content[path])
                    check.require_match(file, path)
            return dict(sorted(content.items(), key=lambda item: item[0].count("/")))

    @contextlib.contextmanager
    def open_member(self, file: IndexFile, name: str) -> Iterator[BinaryIO]:
        """Open a member for one sequential read. Its end checks the content."""
        with contextlib.ExitStack() as stack:
            with _report_damage(file):
                wheel = stack.enter_context(self._open_wheel(file))
                if not (info := wheel.members.get(name)):
                    message = f"{file.name} does not contain {name}"
                    raise FetchError(message, hint="choose another version of the package")
                check = wheel.read_digests().get(name, _DigestCheck(""))
                wheel.prepare_stream(info)
                member = stack.enter_context(wheel.archive.open(info))
            checked = _CheckedMember(file, info, member, check)
            yield stack.enter_context(io.BufferedReader(checked))

    @contextlib.contextmanager
    def _open_wheel(self, file: IndexFile) -> Iterator["_Wheel"]:
        with contextlib.ExitStack() as stack:
            source: RangeFile | IO[bytes]
            if _is_local(file.url):
                source = stack.enter_context(_get_path(file.url).open("rb"))
            else:
                source = self._reader.open_file(self._add_login(file.url), file.sha256)
            ranges = source if isinstance(source, RangeFile) else None
            stream = io.BufferedReader(source) if isinstance(source, RangeFile) else source
            yield _Wheel(stack.enter_context(zipfile.ZipFile(stream)), ranges)

    def _add_login(self, url: str) -> str:
        """Return `url` with the index's login if it is on the same server and has no login."""
        parts, own = urlsplit(url), urlsplit(self._place)
        if not self._login or (parts.scheme, parts.netloc) != (own.scheme, own.netloc):
            return url
        return parts._replace(netloc=f"{self._login}@{parts.netloc}").geturl()


class _Wheel:
    """An open wheel; `ranges` is its file if that is read with range requests."""

    def __init__(self, archive: zipfile.ZipFile, ranges: RangeFile | None = None) -> None:
        self.archive = archive
        self.members = {info.filename: info for info in archive.infolist() if not info.is_dir()}
        own = (path for path in self.members if re.fullmatch(r"[^/]+\.dist-info/RECORD", path))
        self.record = [self.members[path] for path in own][:1]
        self._ranges = ranges

    def prefetch(self, infos: Iterable[zipfile.ZipInfo]) -> None:
        """Load members, each group of close ones with one request."""
        groups: list[list[int]] = []  # start and stop
        for start, stop in sorted(map(_get_span, infos)):
            if groups and start - groups[-1][1] <= _GAP_BYTES:
                groups[-1][1] = max(groups[-1][1], stop)
            else:
                groups.append([start, stop])
        for start, stop in groups:
            if self._ranges:
                self._ranges.prefetch(start, min(stop, start + _PREFETCH_BYTES))

    def prepare_stream(self, info: zipfile.ZipInfo) -> None:
        """Use blocks of a size that fits the sequential read of a member."""
        if self._ranges:
            start, stop = _get_span(info)
            self._ranges.read_ahead = min(_STREAM_BLOCK_BYTES, stop - start)

    def read_digests(self) -> dict[str, "_DigestCheck"]:
        """Return path → check from RECORD; {} if the wheel has none."""
        self.prefetch(self.record)
        text = "".join(self.archive.read(info).decode() for info in self.record)
        rows = csv.reader(io.StringIO(text, newline=""))
        return {row[0]: _DigestCheck(row[1]) for row in rows if len(row) == 3}


def _get_span(info: zipfile.ZipInfo) -> tuple[int, int]:
    """Return start and stop of the bytes that hold a member with its header."""
    return info.header_offset, info.header_offset + _MEMBER_HEADER_BYTES + info.compress_size


class _DigestCheck:
    """The comparison of a member with its digest in RECORD ("sha256=…", "" for no comparison)."""

    def __init__(self, recorded: str) -> None:
        kind, _, self._expected = recorded.partition("=")
        self._hash = hashlib.new(kind) if kind in _RECORD_DIGESTS else None

    def update(self, content: bytes) -> None:
        """Add content of the member."""
        if self._hash:
            self._hash.update(content)

    def require_match(self, file: IndexFile, path: str) -> None:
        """Raise `FetchError` if the content has another digest."""
        if not self._hash:
            return
        found = base64.urlsafe_b64encode(self._hash.digest()).decode().rstrip("=")
        if found != self._expected.rstrip("="):
            message = f"{path} in {file.name} has the digest {found}, but RECORD lists "
            raise FetchError(message + self._expected, hint=_DAMAGE_HINT)


class _CheckedMember(io.RawIOBase):
    """The content of a member, which is compared with RECORD at its end."""

    def __init__(
        self, file: IndexFile, info: zipfile.ZipInfo, member: IO[bytes], check: _DigestCheck
    ) -> None:
        self._file, self._info, self._member, self._check = file, info, member, check
        self._missing = info.file_size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        target = memoryview(buffer).cast("B")
        with _report_damage(self._file):
            content = self._member.read(len(target))
        self._check.update(content)
        self._missing -= len(content)
        if self._missing <= 0:
            self._check.require_match(self._file, self._info.filename)
        target[: len(content)] = content
        return len(content)


@contextlib.contextmanager
def _report_damage(file: IndexFile) -> Iterator[None]:
    try:
        yield
    except _DAMAGE_ERRORS as error:
        message = f"{file.name} cannot be read as a wheel: {error}"
        raise FetchError(message, hint=_DAMAGE_HINT) from error


def _parse_json_page(text: str, page_url: str) -> Iterator[IndexFile]:
    for entry in json.loads(text)["files"]:
        yield IndexFile(
            str(entry["filename"]),
            _join_url(page_url, str(entry["url"])),
            str(entry.get("hashes", {}).get("sha256", "")).lower(),
            int(entry.get("size") or 0),
            str(entry.get("requires-python") or ""),
            bool(entry.get("yanked")),
        )


def _parse_html_page(text: str, page_url: str) -> list[IndexFile]:
    parser = _LinkParser(page_url)
    parser.feed(text)
    parser.close()
    return parser.files


class _LinkParser(html.parser.HTMLParser):
    """Collects the links of an HTML page in `files`."""

    def __init__(self, page_url: str) -> None:
        super().__init__()
        self.files: list[IndexFile] = []
        self._base = page_url

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "base" and "href" in values:
            self._base = urljoin(self._base, values["href"])
        if tag != "a" or "href" not in values:
            return
        url, fragment = urldefrag(_join_url(self._base, values["href"]))
        sha256 = parse_qs(fragment).get("sha256", [""])[0].lower()
        name = unquote(PurePosixPath(urlsplit(url).path).name)
        python, is_yanked = values.get("data-requires-python", ""), "data-yanked" in values
        self.files.append(IndexFile(name, url, sha256, 0, python, is_yanked))


def _join_url(page_url: str, link: str) -> str:
    return urljoin(page_url, quote(link.strip(), safe=_URL_CHARACTERS))


def _get_project(name: str) -> str:
    """Return the normalized project of a distribution file; "" for other files."""
    if not name.endswith(_DISTRIBUTION_SUFFIXES):
        return ""
    is_wheel = name.endswith(".whl")
    return _normalize_name(name.partition("-")[0] if is_wheel else name.rpartition("-")[0])


def _normalize_name(project: str) -> str:
    """Return a project's name as in URLs of indexes (PEP 503)."""
    return re.sub(r"[-_.]+", "-", project).lower()


def _strip_secrets(url: str) -> str:
    """Return the URL without its login, its query and its fragment."""
    return urlsplit(split_login(url)[0])._replace(query="", fragment="").geturl()


def _is_local(url: str) -> bool:
    return urlsplit(url).scheme == "file"


def _get_path(url: str) -> Path:
    return Path(url2pathname(urlsplit(url).path))
