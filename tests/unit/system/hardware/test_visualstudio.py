"""The choice of a Visual Studio; vswhere is a script with fabricated output."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tasks.core.deps_model import CompilerLimits
from tasks.core.errors import MissingToolError
from tasks.system.hardware import msvc_toolsets

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="not run: vswhere as a script")
CUDA_129 = CompilerLimits(cuda="12.9", msvc=(1910, 1950))
CUDA_123 = CompilerLimits(cuda="12.3", msvc=(1910, 1940))


@dataclass
class Windows:
    """A folder of installations, and the vswhere output that describes them."""

    root: Path
    rows: list[object]

    def has(self, name: str, version: str, *toolsets: str) -> str:
        """Add an installation with these toolsets, and return its folder."""
        path = self.root / name
        for toolset in toolsets:
            cl = path / "VC/Tools/MSVC" / toolset / "bin/Hostx64/x64/cl.exe"
            cl.parent.mkdir(parents=True)
            cl.touch()
        self.rows.append(
            {
                "installationPath": str(path),
                "installationVersion": f"{version.partition('.')[0]}.0.34916.146",
                "displayName": name,
                "catalog": {"productDisplayVersion": version},
            }
        )
        self.write(json.dumps(self.rows))
        return str(path)

    def write(self, text: str, code: int = 0) -> None:
        """Let vswhere print `text` when it is asked for all products with the C++ tools."""
        folder = self.root / "Microsoft Visual Studio" / "Installer"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "told.json").write_text(text, encoding="utf-8")
        script = folder / "vswhere.exe"
        asked = f"-products * -requires {msvc_toolsets.REQUIRED_COMPONENT} -format json -utf8"
        script.write_text(
            f'#!/bin/sh\n[ "$*" = "{asked}" ] || exit 87\ncat "{folder}/told.json"\nexit {code}\n',
            encoding="utf-8",
        )
        script.chmod(0o755)


@pytest.fixture
def windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Windows:
    monkeypatch.setenv("PROGRAMFILES(X86)", str(tmp_path))
    for name in ("VCTOOLSVERSION", "VSINSTALLDIR", "VSCMD_VER"):
        monkeypatch.delenv(name, raising=False)
    return Windows(tmp_path, [])


def test_installations_are_listed_newest_first(windows: Windows) -> None:
    windows.has("Build Tools 2022", "17.9.7", "14.39.33519")
    windows.has("Community 2022", "17.14.36", "14.29.30133", "14.44.35207")
    found = msvc_toolsets.find_installations()
    assert [item.version for item in found] == ["17.14.36", "17.9.7"]
    assert found[0].toolsets == ("14.44.35207", "14.29.30133")


def test_newest_toolset_is_used_without_explanation_if_supported(windows: Windows) -> None:
    path = windows.has("Build Tools 2022", "17.14.36", "14.29.30133", "14.44.35207")
    taken = msvc_toolsets.choose_toolset(CUDA_129)
    assert taken.cl.path == f"{path}/VC/Tools/MSVC/14.44.35207/bin/Hostx64/x64/cl.exe"
    assert (taken.cl.version, taken.why) == ("14.44.35207", "")
    assert taken.installation.vcvarsall == f"{path}/VC/Auxiliary/Build/vcvarsall.bat"
    assert taken.setup_name == "vcvarsall x64 of Build Tools 2022 17.14, toolset 14.44"


def test_choice_of_older_visual_studio_is_explained(windows: Windows) -> None:
    windows.has("Community 2026", "18.1.0", "14.50.35717")
    older = windows.has("Build Tools 2022", "17.14.36", "14.44.35207")
    taken = msvc_toolsets.choose_toolset(CUDA_129)
    assert taken.cl.path.startswith(older)
    assert taken.why == (
        "Community 2026 18.1.0 (MSVC 14.50.35717, _MSC_VER 1950) is newer than CUDA 12.9 supports "
        "(_MSC_VER 1910 to 1949): Build Tools 2022 17.14.36 with toolset 14.44.35207 is used"
    )


def test_older_toolset_of_same_installation_is_used(windows: Windows) -> None:
    windows.has("Community 2022", "17.14.36", "14.39.33519", "14.44.35207")
    taken = msvc_toolsets.choose_toolset(CUDA_123)
    assert taken.cl.version == "14.39.33519"
    assert "Community 2022 17.14.36 with toolset 14.39.33519 is used" in taken.why


def test_unsupported_toolsets_error_names_toolset_to_install(windows: Windows) -> None:
    windows.has("Community 2026", "18.1.0", "14.50.35717")
    with pytest.raises(MissingToolError, match="newer than CUDA 12") as caught:
        msvc_toolsets.choose_toolset(CUDA_129)
    assert "MSVC build tools up to v14.49" in caught.value.hint


@pytest.mark.parametrize(("text", "code"), [("[]", 0), ("", 0), ("no JSON", 0), ("[]", 1)])
def test_missing_visual_studio_error_names_install_command(
    windows: Windows, text: str, code: int
) -> None:
    with pytest.raises(MissingToolError, match="this machine has no C"):
        msvc_toolsets.choose_toolset(CUDA_129)  # no vswhere either
    windows.write(text, code)
    with pytest.raises(MissingToolError, match="this machine has no C") as caught:
        msvc_toolsets.choose_toolset(CUDA_129)
    assert "winget install Microsoft.VisualStudio.2022.BuildTools" in caught.value.hint


@dataclass
class Prompt:
    """A developer prompt, defined by its variables."""

    monkeypatch: pytest.MonkeyPatch

    def of(self, folder: str, toolset: str) -> None:
        self.monkeypatch.setenv("VSINSTALLDIR", f"{folder}/")
        self.monkeypatch.setenv("VCTOOLSVERSION", toolset)
        self.monkeypatch.setenv("VSCMD_VER", "17.14.36")


@pytest.fixture
def prompt(monkeypatch: pytest.MonkeyPatch) -> Prompt:
    return Prompt(monkeypatch)


def test_supported_compiler_of_developer_prompt_is_preferred(
    windows: Windows, prompt: Prompt
) -> None:
    path = windows.has("Build Tools 2022", "17.14.36", "14.42.34433", "14.44.35207")
    prompt.of(path, "14.42.34433")
    taken = msvc_toolsets.choose_toolset(CUDA_129)
    assert taken.cl.path == f"{path}/VC/Tools/MSVC/14.42.34433/bin/Hostx64/x64/cl.exe"
    assert taken.why == (
        "doit runs in the developer prompt of this toolset: Build Tools 2022 17.14.36 with toolset "
        "14.42.34433 is used"
    )
    prompt.of(path, "14.44.35207")
    assert msvc_toolsets.choose_toolset(CUDA_129).why == ""


def test_replacing_unsupported_developer_prompt_is_explained(
    windows: Windows, prompt: Prompt
) -> None:
    newer = windows.has("Community 2026", "18.1.0", "14.50.35717")
    older = windows.has("Build Tools 2022", "17.14.36", "14.44.35207")
    prompt.of(newer, "14.50.35717")
    taken = msvc_toolsets.choose_toolset(CUDA_129)
    assert taken.installation.path == older
    assert taken.why == (
        "the compiler of this developer prompt (MSVC 14.50.35717, _MSC_VER 1950) is newer than "
        "CUDA 12.9 supports (_MSC_VER 1910 to 1949): Build Tools 2022 17.14.36 with toolset "
        "14.44.35207 is used"
    )


def test_unsupported_developer_prompt_error_names_toolset_to_install(
    windows: Windows, prompt: Prompt
) -> None:
    prompt.of(windows.has("Community 2026", "18.1.0", "14.50.35717"), "14.50.35717")
    with pytest.raises(MissingToolError, match=r"developer prompt \(MSVC 14\.50") as caught:
        msvc_toolsets.choose_toolset(CUDA_129)
    assert "MSVC build tools up to v14.49" in caught.value.hint


def test_developer_prompt_unknown_to_vswhere_is_used(windows: Windows, prompt: Prompt) -> None:
    path = windows.has("Portable", "17.14.36", "14.44.35207")
    windows.write("[]")
    prompt.of(path, "14.44.35207")
    taken = msvc_toolsets.choose_toolset(CUDA_129)
    assert taken.setup_name == "vcvarsall x64 of Visual Studio 17.14, toolset 14.44"
    assert taken.installation.vcvarsall == f"{path}/VC/Auxiliary/Build/vcvarsall.bat"


def test_developer_prompt_with_removed_toolset_is_ignored(windows: Windows, prompt: Prompt) -> None:
    path = windows.has("Build Tools 2022", "17.14.36", "14.44.35207")
    prompt.of(path, "14.42.34433")
    assert msvc_toolsets.choose_toolset(CUDA_129).cl.version == "14.44.35207"
