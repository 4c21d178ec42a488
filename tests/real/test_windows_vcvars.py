"""The environment of MSVC, captured by torchyard's own code in a Python for Windows, through Wine's
cmd.exe, from a vcvarsall.bat of the test's.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.real.debian import VENV
from tests.real.wine import SITE, Wine, windows
from tests.support.yard import ROOT, Yard

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
from tasks.system import shell
from tasks.system.hardware import msvc_toolsets
from tasks.system.hardware.msvc_toolsets import VisualStudioInstallation, ChosenToolset
from tasks.core.errors import MissingToolError
from tasks.core.deps_model import Program
folder, version = sys.argv[1:]
shell.PASSED_VARIABLES |= {"TORCHYARD_TEST_BROKEN"}
of = VisualStudioInstallation("Build Tools 2022", "17.14.36", folder, (version,))
try:
    cl = Program(of.build_cl_path(version), version)
    found = msvc_toolsets.capture_msvc_environment(ChosenToolset(cl, of))
    told = {"by": found.by, "set": dict(found.set), "path": found.path}
except MissingToolError as error:
    told = {"what": error.message}
print("told", json.dumps(told))
"""


BUILD = ("VC", "Auxiliary", "Build")


def install(wine: Wine, name: str) -> Path:
    """A Visual Studio of a script and an empty compiler; returns the compiler."""
    folder = wine.folder(name)
    script = folder.joinpath(*BUILD, "vcvarsall.bat")
    compiler = folder.joinpath("VC", "Tools", "MSVC", VERSION, "bin", "Hostx64", "x64", "cl.exe")
    for file in (script, compiler):
        file.parent.mkdir(parents=True)
    script.write_bytes(SCRIPT.replace("\n", "\r\n").encode())
    compiler.write_bytes(b"MZ")
    return compiler


def capture(wine: Wine, **env: str) -> dict[str, Any]:
    """What `vcvars.capture` makes of the script, in a folder whose name is a trial."""
    install(wine, NAME)
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


def test_doit_makes_the_build_environment_in_a_developer_prompt(wine: Wine) -> None:
    compiler = install(wine, "vs")
    folder, at = wine.folder("yard"), wine.inside("yard")
    Yard(folder)
    prompt = {"VSINSTALLDIR": windows(wine.inside("vs")), "VCTOOLSVERSION": VERSION, "CI": "true"}

    def doit() -> str:
        code, out = wine.python("-m", "doit", "env", "profile=cpu", at=at, env=prompt)
        assert code == 0, out.decode(errors="replace")
        return out.decode(errors="replace")

    assert "Rendered env" in doit()
    venv = f"{windows(at)}\\build\\cpu\\venv"
    deps = json.loads((folder / "build/cpu/deps.json").read_text(encoding="utf-8"))
    assert deps["cxx"]["version"] == deps["msvc"]["set"]["VCToolsVersion"] == VERSION
    assert deps["ninja"]["path"] == f"{venv}\\Scripts\\ninja.exe"
    assert deps["cmake"]["path"] == f"{venv}\\Scripts\\cmake.exe"
    env = json.loads((folder / "build/cpu/extension-env.json").read_text(encoding="utf-8"))
    assert env["set"]["INCLUDE"] == deps["msvc"]["set"]["INCLUDE"]
    assert env["prepend"]["PATH"] == [f"{venv}\\Scripts", *deps["msvc"]["path"]]
    assert "Up to date" in doit()
    compiler.write_bytes(b"MZ, serviced")  # Visual Studio was updated
    out = doit()
    assert "Prepared deps" in out
    assert "Rendered env" in out


@pytest.mark.parametrize("tool", ["uv", "pip"])
def test_programs_beside_an_existing_interpreter_are_in_bin(wine: Wine, tool: str) -> None:
    folder, at = wine.folder(f"target-{tool}"), wine.inside(f"target-{tool}")
    lib = folder / "lib"
    pip = wine.debian.outside(VENV) / "lib/python3.13/site-packages/pip"
    shutil.copytree(pip, lib / "pip", ignore=shutil.ignore_patterns("__pycache__"))
    uv = "environments.find_uv()" if tool == "uv" else "None"
    code = (
        "import sys; from pathlib import Path;"
        "from tasks.system import environments, package_installer;"
        f"places = {uv}, Path('log').absolute(), Path('out');"
        "into = package_installer.PackageInstaller(sys.executable, *places);"
        "into.install_requirements(['ninja'])"
    )
    shutil.copytree(ROOT / "tasks", folder / "tasks")
    path = f"{windows(SITE)};{windows(at / 'lib')}"
    done, out = wine.python("-c", code, at=at, env={"PYTHONPATH": path})
    assert done == 0, out.decode(errors="replace")
    assert (folder / "out" / "bin" / "ninja.exe").is_file()
