"""What is for Windows, run by Wine's cmd.exe and by a Python for Windows."""

from __future__ import annotations

import json

import pytest

from tests.real.wine import Wine, windows

pytestmark = pytest.mark.real


def test_the_python_for_windows_is_one(wine: Wine) -> None:
    code, out = wine.python(
        "-c", "import json, os, sys; print(json.dumps([os.name, sys.platform]))"
    )
    assert code == 0, out
    assert json.loads(out.splitlines()[-1]) == ["nt", "win32"]


def test_cmd_takes_a_script(wine: Wine) -> None:
    (wine.folder("cmd") / "hello.bat").write_text("@echo %CD%\r\n")
    code, out = wine.cmd("/c", windows(wine.inside("cmd") / "hello.bat"), at=wine.inside("cmd"))
    assert (code, out.splitlines()[-1]) == (0, rb"Z:\src\wine\tests\cmd")
