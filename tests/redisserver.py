"""A redis of a test's own, on a port that nobody else has, with nothing kept on disk."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

PROGRAM = shutil.which("redis-server")


@contextmanager
def redis(folder: Path, *options: str) -> Iterator[str]:
    """Its URL."""
    if PROGRAM is None:
        pytest.skip("not run: redis-server is not here (apt install redis-server)")
    port = free_port()
    argv = [PROGRAM, "--port", str(port), "--bind", "127.0.0.1", "--save", "", *options]
    server = subprocess.Popen([*argv, "--dir", str(folder)], stdout=subprocess.DEVNULL)
    try:
        _wait(port, server)
        yield f"redis://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(10)


def free_port() -> int:
    """Nobody listens there now."""
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait(port: int, server: subprocess.Popen[bytes]) -> None:
    for _ in range(500):
        assert server.poll() is None, "redis-server ended"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError("redis-server did not come up")
