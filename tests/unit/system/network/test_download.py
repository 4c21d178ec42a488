"""Downloads are complete or absent, and resume after a broken connection."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from tasks.core.errors import FetchError
from tasks.system.network import network_access
from tasks.system.network.download import download_file
from tests.support.webserver import running

DATA = b"0123456789" * 1000
SHA256 = hashlib.sha256(DATA).hexdigest()


class Server(BaseHTTPRequestHandler):
    """Serves DATA, and breaks the connection after each number of bytes in `breaks`."""

    breaks: ClassVar[list[int]] = []
    asked: ClassVar[list[str]] = []
    known: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        ranged = self.headers.get("Range", "")
        self.asked.append(ranged)
        self.known.append(self.headers.get("Authorization", ""))
        if self.path == "/missing":
            self.send_error(404)
            return
        start = int(ranged.removeprefix("bytes=").removesuffix("-")) if ranged else 0
        self.send_response(206 if ranged else 200)
        self.send_header("Content-Length", str(len(DATA) - start))
        self.end_headers()
        body = DATA[start:]
        self.wfile.write(body[: self.breaks.pop()] if self.breaks else body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(network_access, "RETRY_PAUSES", (0.0, 0.0))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    Server.breaks, Server.asked, Server.known = [], [], []
    with running(ThreadingHTTPServer(("127.0.0.1", 0), Server)) as server:
        yield f"http://127.0.0.1:{server.server_port}"


def test_download_is_complete_and_not_repeated(url: str, tmp_path: Path) -> None:
    for _ in range(2):
        path = download_file(f"{url}/a.tar.gz", tmp_path / "d" / "a.tar.gz", SHA256)
        assert path.read_bytes() == DATA
    assert Server.asked == [""]


def test_url_credentials_are_sent_to_server(url: str, tmp_path: Path) -> None:
    download_file(url.replace("://", "://me:hunter%2F2@"), tmp_path / "a", SHA256)
    download_file(url, tmp_path / "b", SHA256)
    assert Server.known == [f"Basic {base64.b64encode(b'me:hunter/2').decode()}", ""]


def test_broken_download_is_resumed(url: str, tmp_path: Path) -> None:
    Server.breaks = [4000]
    download_file(f"{url}/a", tmp_path / "a", SHA256, tmp_path / "log")
    assert (tmp_path / "a").read_bytes() == DATA
    assert Server.asked == ["", "bytes=4000-"]
    assert "error:" in (tmp_path / "log").read_text()


def test_sha256_mismatch_names_both_digests_and_leaves_no_file(url: str, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match=f"expected {'0' * 64}, found {SHA256}"):
        download_file(f"{url}/a", tmp_path / "in" / "a", "0" * 64)
    assert list((tmp_path / "in").iterdir()) == []


def test_missing_file_is_requested_only_once(url: str, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="404"):
        download_file(f"{url}/missing", tmp_path / "a", SHA256)
    assert Server.asked == [""]


def test_failed_download_error_has_hint(url: str, tmp_path: Path) -> None:
    Server.breaks = [1, 1, 1]
    with pytest.raises(FetchError, match="cannot download") as caught:
        download_file(f"{url}/a", tmp_path / "a", SHA256)
    assert "run the same command again" in caught.value.hint
    assert not (tmp_path / "a").exists()


def test_path_and_file_url_are_accepted_and_other_schemes_refused(tmp_path: Path) -> None:
    (tmp_path / "here").write_bytes(DATA)
    assert download_file(str(tmp_path / "here"), tmp_path / "a", None).read_bytes() == DATA
    assert download_file((tmp_path / "here").as_uri(), tmp_path / "b", SHA256).read_bytes() == DATA
    with pytest.raises(FetchError, match="write a path, or a URL that begins with https"):
        download_file("ftp://example.invalid/a", tmp_path / "c", None)
