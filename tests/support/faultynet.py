"""A wire on loopback that misbehaves: whoever connects is led to a server, and the first ones meet
what is planned for them.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal

_CHUNK = 65_536


@dataclass(frozen=True)
class Fault:
    """After so many bytes of the answer the wire is cut (`drop`), says nothing more (`stall`), has
    a byte turned (`corrupt`), or ends in order: an answer of HTTP then says that it was meant to be
    as short as that (`truncate`).
    """

    kind: Literal["drop", "stall", "truncate", "corrupt"]
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
            is_cut = self._answer(here, there)
            if is_cut:  # reset, where all others are ended in order
                there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            for one in (here, there):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RD if is_cut else socket.SHUT_RDWR)
            asking.join()

    def _answer(self, here: socket.socket, there: socket.socket) -> bool:
        """The fault is taken by the first whose answer is long enough to meet it. Whether the wire
        is cut.
        """
        passed, turns = 0, False
        while data := _received(here):
            if not passed and self._shortens():
                return self._shortened(data, here, there)
            fault = None if turns else self._taken(passed + len(data))
            cut = max(0, fault.after - passed) if fault else 0
            if fault and fault.kind != "corrupt":
                _sent(there, data[:cut])
                if fault.kind == "stall":
                    self.ended.wait(60)
                return fault.kind == "drop"
            turned = bytes((data[cut] ^ 0xFF,)) + data[cut + 1 :] if fault else data[cut:]
            if not _sent(there, data[:cut] + turned):
                return False
            passed, turns = passed + len(data), turns or bool(fault)
        return False

    def _shortens(self) -> bool:
        return bool(self.faults) and self.faults[0].kind == "truncate"

    def _shortened(self, data: bytes, here: socket.socket, there: socket.socket) -> bool:
        """An answer that says it is whole, and is not; one that is short enough passes."""
        while more := _received(here):
            data += more
        head, gap, body = data.partition(b"\r\n\r\n")
        fault = self._taken(len(body))
        if fault:
            body = body[: fault.after]
            length = f"Content-Length: {len(body)}".encode()
            head = re.sub(rb"(?i)content-length: *\d+", length, head)
        _sent(there, head + gap + body)
        return False

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
