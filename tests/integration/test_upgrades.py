"""A compiler that is upgraded under its old name, and one that is merely touched."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import source_profile
from tests.support.ninjalog import made, products
from tests.support.yard import Yard

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform == "win32", reason="a compiler in a shell script"),
]


def compiler(path: Path, version: str) -> str:
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "g++ (ours) {version}" && exit\n'
        f'exec {shutil.which("g++")} "$@"\n',
        encoding="utf-8",
    )
    path.chmod(0o755)
    return str(path)


def test_a_compiler_that_was_upgraded_is_noticed_and_one_that_was_touched_costs_nothing(
    yard: Yard, tree: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "g++-mine"
    env = {"CC": str(shutil.which("gcc")), "CXX": compiler(mine, "13.1.0")}
    yard.profile(**source_profile(tree), build={"env": env, "target": "c10"})
    yard.must("build")
    assert "Up to date" in yard.must("build")
    before = made(tree / "build")

    os.utime(mine)
    out = yard.must("build")
    assert "Prepared deps" in out
    assert "Compil" not in out
    assert "Up to date" in yard.must("build")

    compiler(mine, "13.2.0")
    explained = yard.must("explain")
    assert "deps     runs" in explained
    out = yard.must("build")
    assert "wipe the build folder: the C++ compiler g++ (ours) 13.1.0" in out
    again = products(before, made(tree / "build"))
    assert {"core.cpp.o", "text.cpp.o", "libc10.so"} <= again
    assert "Up to date" in yard.must("build")
