"""Web servers on loopback: a plain one, which knows nothing of packages, and one that keeps what it
is sent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import BaseRequestHandler


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Its URL."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            asked.append(self.path)

    asked: list[str] = []
    with _at_work(partial(Quiet, directory=str(folder))) as url:
        yield url


@contextmanager
def storage(folder: Path) -> Iterator[str]:
    """Its URL; what is put there comes back, in files below `folder`."""

    class Keeping(SimpleHTTPRequestHandler):
        def do_PUT(self) -> None:
            place = Path(self.translate_path(self.path))
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(201)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with _at_work(partial(Keeping, directory=str(folder))) as url:
        yield url


@contextmanager
def _at_work(handler: Callable[..., BaseRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
