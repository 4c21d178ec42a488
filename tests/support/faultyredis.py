"""A redis that serves well at first, and goes wrong after some requests, as it is told."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BufferedRWPair
from typing import Literal

Fault = Literal["gone", "silent", "rubbish", "lies"]
_RUBBISH = b"\x00\xff HTTP/1.1 400\r\n\r\n"
_LIE = b"rubbish" * 50


class FaultyRedis:
    """After `good` requests it is `gone`, takes requests and is `silent`, answers with `rubbish`
    that is no answer, or `lies`: an answer as it should be, about what was never kept. Greetings it
    answers well, always.
    """

    def __init__(self, fault: Fault, good: int) -> None:
        self.fault, self.good = fault, good
        self.asked = 0
        self._kept: dict[bytes, bytes] = {}
        self._over = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._over.set()
        with suppress(OSError):  # closing alone would leave the thread in accept: it takes one more
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _serve(self) -> None:
        while not self._over.is_set():
            try:
                line, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(line,), daemon=True).start()

    def _talk(self, line: socket.socket) -> None:
        # who asked may have gone
        with suppress(OSError), line, line.makefile("rwb") as stream:
            while words := _words(stream):
                answer = self._answer(words)
                if answer is None:
                    return
                stream.write(answer)
                stream.flush()

    def _answer(self, words: Sequence[bytes]) -> bytes | None:
        """None where the line is cut."""
        name = words[0].upper()
        if name in {b"PING", b"AUTH", b"SELECT"}:
            return b"+PONG\r\n" if name == b"PING" else b"+OK\r\n"
        self.asked += 1
        wrong = self.fault if self.asked > self.good else ""
        if wrong == "gone":
            self.close()
            return None
        if wrong == "silent":
            self._over.wait()
            return None
        return _RUBBISH if wrong == "rubbish" else self._served(name, words, wrong == "lies")

    def _served(self, name: bytes, words: Sequence[bytes], lies: bool) -> bytes:
        if name == b"SET":
            self._kept[words[1]] = words[2]
            return b"+OK\r\n"
        if name == b"EXISTS":
            return b":1\r\n" if words[1] in self._kept else b":0\r\n"
        found = _LIE if lies else self._kept.get(words[1])
        return b"$-1\r\n" if found is None else b"$%d\r\n%s\r\n" % (len(found), found)


def _words(stream: BufferedRWPair) -> list[bytes]:
    """A request, none at the end (RESP: a count, then each word behind its length)."""
    head = stream.readline()
    return [stream.read(int(stream.readline()[1:]) + 2)[:-2] for _ in range(int(head[1:] or 0))]


@contextmanager
def faulty_redis(fault: Fault, good: int) -> Iterator[FaultyRedis]:
    made = FaultyRedis(fault, good)
    try:
        yield made
    finally:
        made.close()
