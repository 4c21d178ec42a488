"""Read web pages, and parts of files on a web server with HTTP range requests."""

import contextlib
import errno
import hashlib
import http.client
import io
import re
import ssl
import tempfile
import time
import urllib.error
import urllib.request
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from tasks.core.errors import OFFLINE_HINT, FetchError
from tasks.system import files
from tasks.system.network import network_access
from tasks.system.network.download import build_request

_TAIL_BYTES = 64 * 2**10  # the first range: it holds the end of the directory of a zip file
_BLOCK_BYTES = 256 * 2**10
_CACHED_BYTES = 64 * 2**20
_CHUNK_BYTES = 64 * 2**10
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
# Of servers that refuse the range, or do not say which range they sent
_NO_RANGE_STATUSES = (206, 400, 405, 416, 501)
_CONNECTION_ERRORS = (OSError, http.client.HTTPException)
_BROKEN_CONNECTIONS = (ConnectionResetError, ConnectionAbortedError, BrokenPipeError)

_NETWORK_HINT = (
    "check the network, the proxy and the index settings (torch.index, UV_INDEX_URL, "
    f"PIP_INDEX_URL), or set a mirror (mirrors); {OFFLINE_HINT}"
)
_LOGIN_HINT = (
    "write the login into the index URL (https://USER:PASSWORD@HOST/simple) in torch.index, "
    "UV_INDEX_URL or PIP_INDEX_URL"
)
_CERTIFICATE_HINT = "set SSL_CERT_FILE to the certificate bundle of your organisation"

_T = TypeVar("_T")


