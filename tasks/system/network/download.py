"""Download a file and check its sha256; a partial download (`NAME.part`) is resumed."""

import base64
import http.client
import urllib.error
import urllib.request
from pathlib import Path, PurePath
from urllib.parse import unquote, urlsplit

from tasks.core.errors import OFFLINE_HINT, FetchError, redact_secrets
from tasks.system import files
from tasks.system.network import network_access

_CHUNK_BYTES = 2**20
_READ_TIMEOUT = 60.0  # seconds without a byte
_CONNECTION_ERRORS = (OSError, http.client.HTTPException)


def download_file(
    source: str, dest: PurePath, sha256: str | None, log: PurePath | None = None
) -> Path:
    """Download to `dest`, unless it already has this sha256. Verify the sha256, if one is given."""
    target, is_url = Path(dest), "://" in source or source.startswith("file:")
    url = source if is_url else Path(source).absolute().as_uri()
    if urlsplit(url).scheme not in ("https", "http", "file"):
        hint = "write a path, or a URL that begins with https:, http: or file:"
        raise FetchError(f"torchyard cannot download {source}", hint=hint)
    if sha256 and target.is_file() and files.read_artifact(target).sha256 == sha256:
        return target
    if network_access.is_offline() and not url.startswith("file:"):
        hint = "create the bundle again: doit bundle"
        raise FetchError(f"{url} is not in the bundle", location="offline", hint=hint)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    if not sha256:
        part.unlink(missing_ok=True)  # without a digest, no check that the parts match
    _append_to_log(log, f"fetch {url}")
    _download_with_retries(url, part, sha256, log)
    files.replace_path(part, target)
    return target


class _WrongDigestError(FetchError):
    """The error for a download with an unexpected digest; `found` is the download's digest."""

    def __init__(self, url: str, expected: str, found: str) -> None:
        super().__init__(
            f"{url} has the wrong sha256: expected {expected}, found {found}; torchyard removed "
            "the downloaded file",
            hint="compare the expected sha256 with that of the release; if they are the same, a "
            "proxy or mirror changes the file: run the same command again, or set another mirror "
            "(source.mirrors)",
        )
        self.found = found


def _download_with_retries(url: str, part: Path, sha256: str | None, log: PurePath | None) -> None:
    def download_once() -> None:
        try:
            _fetch_part(url, part)
        except _CONNECTION_ERRORS as error:
            _append_to_log(log, f"error: {error}")
            raise
        digest = files.read_artifact(part).sha256
        if sha256 and digest != sha256:
            part.unlink()
            raise _WrongDigestError(url, sha256, digest)

    seen_digests = {""}  # digests of wrong files

    def explain_retry(error: Exception) -> str:
        """Return the reason for a retry; "" if a retry cannot help.

        A wrong digest is retried unless it repeats, which means that the server has a wrong file.
        """
        if isinstance(error, _WrongDigestError):
            is_repeated = error.found in seen_digests or url.startswith("file:")
            seen_digests.add(error.found)
            return "" if is_repeated else "the file has another sha256"
        is_temporary = isinstance(error, _CONNECTION_ERRORS) and not _is_permanent(error)
        return str(error) if is_temporary else ""

    try:
        network_access.retry_action(redact_secrets(url), download_once, explain_retry)
    except _CONNECTION_ERRORS as error:
        resume_note = " to continue the download" if sha256 and part.exists() else ""
        raise FetchError(
            f"torchyard cannot download {url}: {error}",
            location=str(log or ""),
            hint="check the URL, the network and the proxy, or set a mirror (source.mirrors); "
            f"then run the same command again{resume_note}; {OFFLINE_HINT}",
        ) from error


def _is_permanent(error: Exception) -> bool:
    """Return True if a retry cannot help, because the server refused or the file is missing."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code < 500 and error.code not in (408, 416, 429)
    reason = getattr(error, "reason", error)
    return isinstance(reason, FileNotFoundError | IsADirectoryError | PermissionError)


def split_login(url: str) -> tuple[str, str]:
    """Return the URL without its login, and the login (`USER:PASSWORD`), "" if there is none."""
    parts = urlsplit(url)
    login, _, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=host).geturl(), login


def build_request(url: str) -> urllib.request.Request:
    """Return a request for `url`, whose scheme the caller has checked.

    The login of the URL is in a header, which is not sent to another host after a redirect.
    """
    bare_url, login = split_login(url)
    headers = {"User-Agent": "torchyard"}
    request = urllib.request.Request(bare_url, headers=headers)  # noqa: S310 - scheme was checked
    if login:
        credentials = base64.b64encode(unquote(login).encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {credentials}")
    return request


def _fetch_part(url: str, part: Path) -> None:
    request = build_request(url)
    if offset := part.stat().st_size if part.exists() else 0:
        request.add_header("Range", f"bytes={offset}-")
    try:
        with urllib.request.build_opener().open(request, timeout=_READ_TIMEOUT) as response:
            is_resumed = getattr(response, "status", None) == 206
            length, received = getattr(response, "length", None), 0
            with part.open("ab" if is_resumed else "wb") as stream:
                while chunk := response.read(_CHUNK_BYTES):
                    received += len(chunk)
                    stream.write(chunk)
                    files.require_disk_space(part.parent, 64, "the download")
            if length is not None and received < length:
                raise http.client.IncompleteRead(b"", length - received)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # the part is longer than the file on the server: start again
            part.unlink(missing_ok=True)
        raise


def _append_to_log(log: PurePath | None, text: str) -> None:
    if log:
        Path(log).parent.mkdir(parents=True, exist_ok=True)
        with Path(log).open("a", encoding="utf-8") as stream:
            stream.write(f"{redact_secrets(text)}\n")
