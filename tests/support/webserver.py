"""Web servers on loopback: a plain one, which knows nothing of packages, and one that keeps what it
is sent.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import BaseServer
from typing import TypeVar

_Server = TypeVar("_Server", bound=BaseServer)


@contextmanager
def running(server: _Server) -> Iterator[_Server]:
    """It answers for as long as the block lasts."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class Quiet(SimpleHTTPRequestHandler):
    """Files of a folder, and no word of it."""

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Its URL."""
    handler = partial(Quiet, directory=str(folder))
    with running(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}"


@contextmanager
def storage(folder: Path) -> Iterator[str]:
    """Its URL; what is put there comes back, in files below `folder`."""

    class Keeping(Quiet):
        def do_PUT(self) -> None:
            place = Path(self.translate_path(self.path))
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(201)
            self.send_header("Content-Length", "0")
            self.end_headers()

    handler = partial(Keeping, directory=str(folder))
    with running(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}"
