"""Fixtures of the unit tests, which use no network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.core.errors import FetchError
from tasks.planning import read_facts_io
from tasks.system import output
from tasks.system.hardware import operating_system
from tests.support.checkout import ROOT, Heard, OnSystem, pin_default_torch, write
from tests.support.terminal import Terminal


@pytest.fixture(autouse=True)
def no_package_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the package index unreachable, so that no unit test depends on its releases."""

    def refuse(place: str, **_: object) -> None:
        raise FetchError(f"{place} is not asked in unit tests")

    monkeypatch.setattr(read_facts_io, "open_package_index", refuse)


@pytest.fixture
def heard() -> Iterator[Heard]:
    found = Heard()
    before = output._active_listener[0]
    output.set_listener(found)
    yield found
    output.set_listener(before)


@pytest.fixture
def yard(tmp_path: Path) -> Path:
    """Return a checkout with the profile `mine`, which the test writes, and a fixed torch."""
    shutil.copytree(ROOT / "config" / "knowledge", tmp_path / "config" / "knowledge")
    (tmp_path / "config" / "profiles").mkdir()
    default = (ROOT / "config" / "default.yaml").read_text(encoding="utf-8")
    pinned = tmp_path / "config" / "default.yaml"
    pinned.write_text(pin_default_torch(default), encoding="utf-8")
    write(tmp_path, "target: {gpus: ['12.0']}\n")
    return tmp_path


@pytest.fixture
def on_system(monkeypatch: pytest.MonkeyPatch) -> OnSystem:
    """Make remedies apply to the system of these names: `fedora`, or `ubuntu` and `debian`."""
    return lambda *names: monkeypatch.setattr(operating_system, "list_system_names", lambda: names)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Simulate a terminal of 100 columns and 24 rows."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "24")
    return Terminal()
