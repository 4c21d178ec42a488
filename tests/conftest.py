"""Which tiers run: unit and integration always, real only when asked for, and it says how."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tasks.effects import voice
from tasks.running.reporter import leaving

REAL = "TORCHYARD_TEST_REAL"


def pytest_configure() -> None:
    """Started in the background, a shell has us ignore INT, and so would all that tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get(REAL):
        return
    chosen = [item for item in items if "real" not in item.keywords]
    left = [item for item in items if "real" in item.keywords]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = chosen
        config.stash[_LEFT] = len(left)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Whoever a test has listen is gone after it, and signals do what they did."""
    listener = voice._listener[0]
    handlers = {number: signal.getsignal(number) for number in leaving()}
    yield
    voice.listen(listener)
    for number, handler in handlers.items():
        signal.signal(number, handler)


_LEFT: pytest.StashKey[int] = pytest.StashKey()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    left = terminalreporter.config.stash.get(_LEFT, 0)
    if left:
        terminalreporter.write_line(
            f"not run: {left} real tests (the CUDA torch of the index, nvcc, some GB and minutes); "
            f"{REAL}=1 pytest runs them too"
        )
