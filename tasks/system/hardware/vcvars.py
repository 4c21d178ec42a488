"""The environment of MSVC, as vcvarsall.bat makes it: INCLUDE, LIB, PATH and what else it sets.

It is captured once, when the compiler is chosen, and from an environment without a developer
prompt's, so that a build is the same in a prompt of Visual Studio and in any other. It does not
know which toolset is to be taken; that is `tasks.system.hardware.visualstudio`.
"""

from __future__ import annotations

from collections.abc import Mapping
from ntpath import dirname
from pathlib import Path

from tasks.core.deps_model import MsvcEnvironment
from tasks.core.errors import MissingToolError
from tasks.core.model import Command
from tasks.system import shell
from tasks.system.hardware import cmdset
from tasks.system.hardware.visualstudio import ChosenToolset

_VCVARS_TIMEOUT = 120.0  # seconds: a cold disk and a virus scanner take many of them
_SHOWN_LINES = 3  # lines of what it said
_MODIFY_HINT = (
    "Visual Studio Installer → Modify → Desktop development with C++, with its MSVC build tools "
    "for x64 and a Windows SDK; then the same command again"
)


def capture_msvc_environment(taken: ChosenToolset) -> MsvcEnvironment:
    """What vcvarsall sets for x64 and this toolset.

    It ends with exit 0 also where it failed: raises `MissingToolError` with its own words where
    the compiler, or the Windows SDK, is not in what it made.
    """
    called = f"call .\\vcvarsall.bat x64 -vcvars_ver={taken.cl.version}"
    text = _run_cmd(
        taken, "/u", f"set&echo {cmdset.OUTPUT_SEPARATOR}&{called} >nul 2>nul&set", "utf-16-le"
    )
    variables, folders = cmdset.compare_environments(*cmdset.parse_set_output(text))
    what = _find_missing_part(taken, variables, folders)
    if what:
        said = _summarize_cmd_output(_run_cmd(taken, "/a", f"{called} 2>&1", "utf-8"))
        raise MissingToolError(
            f"{what}: {said}" if said else what,
            location=_find_vcvars_script(taken),
            hint=_MODIFY_HINT,
        )
    return MsvcEnvironment(taken.setup_name, variables, folders)


def build_clean_environment(env: Mapping[str, str]) -> dict[str, str]:
    """`env` with the system's own folders for PATH, in which vcvarsall looks for reg and findstr,
    and no telemetry, which it would start PowerShell for.
    """
    root = {name.upper(): value for name, value in env.items()}.get("SYSTEMROOT", r"C:\Windows")
    system = rf"{root}\System32"
    path = (system, root, rf"{system}\Wbem", rf"{system}\WindowsPowerShell\v1.0")
    rest = {name: value for name, value in env.items() if name.upper() != "PATH"}
    return {**rest, "PATH": ";".join(path), "VSCMD_SKIP_SENDTELEMETRY": "1"}


def find_sdk_header(captured: MsvcEnvironment | None) -> str:
    """A file of the Windows SDK that was captured: it goes, or is another one, with the SDK. ""
    where there is none.
    """
    found = captured.set if captured else {}
    folder, version = found.get("WindowsSdkDir", ""), found.get("WindowsSDKVersion", "")
    # as text: these end with a backslash, and here they may be read on another system
    return rf"{folder}Include\{version}um\Windows.h" if folder and version else ""


def _run_cmd(taken: ChosenToolset, output: str, line: str, encoding: str) -> str:
    """Run in the script's own folder, whose name can then hold what cmd would read in a line: a
    quote around it would have to be escaped, and cmd knows no way to.
    """
    env = build_clean_environment(shell.build_host_env())
    cmd = env.get("COMSPEC", "cmd.exe")
    what = "ask vcvarsall for the environment of MSVC"
    argv, folder = (cmd, "/d", output, "/s", "/c", line), Path(_find_vcvars_script(taken)).parent
    return shell.capture_output(
        Command(argv, env, what, cwd=folder, timeout=_VCVARS_TIMEOUT, encoding=encoding)
    )


def _find_vcvars_script(taken: ChosenToolset) -> str:
    return taken.installation.vcvarsall


def _find_missing_part(
    taken: ChosenToolset, variables: Mapping[str, str], folders: tuple[str, ...]
) -> str:
    names = {name.upper() for name in variables}
    with_cl = cmdset.normalize_folder(dirname(taken.cl.path))
    if "VCTOOLSINSTALLDIR" not in names or with_cl not in map(cmdset.normalize_folder, folders):
        return f"vcvarsall.bat did not set up toolset {taken.cl.version} for x64"
    return "" if "WINDOWSSDKDIR" in names else "vcvarsall.bat found no Windows SDK"


def _summarize_cmd_output(text: str) -> str:
    """Its errors where it names some, else how it ended."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("[ERROR")]
    return "; ".join((errors or lines)[-_SHOWN_LINES:])
