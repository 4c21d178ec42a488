"""A redis of a test's own, on a port that nobody else has, with nothing kept on disk."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

PROGRAM = shutil.which("redis-server")


@contextmanager
def redis(folder: Path, *options: str) -> Iterator[str]:
    """Its URL."""
    assert PROGRAM is not None, "redis-server is not installed"
    with kept_port() as port:
        argv = [PROGRAM, "--port", str(port), "--bind", "127.0.0.1", "--save", "", *options]
        server = subprocess.Popen([*argv, "--dir", str(folder)], stdout=subprocess.DEVNULL)
        try:
            _wait(port, server)
            yield f"redis://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(60)


@contextmanager
def kept_port() -> Iterator[int]:
    """Nobody listens there, and for the block nobody is given it by chance: only who asks for it by
    its number and says SO_REUSEADDR, as redis does on POSIX.
    """
    with closing(socket.socket()) as one:
        if sys.platform != "win32":  # where it means another thing
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("127.0.0.1", 0))
        yield int(one.getsockname()[1])


def _wait(port: int, server: subprocess.Popen[bytes]) -> None:
    for _ in range(3000):
        assert server.poll() is None, "redis-server ended"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError("redis-server did not come up")


def asked(url: str) -> dict[str, int]:
    """What a redis has done: keys it holds, and bytes that went in and out."""
    host, _, port = url.rpartition("/")[2].partition(":")
    with socket.create_connection((host, int(port)), 5) as line, line.makefile("rwb") as stream:
        stream.write(b"DBSIZE\r\nINFO stats\r\n")
        stream.flush()
        keys = int(stream.readline().strip(b":\r\n"))
        told = stream.read(int(stream.readline().strip(b"$\r\n"))).decode()
    found = dict(row.split(":", 1) for row in told.splitlines() if ":" in row)
    return {
        "keys": keys,
        "bytes_in": int(found["total_net_input_bytes"]),
        "bytes_out": int(found["total_net_output_bytes"]),
    }
