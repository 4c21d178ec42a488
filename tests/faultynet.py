"""A wire on loopback that misbehaves: whoever connects is led to a server, and the first ones meet
what is planned for them.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal

_CHUNK = 65_536


@dataclass(frozen=True)
class Fault:
    """After so many bytes of the answer the wire is cut (`drop`), says nothing more (`stall`), or
    has a byte turned (`corrupt`).
    """

    kind: Literal["drop", "stall", "corrupt"]
    after: int


class Wire:
    """Leads to `port`; each connection takes the next of `faults`, and those after them none."""

    def __init__(self, port: int, faults: Sequence[Fault]) -> None:
        self.to = port
        self.faults = list(faults)
        self.met = 0
        self.ended = threading.Event()
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listening.getsockname()[1]
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while not self.ended.is_set():
            try:
                there, _ = self.listening.accept()
            except OSError:
                return
            one = threading.Thread(target=self._lead, args=(there,))
            self._threads.append(one)
            one.start()

    def _lead(self, there: socket.socket) -> None:
        with there, socket.create_connection(("127.0.0.1", self.to)) as here:
            asking = threading.Thread(target=_pour, args=(there, here))
            asking.start()
            self._answer(here, there)
            for one in (here, there):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            asking.join()

    def _answer(self, here: socket.socket, there: socket.socket) -> None:
        """The fault is taken by the first whose answer is long enough to meet it."""
        passed = 0
        while data := _received(here):
            fault = self._taken(passed + len(data))
            if fault is None:
                if not _sent(there, data):
                    return
                passed += len(data)
                continue
            cut = max(0, fault.after - passed)
            if fault.kind == "corrupt":
                turned = bytes((data[cut] ^ 0xFF,))
                if not _sent(there, data[:cut] + turned + data[cut + 1 :]):
                    return
                passed += len(data)
                continue
            _sent(there, data[:cut])
            if fault.kind == "stall":
                self.ended.wait(60)
            return

    def _taken(self, reached: int) -> Fault | None:
        with self._lock:
            if self.faults and self.faults[0].after < reached:
                self.met += 1
                return self.faults.pop(0)
            return None

    def close(self) -> None:
        """Nobody is led any more."""
        self.ended.set()
        with suppress(OSError):
            self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        for one in self._threads:
            one.join(10)


def _pour(source: socket.socket, target: socket.socket) -> None:
    while data := _received(source):
        if not _sent(target, data):
            return
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _received(source: socket.socket) -> bytes:
    try:
        return source.recv(_CHUNK)
    except OSError:
        return b""


def _sent(target: socket.socket, data: bytes) -> bool:
    try:
        target.sendall(data)
    except OSError:
        return False
    return True


@contextmanager
def wire(port: int, *faults: Fault) -> Iterator[Wire]:
    """For as long as the block lasts."""
    made = Wire(port, faults)
    try:
        yield made
    finally:
        made.close()
