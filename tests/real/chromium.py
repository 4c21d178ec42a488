"""A real headless Chromium, driven over a pipe by the DevTools protocol: what it asked the network
for, what its console said, and what a page looks like.

The browser reads commands from its descriptor 3 and answers on 4, each closed by a NUL.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe"),
)
_PATIENCE = 90.0
_NAMES = ("chromium", "chromium-browser", "google-chrome")


def program() -> str | None:
    """Where a Chromium is, None where there is none."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


class Page:
    """One tab. `events` are those of the protocol, in order."""

    def __init__(self, to: int, come: int) -> None:
        self._to, self._come = to, come
        self._numbers = itertools.count(1)
        self._rest = b""
        self._session: dict[str, str] = {}
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        found = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": found["sessionId"]}
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params} | self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return dict(answer["result"])

    def open(self, path: Path) -> None:
        """Load a file, until its scripts ran."""
        before = len(self.events)
        self.ask("Page.navigate", url=path.as_uri())
        while not any(one["method"] == "Page.loadEventFired" for one in self.events[before:]):
            self._next()

    def see(self, expression: str) -> Any:
        """The value of an expression, or of the promise that it is."""
        asked = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        found = self.ask("Runtime.evaluate", **asked)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def become(
        self, wide: int, high: int = 900, *, dark: bool = False, phone: bool = False
    ) -> None:
        """A window so large, in light or dark."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.ask("Emulation.setEmulatedMedia", features=scheme)
        size = {"width": wide, "height": high, "deviceScaleFactor": 2 if phone else 1}
        self.ask("Emulation.setDeviceMetricsOverride", mobile=phone, **size)

    def screenshot(self, *, whole: bool = False) -> bytes:
        """What is seen, or the whole page, as PNG."""
        asked = {"captureBeyondViewport": whole, "format": "png"}
        return base64.b64decode(self.ask("Page.captureScreenshot", **asked)["data"])

    def printed(self) -> bytes:
        """The page as PDF."""
        return base64.b64decode(self.ask("Page.printToPDF", printBackground=False)["data"])

    def requests(self) -> list[str]:
        """What was asked of a network: all but the file itself and what is within it."""
        sent = [one for one in self.events if one["method"] == "Network.requestWillBeSent"]
        urls = [str(one["params"]["request"]["url"]) for one in sent]
        return [url for url in urls if not url.startswith(("file:", "data:", "about:"))]

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, exceptions among them."""
        loud = {"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"}
        return [json.dumps(one["params"]) for one in self.events if one["method"] in loud]

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + _PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._come], [], [], max(0.0, until - time.monotonic()))
            assert ready, "Chromium says nothing"
            chunk = os.read(self._come, 1 << 20)
            assert chunk, "Chromium ended"
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self.events.append(message)
        return message


@contextmanager
def chromium(folder: Path) -> Iterator[Page]:
    """A browser of its own, whose empty profile is `folder`; it ends with the block."""
    theirs, to = os.pipe()
    come, out = os.pipe()
    # bash, as dash takes descriptors of one digit alone
    started = ["bash", "-c", f'exec "$0" "$@" 3<&{theirs} 4>&{out}', str(program()), *FLAGS]
    with (folder.parent / "chromium.log").open("wb") as log:
        browser = subprocess.Popen(
            [*started, f"--user-data-dir={folder}"],
            pass_fds=(theirs, out),
            stdout=log,
            stderr=log,
        )
    os.close(theirs)
    os.close(out)
    try:
        yield Page(to, come)
    finally:
        os.close(to)  # it ends where nobody commands it
        os.close(come)
        try:
            browser.wait(10)
        except subprocess.TimeoutExpired:
            browser.kill()
            browser.wait()
