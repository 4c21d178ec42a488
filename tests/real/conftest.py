"""The Debian root of the tests on PyTorch's own tree: made once, and kept."""

from __future__ import annotations

import sys

import pytest

from tests.real.debian import Debian, where
from tests.real.wine import Wine


@pytest.fixture(scope="session")
def debian() -> Debian:
    made = Debian(where())
    if why := "Windows and macOS have no Debian root" * (sys.platform != "linux") or made.why_not():
        pytest.skip(f"not run: {why}")
    made.prepare()
    return made


@pytest.fixture(scope="session")
def debian_cuda(debian: Debian) -> Debian:
    debian.script("cuda")
    return debian


@pytest.fixture(scope="session")
def wine(debian: Debian) -> Wine:
    made = Wine(debian)
    made.prepare()
    return made
