"""A mirror on loopback: what it is asked for it fetches from the package index and gives on, by
addresses of its own, with a note of every file. It can lie.
"""

from __future__ import annotations

import hashlib
import io
import json
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from tests.support.webserver import running

_JSON = "application/vnd.pypi.simple.v1+json"


class Mirror(ThreadingHTTPServer):
    """Of `upstream` (".../simple"). `gave` has the sha256 of each file that it gave, by name;
    `lies` other bytes for some names, and with `pages_lie` its pages have the digests of those.
    """

    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.gave: dict[str, str] = {}
        self.lies: dict[str, bytes] = {}
        self.pages_lie = False
        self.had: dict[str, bytes] = {}
        self.places: dict[str, str] = {}
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        """What stands in the place of the index."""
        return f"http://127.0.0.1:{self.server_port}/simple"

    def page(self, project: str) -> bytes:
        """The list of a project's files, as they are to be had here."""
        told = json.loads(_fetched(f"{self.upstream}/{project}/", _JSON))
        for file in told["files"]:
            self.places[file["filename"]] = file["url"]
            file["url"] = f"../../files/{file['filename']}"
            if self.pages_lie and (lie := self.lies.get(file["filename"])):
                file["hashes"] = {"sha256": hashlib.sha256(lie).hexdigest()}
            file["core-metadata"] = file["filename"].endswith(".whl")
        return json.dumps(told).encode()

    def file(self, name: str) -> bytes:
        """Its bytes, or a lie; of a wheel also its metadata alone, of which no note is made."""
        if name.endswith(".metadata"):
            return _metadata(self._content(name.removesuffix(".metadata")))
        content = self._content(name)
        self.gave[name] = hashlib.sha256(content).hexdigest()
        return content

    def _content(self, name: str) -> bytes:
        if name not in self.had:
            self.had[name] = self.lies.get(name) or _fetched(self.places[name])
        return self.had[name]


class _Handler(BaseHTTPRequestHandler):
    server: Mirror

    def do_GET(self) -> None:
        path = PurePosixPath(unquote(urlsplit(self.path).path))
        is_page = path.parts[1] == "simple"
        try:
            body = self.server.page(path.name) if is_page else self.server.file(path.name)
        except (OSError, KeyError, ValueError):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", _JSON if is_page else "application/octet-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def _fetched(url: str, accept: str = "*/*") -> bytes:
    request = urllib.request.Request(url, headers={"Accept": accept, "User-Agent": "torchyard"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        content: bytes = answer.read()
    return content


def _metadata(wheel: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        name = min((n for n in archive.namelist() if n.endswith("-info/METADATA")), key=len)
        return archive.read(name)


@contextmanager
def mirroring(upstream: str) -> Iterator[Mirror]:
    """For as long as the block lasts."""
    with running(Mirror(upstream)) as made:
        yield made
