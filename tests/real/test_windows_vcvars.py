"""The environment of MSVC, captured by torchyard's own code in a Python for Windows, through Wine's
cmd.exe, from a vcvarsall.bat of the test's.
"""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from tests.real.wine import Wine, windows
from tests.yard import ROOT

pytestmark = pytest.mark.real

NAME = "vc (x86) & 100! ü^=ж"
VERSION = "14.44.35207"
# Values as a person's folders may have them. cmd reads a script in the machine's code page: what is
# beyond it comes from the folder's name, which has no percent sign: Wine's cmd drops it from %~dp0.
SCRIPT = r"""@echo off
if not "%~1 %~2 %~3"=="x64 -vcvars_ver VERSION" goto failed
if defined VSCMD_VER goto failed
echo a banner, which is not to be taken for a variable=x
echo on standard error>&2
if defined TORCHYARD_TEST_BROKEN goto failed
set "VCToolsInstallDir=%~dp0..\..\Tools\MSVC\VERSION\"
set "VCToolsVersion=VERSION"
set "VSCMD_VER=17.14.36"
set "__VSCMD_PREINIT_PATH=%PATH%"
set "WindowsSdkDir=C:\Program Files (x86)\Windows Kits\10\"
set "WindowsSDKVersion=10.0.26100.0\"
set "INCLUDE=%VCToolsInstallDir%include;%WindowsSdkDir%include\ucrt;D:\a=b"
set "BANG=a!b^c%%d%%(e)&f|g<h>"
set "QUOTED="half" and 'half'"
set "PATH=%VCToolsInstallDir%bin\HostX64\x64;%WindowsSdkDir%bin\x64;;%PATH%;C:\end"
set "TEMP=%TEMP%"
set PROMPT=$G
exit /b 0
:failed
echo [ERROR:vcvars.bat] Toolset directory for version '%~3' was not found.
exit /b 0
""".replace("VERSION", VERSION)
CAPTURE = """
import json, os, sys
from tasks.effects import shell, vcvars
from tasks.effects.visualstudio import Installation, Taken
from tasks.errors import MissingToolError
from tasks.stages.deps.job import Program
folder, version = sys.argv[1:]
shell.PASSED |= {"TORCHYARD_TEST_BROKEN"}
of = Installation("Build Tools 2022", "17.14.36", folder, (version,))
try:
    found = vcvars.capture(Taken(Program(of.cl(version), version), of))
    told = {"by": found.by, "set": dict(found.set), "path": found.path}
except MissingToolError as error:
    told = {"what": error.what}
print("told", json.dumps(told))
"""


BUILD = ("VC", "Auxiliary", "Build")


def capture(wine: Wine, **env: str) -> dict[str, Any]:
    """What `vcvars.capture` makes of the script, in a folder whose name is a trial."""
    folder = wine.folder(NAME).joinpath(*BUILD)
    folder.mkdir(parents=True)
    (folder / "vcvarsall.bat").write_bytes(SCRIPT.replace("\n", "\r\n").encode())
    ours = wine.folder("capture")
    shutil.copytree(ROOT / "tasks", ours / "tasks", ignore=shutil.ignore_patterns("__pycache__"))
    (ours / "capture.py").write_text(CAPTURE, encoding="utf-8")
    inside = wine.inside("capture")
    argv = (windows(inside / "capture.py"), windows(wine.inside(NAME)), VERSION)
    code, out = wine.python(*argv, at=inside, env=env)
    assert code == 0, out
    told: dict[str, Any] = json.loads(out.splitlines()[-1].removeprefix(b"told "))
    return told


def test_what_a_script_sets_is_read_back_exactly(wine: Wine) -> None:
    # as a developer prompt of another compiler has it, none of which may come through
    prompt = {"INCLUDE": "C:\\old", "LIB": "C:\\old", "VSCMD_VER": "16.0", "VCTOOLSVERSION": "14.2"}
    here = f"{windows(wine.inside(NAME).joinpath(*BUILD))}\\..\\..\\Tools\\MSVC\\{VERSION}\\"
    kits = "C:\\Program Files (x86)\\Windows Kits\\10\\"
    assert capture(wine, **prompt) == {
        "by": "vcvarsall x64 of Build Tools 2022 17.14, toolset 14.44",
        "set": {
            "BANG": "a!b^c%d%(e)&f|g<h>",
            "INCLUDE": rf"{here}include;{kits}include\ucrt;D:\a=b",
            "QUOTED": "\"half\" and 'half'",
            "VCToolsInstallDir": here,
            "VCToolsVersion": VERSION,
            "WindowsSDKVersion": "10.0.26100.0\\",
            "WindowsSdkDir": kits,
        },
        "path": [rf"{here}bin\HostX64\x64", rf"{kits}bin\x64"],
    }


def test_a_script_that_fails_with_exit_0_is_quoted(wine: Wine) -> None:
    assert capture(wine, TORCHYARD_TEST_BROKEN="1") == {
        "what": f"vcvarsall.bat did not set up toolset {VERSION} for x64: [ERROR:vcvars.bat] "
        f"Toolset directory for version '{VERSION}' was not found."
    }
