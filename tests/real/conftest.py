"""The Debian root of the tests on PyTorch's own tree: made once, and kept."""

from __future__ import annotations

import os
import sys

import pytest

from tests.real.debian import Debian, where


@pytest.fixture(scope="session")
def debian() -> Debian:
    if sys.platform != "linux" or os.geteuid():
        pytest.skip("not run: a Debian root is made by root, on Linux with apt")
    made = Debian(where())
    made.prepare()
    return made


@pytest.fixture(scope="session")
def debian_cuda(debian: Debian) -> Debian:
    debian.script("cuda")
    return debian
