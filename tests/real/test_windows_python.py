"""The unit tests, run by a Python for Windows: its paths, files, processes, encodings and locks.

Chosen are the packages that touch the system (`_PACKAGES`); the others only compute.
"""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.real.wine import Wine
from tests.support.yard import ROOT

pytestmark = pytest.mark.real

_STAGES = ("deps", "env", "install", "source", "wheel")
_PACKAGES = ("jobs", "lock", "runlog", "system", "wheels", *(f"stages/{name}" for name in _STAGES))
_COMPUTES = ("deps_plan", "renewal")
_POOL = ("semaphore", "jobserver", "jobserver_ends")
_ELSEWHERE = [f"--ignore-glob=*/test_{name}.py" for name in ("jobobject", *_POOL)]
_CHOSEN = [f"tests/unit/{name}" for name in _PACKAGES]
_QUIET = ("-o", "addopts=", "-p", "no:cacheprovider", "-q", "--tb=short", "-r", "fE")
_LEAST = 900  # tests that have to pass


@pytest.fixture(scope="module")
def checkout(wine: Wine) -> Wine:
    """A copy of ours where the programs for Windows are."""
    place = wine.folder("yard")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place / name)
    return wine


def test_the_unit_tests_pass_on_a_python_for_windows(checkout: Wine) -> None:
    left_out = [f"--ignore-glob=*/test_{name}*.py" for name in _COMPUTES]
    told = pytest_of(checkout, *_CHOSEN, *left_out, *_ELSEWHERE)
    assert counted(told, "passed") > _LEAST, told


def test_a_command_ends_with_everyone_that_it_started(checkout: Wine) -> None:
    told = pytest_of(checkout, "tests/unit/system/test_jobobject.py")
    assert counted(told, "passed") >= 7, told


def test_ninjas_share_a_semaphore_that_is_whole_after_each_end(checkout: Wine) -> None:
    told = pytest_of(checkout, *(f"tests/unit/jobs/test_{name}.py" for name in _POOL))
    assert counted(told, "passed") >= 30, told


def pytest_of(wine: Wine, *chosen: str) -> str:
    """What it said; it has to end well."""
    code, out = wine.python("-m", "pytest", *_QUIET, *chosen, at=wine.inside("yard"))
    told = out.decode("utf-8", "replace")
    assert code == 0, told[-8000:]
    return told


def counted(told: str, what: str) -> int:
    found = re.search(rf"(\d+) {what}\b", told.splitlines()[-1])
    return int(found[1]) if found else 0
