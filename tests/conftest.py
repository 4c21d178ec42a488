"""Test tiers: unit and short integration tests always run, long and real ones if enabled."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import hypothesis
import pytest

from tasks.cli.running.doit_adapter import list_exit_signals
from tasks.system import invocation, output
from tasks.system.find_project import CACHE_VARIABLE, CONFIG_VARIABLE

# The marker of a tier, the variable that enables it, and its cost
TIERS = {
    "long": ("TORCHYARD_TEST_LONG", "minutes: random moments, SIGKILL in every stage, full disks"),
    "real": ("TORCHYARD_TEST_REAL", "the CUDA torch of the index, nvcc, some GB and minutes"),
}
_NUMBERS = itertools.count()
_LEFT_OUT: pytest.StashKey[dict[str, int]] = pytest.StashKey()


def pytest_configure() -> None:
    """Handle SIGINT even in the background, where a shell makes processes ignore it.

    Hypothesis has no deadline: durations depend on the load of the machine.
    Python writes bytecode: otherwise each environment would compile every program again.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    slow = [hypothesis.HealthCheck.too_slow]
    hypothesis.settings.register_profile("busy", deadline=None, suppress_health_check=slow)
    hypothesis.settings.load_profile("busy")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests whose program is not installed, and deselect the tiers that are not enabled."""
    for item in items:
        programs = [name for mark in item.iter_markers("needs") for name in mark.args]
        for name in [name for name in programs if not shutil.which(name)][:1]:
            item.add_marker(pytest.mark.skip(reason=f"not run: {name} is not installed"))
    off = [tier for tier, (variable, _) in TIERS.items() if not os.environ.get(variable)]
    left = {item: tier for item in items for tier in off if tier in item.keywords}
    if not left:
        return
    config.hook.pytest_deselected(items=[*left])
    items[:] = [item for item in items if item not in left]
    config.stash[_LEFT_OUT] = dict(Counter(left.values()))
    if hasattr(config, "workeroutput"):  # a worker of pytest-xdist, which prints nothing
        config.workeroutput["left_out"] = config.stash[_LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over the deselected tests of a pytest-xdist worker; each collects the same tests."""
    left_out = getattr(node, "workeroutput", {}).get("left_out")
    if left_out:
        node.config.stash[_LEFT_OUT] = left_out


@pytest.fixture(scope="session", autouse=True)
def _user_of_fixtures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give fixtures of a module or a session a cache and settings that are not the user's."""
    with _replace_user_folders(tmp_path_factory):
        yield


@pytest.fixture(autouse=True)
def _user_of_test(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give each test, and the processes that it starts, a cache and settings of its own."""
    with _replace_user_folders(tmp_path_factory):
        yield


@contextmanager
def _replace_user_folders(factory: pytest.TempPathFactory) -> Iterator[None]:
    """Name folders that do not exist and that no other test uses."""
    folder = factory.getbasetemp() / "user" / str(next(_NUMBERS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(folder / "cache"))
        patch.setenv(CONFIG_VARIABLE, str(folder / "config"))
        yield


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Restore process-wide state that a test replaces: listener, invocation and signals."""
    listener, invoked = output._active_listener[0], invocation._current[0]
    handlers = {number: signal.getsignal(number) for number in list_exit_signals()}
    yield
    output.set_listener(listener)
    invocation._current[0] = invoked
    for number, handler in handlers.items():
        signal.signal(number, handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many tests of each tier were not run, and how to run them."""
    for tier, count in terminalreporter.config.stash.get(_LEFT_OUT, {}).items():
        variable, cost = TIERS[tier]
        terminalreporter.write_line(
            f"not run: {count} {tier} tests ({cost}); {variable}=1 pytest runs them too"
        )