class HttpStatusError(FetchError):
    """An answer with an HTTP status that means an error, or that does not fit the request."""

    def __init__(self, message: str, status: int, *, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class Page(NamedTuple):
    """A web page. `url` is its address after redirects."""

    text: str
    content_type: str
    url: str


class RangeFile(io.RawIOBase):
    """A seekable stream of a remote file that loads blocks when they are read.

    `load_range` takes a start and a stop offset and returns the bytes between them. A block has at
    least `read_ahead` bytes, unless the next block is already loaded.
    """

    def __init__(self, load_range: Callable[[int, int], bytes], size: int) -> None:
        self.read_ahead = _BLOCK_BYTES
        self._load_range = load_range
        self._size = size
        self._position = 0
        self._blocks: list[tuple[int, bytes]] = []  # start offset and bytes, the oldest first

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position in the file."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Change the position, and return it. Raises `OSError` if it is negative."""
        position = (0, self._position, self._size)[whence] + offset
        if position < 0:
            raise OSError(errno.EINVAL, f"negative position {position}")  # as files do
        self._position = position
        return position

    def readinto(self, buffer: Any) -> int:
        """Read at most the rest of the block at the position. Return the number of bytes."""
        target = memoryview(buffer).cast("B")
        if self._position >= self._size or not len(target):
            return 0
        required = max(len(target), self.read_ahead)
        start, block = self._load_block(self._position, self._position + required)
        offset = self._position - start
        piece = block[offset : offset + len(target)]
        target[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)

    def prefetch(self, start: int, stop: int) -> None:
        """Load the bytes from `start` to `stop` in one request, unless `start` is loaded."""
        if start < self._size:
            self._load_block(start, stop)

    def add_block(self, start: int, block: bytes) -> None:
        """Keep a block, and forget the oldest ones beyond 64 MiB."""
        self._blocks.append((start, block))
        while len(self._blocks) > 1 and sum(len(one) for _, one in self._blocks) > _CACHED_BYTES:
            del self._blocks[0]

    def _load_block(self, start: int, stop: int) -> tuple[int, bytes]:
        """Return the block with the byte `start`; if there is none, load it up to `stop`."""
        for first, block in self._blocks:
            if first <= start < first + len(block):
                return first, block
        following = (first for first, _ in self._blocks if first > start)
        self.add_block(start, self._load_range(start, min(stop, self._size, *following)))
        return self._blocks[-1]


class HttpReader:
    """Read from `server`, which is a description for messages ("the package index URL").

    `timeout` is the longest wait for data in seconds, `deadline` the value of time.monotonic()
    after which nothing is read. `requests` and `bytes_read` (of content) count the transfers.
    """

    def __init__(self, server: str, timeout: float, deadline: float | None) -> None:
        self.requests = 0
        self.bytes_read = 0
        self._server = server
        self._timeout = timeout
        self._deadline = deadline
        self._opener = urllib.request.build_opener()
        self._saved: dict[str, IO[bytes]] = {}  # the files of servers without ranges, by URL
        self._temporary = contextlib.ExitStack()
        weakref.finalize(self, self._temporary.close)

    def read_page(self, url: str, accept: str) -> Page:
        """Return a page in one of the formats `accept` (an Accept header)."""

        def receive(response: http.client.HTTPResponse) -> Page:
            text = self._read_content(response).decode("utf-8", "replace")
            return Page(text, response.headers.get("Content-Type", ""), response.url)

        return self._fetch(url, {"Accept": accept}, receive)

    def open_file(self, url: str, sha256: str) -> RangeFile | IO[bytes]:
        """Return a stream of the file.

        If the server supports no ranges, download the file once, and check its sha256 if it is
        not "". The caller must not close such a downloaded file.
        """
        if url in self._saved:
            return self._saved[url]

        def receive(response: http.client.HTTPResponse) -> RangeFile | IO[bytes]:
            if response.status != 206:
                return self._save_file(response, url, sha256)
            start, stop, size = self._parse_content_range(response)
            stream = RangeFile(lambda first, last: self._read_range(url, first, last, size), size)
            stream.add_block(start, self._read_exactly(response, stop - start))
            return stream

        try:
            return self._fetch(url, {"Range": f"bytes=-{_TAIL_BYTES}"}, receive)
        except HttpStatusError as error:
            if error.status not in _NO_RANGE_STATUSES:
                raise
            return self._fetch(url, {}, receive)

    def _read_range(self, url: str, start: int, stop: int, size: int) -> bytes:
        def receive(response: http.client.HTTPResponse) -> bytes:
            if self._parse_content_range(response) != (start, stop, size):
                message = f"{self._server} sent another part of {_get_name(url)} than requested"
                raise FetchError(message, hint="run the same command again")
            return self._read_exactly(response, stop - start)

        return self._fetch(url, {"Range": f"bytes={start}-{stop - 1}"}, receive)

    def _parse_content_range(self, response: http.client.HTTPResponse) -> tuple[int, int, int]:
        """Return start and stop of the sent range, and the size of the whole file."""
        text = response.headers.get("Content-Range", "")
        if response.status != 206 or not (match := _CONTENT_RANGE.fullmatch(text)):
            message = f"{self._server} does not support range requests as expected"
            raise HttpStatusError(message, response.status, hint="run the same command again")
        start, last, size = map(int, match.groups())
        return start, last + 1, size

    def _save_file(self, response: http.client.HTTPResponse, url: str, sha256: str) -> IO[bytes]:
        digest, folder = hashlib.sha256(), Path(tempfile.gettempdir())
        with contextlib.ExitStack() as stack:
            stream = stack.enter_context(tempfile.TemporaryFile())

            def write(chunk: bytes) -> None:
                files.require_disk_space(folder, 64, "the download")
                digest.update(chunk)
                stream.write(chunk)

            self._receive_content(response, write)
            if sha256 and digest.hexdigest() != sha256:
                message = f"{self._server} sent {_get_name(url)} with the wrong sha256: expected "
                message += f"{sha256}, found {digest.hexdigest()}"
                hint = "if the error remains, a proxy or mirror changes the file: set another one"
                raise FetchError(message, hint=hint)
            self._temporary.push(stack.pop_all())
        self._saved[url] = stream
        return stream

    def _read_exactly(self, response: http.client.HTTPResponse, length: int) -> bytes:
        content = self._read_content(response)
        if len(content) != length:
            raise http.client.IncompleteRead(b"", length - len(content))
        return content

    def _read_content(self, response: http.client.HTTPResponse) -> bytes:
        content = bytearray()
        self._receive_content(response, content.extend)
        return bytes(content)

    def _receive_content(
        self, response: http.client.HTTPResponse, write: Callable[[bytes], object]
    ) -> None:
        missing = response.length  # None if the server does not say the length
        while missing != 0 and (chunk := response.read1(_CHUNK_BYTES)):
            self.bytes_read += len(chunk)
            missing = missing and missing - len(chunk)
            write(chunk)
            self._compute_timeout()
        if missing:
            raise http.client.IncompleteRead(b"", missing)

    def _fetch(
        self,
        url: str,
        headers: dict[str, str],
        receive: Callable[[http.client.HTTPResponse], _T],
    ) -> _T:
        """Request `url`, and return the result of `receive`. Try again once if that may help."""
        if network_access.is_offline():
            hint = "use a folder as the package index, or remove the setting offline"
            message = f"{self._server} cannot be read in offline mode"
            raise FetchError(message, location="offline", hint=hint)

        def fetch_once() -> _T:
            request = build_request(url)
            for name, value in headers.items():
                request.add_header(name, value)
            timeout = self._compute_timeout()
            self.requests += 1
            try:
                with self._opener.open(request, timeout=timeout) as response:
                    return receive(response)
            except urllib.error.HTTPError as error:
                error.close()
                raise

        try:
            try:
                return fetch_once()
            except _CONNECTION_ERRORS as error:
                if not _is_temporary(error):
                    raise
            return fetch_once()
        except _CONNECTION_ERRORS as error:
            raise self._explain_failure(error, url) from error

    def _compute_timeout(self) -> float:
        """Return the timeout of the next request. Raises `FetchError` after the deadline."""
        if self._deadline is None:
            return self._timeout
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise FetchError(f"{self._server} did not answer in time", hint=_NETWORK_HINT)
        return min(self._timeout, remaining)

    def _explain_failure(self, error: Exception, url: str) -> FetchError:
        host, reason = urlsplit(url).hostname, getattr(error, "reason", error)
        if isinstance(error, urllib.error.HTTPError):
            message = f"{self._server} did not answer: HTTP status {error.code} from {host}"
            hint = _LOGIN_HINT if error.code in {401, 403} else _NETWORK_HINT
            return HttpStatusError(message, error.code, hint=hint)
        if isinstance(reason, TimeoutError):
            self._compute_timeout()  # raises another error if the deadline ended the wait
            reason = f"no data for {self._timeout:g} s"
        elif isinstance(reason, http.client.IncompleteRead):
            reason = "the answer is incomplete"
        is_untrusted = isinstance(reason, ssl.SSLCertVerificationError)
        hint = _CERTIFICATE_HINT if is_untrusted else _NETWORK_HINT
        return FetchError(f"{self._server} did not answer: {reason} ({host})", hint=hint)


def _is_temporary(error: Exception) -> bool:
    """Return True if the same request may succeed at once."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code >= 500 and error.code != 501
    reason = getattr(error, "reason", error)
    return isinstance(reason, (*_BROKEN_CONNECTIONS, http.client.IncompleteRead))


def _get_name(url: str) -> str:
    return urlsplit(url).path.rpartition("/")[2]
