"""Variables set by vcvarsall are captured or refused; cmd.exe is a fake (Wine: tests/real)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_mock import MockerFixture

from tasks.core.deps_model import MsvcEnvironment, Program
from tasks.core.errors import MissingToolError
from tasks.system import shell
from tasks.system.hardware import msvc_toolsets
from tasks.system.hardware.msvc_toolsets import ChosenToolset, VisualStudioInstallation

VS = r"C:\Program Files (x86)\Microsoft Visual Studio\2022\BuildTools"
TOOLSET = rf"{VS}\VC\Tools\MSVC\14.44.35207"
BIN = rf"{TOOLSET}\bin\HostX64\x64"  # as vcvarsall spells it
KITS = "C:\\Program Files (x86)\\Windows Kits\\10\\"
BEFORE = {"COMSPEC": r"C:\Windows\System32\cmd.exe", "PATH": r"C:\Windows\System32;C:\Windows"}
SET = {
    "INCLUDE": rf"{TOOLSET}\include;{KITS}include\10.0.26100.0\ucrt",
    "LIB": rf"{TOOLSET}\lib\x64;{KITS}lib\10.0.26100.0\um\x64",
    "VCToolsInstallDir": f"{TOOLSET}\\",
    "VCToolsVersion": "14.44.35207",
    "WindowsSDKVersion": "10.0.26100.0\\",
    "WindowsSdkDir": KITS,
}
MORE = {
    "PATH": rf"{BIN};{KITS}bin\10.0.26100.0\\x64;;{BEFORE['PATH']};{VS}\Common7\IDE\CMake\bin",
    "PROMPT": "$P$G",
    "VSCMD_VER": "17.14.36",
    "__VSCMD_PREINIT_PATH": "C:\\x",
}


def printed(variables: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\r\n" for name, value in variables.items())


def format_set_output(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    between = f"{msvc_toolsets.OUTPUT_SEPARATOR}\r\n=ExitCode=0\r\n"
    return f"=C:=C:\\x\r\n{printed(before)}{between}{printed(after)}"


def taken() -> ChosenToolset:
    cl = Program(rf"{TOOLSET}\bin\Hostx64\x64\cl.exe", "14.44.35207")
    return ChosenToolset(
        cl, VisualStudioInstallation("Build Tools 2022", "17.14.36", VS, ("14.44.35207",))
    )


@pytest.fixture
def cmd(mocker: MockerFixture) -> MagicMock:
    """Fake cmd.exe; the test sets its output."""
    return mocker.patch.object(shell, "capture_output", autospec=True)


def test_only_variables_set_by_vcvarsall_are_captured(cmd: MagicMock) -> None:
    cmd.side_effect = [format_set_output(BEFORE, {**BEFORE, **SET, **MORE})]
    assert msvc_toolsets.capture_msvc_environment(taken()) == MsvcEnvironment(
        by="vcvarsall x64 of Build Tools 2022 17.14, toolset 14.44",
        set=SET,
        path=(BIN, rf"{KITS}bin\10.0.26100.0\\x64"),
    )


def test_vcvarsall_runs_in_its_folder_to_avoid_quotes(
    cmd: MagicMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMSPEC", r"C:\Windows\System32\cmd.exe")
    cmd.side_effect = [format_set_output(BEFORE, {**BEFORE, **SET, **MORE})]
    msvc_toolsets.capture_msvc_environment(taken())
    (asked,) = cmd.call_args.args
    line = "set&echo #torchyard#&call .\\vcvarsall.bat x64 -vcvars_ver=14.44.35207 >nul 2>nul&set"
    assert asked.argv == (r"C:\Windows\System32\cmd.exe", "/d", "/u", "/s", "/c", line)
    assert '"' not in line
    assert asked.cwd == Path(taken().installation.vcvarsall).parent
    assert asked.encoding == "utf-16-le"


@pytest.mark.parametrize("missing", ["VCToolsInstallDir", "PATH"])
def test_failure_with_exit_code_0_shows_error_output(cmd: MagicMock, missing: str) -> None:
    after = {name: value for name, value in {**BEFORE, **SET, **MORE}.items() if name != missing}
    words = "[ERROR:vcvars.bat] Toolset directory for version '14.44' was not found."
    cmd.side_effect = [format_set_output(BEFORE, after), f"** banner **\r\n{words}\r\n"]
    with pytest.raises(MissingToolError) as caught:
        msvc_toolsets.capture_msvc_environment(taken())
    what = "vcvarsall.bat did not set up toolset 14.44.35207 for x64"
    assert caught.value.message == f"{what}: {words}"
    assert caught.value.location == taken().installation.vcvarsall
    assert "Visual Studio Installer" in caught.value.hint
    assert cmd.call_args.args[0].argv[-1].endswith("-vcvars_ver=14.44.35207 2>&1")


def test_unexpected_toolset_is_refused(cmd: MagicMock) -> None:
    other = {**MORE, "PATH": MORE["PATH"].replace("14.44.35207", "14.42.34433")}
    cmd.side_effect = [format_set_output(BEFORE, {**BEFORE, **SET, **other}), ""]
    with pytest.raises(MissingToolError, match=r"did not set up toolset 14\.44\.35207 for x64"):
        msvc_toolsets.capture_msvc_environment(taken())


def test_missing_windows_sdk_is_refused(cmd: MagicMock) -> None:
    without = {name: value for name, value in SET.items() if not name.startswith("Windows")}
    cmd.side_effect = [format_set_output(BEFORE, {**BEFORE, **without, **MORE}), ""]
    with pytest.raises(MissingToolError, match="found no Windows SDK"):
        msvc_toolsets.capture_msvc_environment(taken())


def test_empty_output_is_refused(cmd: MagicMock) -> None:
    cmd.side_effect = ["", ""]
    with pytest.raises(MissingToolError, match="did not set up"):
        msvc_toolsets.capture_msvc_environment(taken())


def test_clean_environment_uses_only_system_folders() -> None:
    env = {"SystemRoot": r"D:\Windows", "Path": r"C:\VS\bin;C:\MinGW\bin", "TEMP": r"C:\T"}
    assert msvc_toolsets.build_clean_environment(env) == {
        "SystemRoot": r"D:\Windows",
        "TEMP": r"C:\T",
        "PATH": r"D:\Windows\System32;D:\Windows;D:\Windows\System32\Wbem;"
        r"D:\Windows\System32\WindowsPowerShell\v1.0",
        "VSCMD_SKIP_SENDTELEMETRY": "1",
    }


def test_developer_prompt_variables_are_removed(
    cmd: MagicMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = (
        "INCLUDE",
        "LIB",
        "LIBPATH",
        "VSCMD_VER",
        "VCTOOLSVERSION",
        "WINDOWSSDKDIR",
        "VSINSTALLDIR",
    )
    for name in names:
        monkeypatch.setenv(name, "of the prompt")
    cmd.side_effect = [format_set_output(BEFORE, {**BEFORE, **SET, **MORE})]
    msvc_toolsets.capture_msvc_environment(taken())
    assert "of the prompt" not in cmd.call_args.args[0].env.values()


def test_sdk_header_is_named_to_detect_its_removal() -> None:
    captured = MsvcEnvironment("", SET, ())
    assert msvc_toolsets.find_sdk_header(captured) == rf"{KITS}Include\10.0.26100.0\um\Windows.h"
    assert (
        msvc_toolsets.find_sdk_header(MsvcEnvironment("", {}, ()))
        == msvc_toolsets.find_sdk_header(None)
        == ""
    )


NAMES = st.text(
    st.characters(codec="utf-16", exclude_categories=("C", "Z"), exclude_characters="="), min_size=1
)
LINES = st.characters(codec="utf-16", exclude_categories=["Cs"], exclude_characters="\r\n")
VALUES = st.text(LINES, min_size=1)
FOLDERS = st.lists(
    st.from_regex(r"[C-F]:\\[A-Za-zäé ().&!%^=+-]{1,9}[a-z]", fullmatch=True),
    unique_by=str.casefold,
    max_size=6,
)


@given(st.dictionaries(NAMES, VALUES), st.dictionaries(NAMES, VALUES))
def test_set_output_round_trips(before: dict[str, str], after: dict[str, str]) -> None:
    raw = format_set_output(before, after).encode("utf-16-le").decode("utf-16-le")
    assert msvc_toolsets.parse_set_output(raw.replace("\r\n", "\n")) == (before, after)


@given(st.dictionaries(NAMES, VALUES), st.dictionaries(NAMES, VALUES))
def test_only_changed_variables_are_kept(before: dict[str, str], after: dict[str, str]) -> None:
    kept, _ = msvc_toolsets.compare_environments(before, after)
    old = {name.upper(): value for name, value in before.items()}
    assert all(after[name] == value for name, value in kept.items())
    for name, value in after.items():
        volatile = name.upper().startswith(("PROMPT", "PATH", "__VSCMD", "VSCMD", "ERRORLEVEL"))
        assert volatile or (name in kept) == (old.get(name.upper()) != value)


@given(FOLDERS, FOLDERS)
def test_new_folders_at_front_of_path_are_found(old: list[str], new: list[str]) -> None:
    known = {folder.casefold() for folder in old}
    new = [folder for folder in new if folder.casefold() not in known]
    shouted = [f"{folder.upper()}\\" for folder in old]
    after = {"Path": ";".join([*new, "", *new, *shouted, *(["C:\\end"] if old else [])])}
    kept, front = msvc_toolsets.compare_environments({"PATH": ";".join(old)}, after)
    assert (kept, front) == ({}, tuple(new))
