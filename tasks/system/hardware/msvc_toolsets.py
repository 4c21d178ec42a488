"""Find Visual Studio installations and their C++ toolsets that the CUDA toolkit supports."""

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from ntpath import dirname, normcase, normpath
from pathlib import Path
from typing import Any

from tasks.core.deps_model import CompilerLimits, MsvcEnvironment, Program
from tasks.core.errors import MissingToolError
from tasks.core.model import Command
from tasks.knowledge.host_compilers import (
    MSVC_INSTALL_COMMAND,
    HostCompiler,
    explain_compiler_rejection,
)
from tasks.knowledge.versions import format_major_minor, parse_version_numbers
from tasks.system import shell

REQUIRED_COMPONENT = "Microsoft.VisualStudio.Component.VC.Tools.x86.x64"
_TOOLSETS_FOLDER = ("VC", "Tools", "MSVC")
_CL_PATH = Path("bin", "Hostx64", "x64", "cl.exe")
_VSWHERE_TIMEOUT = 10.0  # seconds


@dataclass(frozen=True)
class VisualStudioInstallation:
    """An installation of Visual Studio, or of its Build Tools, with the C++ tools for x64.

    `version` is like "17.14.36". `toolsets` are versions like "14.44.35207", the newest first.
    """

    name: str
    version: str
    path: str
    toolsets: tuple[str, ...]

    def build_cl_path(self, toolset: str) -> str:
        """Return the path of a toolset's compiler."""
        return str(Path(self.path, *_TOOLSETS_FOLDER, toolset) / _CL_PATH)

    @property
    def vcvarsall(self) -> str:
        """Return the path of the script that sets up the environment of a toolset."""
        return str(Path(self.path, "VC", "Auxiliary", "Build", "vcvarsall.bat"))


@dataclass(frozen=True)
class ChosenToolset:
    """The chosen compiler `cl` and its installation. `why` explains an unusual choice."""

    cl: Program
    installation: VisualStudioInstallation
    why: str = ""

    @property
    def setup_name(self) -> str:
        """Return a name made of the Visual Studio release and the compiler's version."""
        release = format_major_minor(self.installation.version)
        toolset = format_major_minor(self.cl.version)
        return f"vcvarsall x64 of {self.installation.name} {release}, toolset {toolset}"


def run_vswhere(*options: str) -> list[Any] | None:
    """Return vswhere's JSON rows for all editions of Visual Studio; None if vswhere fails."""
    programs = Path(os.environ.get("PROGRAMFILES(X86)", r"C:\Program Files (x86)"))
    vswhere = str(programs / "Microsoft Visual Studio" / "Installer" / "vswhere.exe")
    argv = (vswhere, "-products", "*", *options, "-format", "json", "-utf8")
    text = shell.try_capture(*argv, what="look for Visual Studio", timeout=_VSWHERE_TIMEOUT)
    rows = None
    with contextlib.suppress(ValueError):
        rows = None if text is None else json.loads(text or "[]")
    return rows if isinstance(rows, list) else None


def find_installations() -> tuple[VisualStudioInstallation, ...]:
    """Return the installations with the C++ tools, the newest first; () without vswhere."""
    rows = map(parse_vswhere_row, run_vswhere("-requires", REQUIRED_COMPONENT) or ())
    found = [VisualStudioInstallation(*row, _list_toolsets(row[2])) for row in rows]
    return tuple(sorted(found, key=lambda item: parse_version_numbers(item.version), reverse=True))


def choose_toolset(limits: CompilerLimits) -> ChosenToolset:
    """Return the newest supported toolset, from the newest installation that has any.

    In a developer prompt, the toolset of that prompt is returned if it is supported. Raises
    `MissingToolError` if there is no supported toolset.
    """
    installations = find_installations()
    prompt = _find_prompt_toolsets(installations)
    installed = [_ToolsetCandidate(item, name) for item in installations for name in item.toolsets]
    candidates = [*prompt, *installed]
    if not candidates:
        raise MissingToolError("this machine has no C++ compiler", hint=MSVC_INSTALL_COMMAND)
    chosen = next((item for item in candidates if not item.explain_refusal(limits)), None)
    why = candidates[0].explain_refusal(limits)
    if chosen is None:
        newest = f"v14.{limits.msvc[1] - 1901 if limits.msvc else 0}"
        hint = (
            f"install MSVC build tools up to {newest} (Visual Studio Installer → Modify → "
            "Individual components), or choose a newer toolkit.version"
        )
        raise MissingToolError(why, location=candidates[0].installation.path, hint=hint)
    default = next((item for item in installed if not item.explain_refusal(limits)), chosen)
    item, toolset = chosen.installation, chosen.version
    is_default = (item.path, toolset) == (default.installation.path, default.version)
    if chosen in prompt and not is_default:
        why = "doit runs in the developer prompt of this toolset"
    used = f"{item.name} {item.version} with toolset {toolset} is used"
    cl = Program(item.build_cl_path(toolset), toolset)
    return ChosenToolset(cl, item, f"{why}: {used}" if why else "")


@dataclass(frozen=True)
class _ToolsetCandidate:
    """A toolset to choose from. Messages use `name` or, if it is "", the installation's name."""

    installation: VisualStudioInstallation
    version: str
    name: str = ""

    def explain_refusal(self, limits: CompilerLimits) -> str:
        name = self.name or f"{self.installation.name} {self.installation.version}"
        return explain_compiler_rejection(limits, HostCompiler(name, "msvc", self.version))


def _find_prompt_toolsets(known: tuple[VisualStudioInstallation, ...]) -> list[_ToolsetCandidate]:
    """Return the toolsets of the developer prompt, if there is one; the active toolset is first."""
    folder, version = os.environ.get("VSINSTALLDIR", ""), os.environ.get("VSCMD_VER", "")
    if not folder:
        return []
    unknown = VisualStudioInstallation("Visual Studio", version, folder, _list_toolsets(folder))
    installation = next((item for item in known if Path(item.path) == Path(folder)), unknown)
    first = os.environ.get("VCTOOLSVERSION", "")
    toolsets = sorted(installation.toolsets, key=lambda toolset: toolset != first)
    names = {first: "the compiler of this developer prompt"}
    return [_ToolsetCandidate(installation, name, names.get(name, "")) for name in toolsets]


def parse_vswhere_row(row: dict[str, object]) -> tuple[str, str, str]:
    """Return the name, displayed version (such as 17.14.36) and folder in a row of vswhere."""
    catalog = row.get("catalog")
    display_version = catalog.get("productDisplayVersion") if isinstance(catalog, dict) else ""
    version = display_version or row.get("installationVersion", "")
    name, path = row.get("displayName", "Visual Studio"), row.get("installationPath", "")
    return str(name), str(version), str(path)


def _list_toolsets(path: str) -> tuple[str, ...]:
    compilers = Path(path, *_TOOLSETS_FOLDER).glob(str(Path("*") / _CL_PATH))
    names = [compiler.parents[3].name for compiler in compilers]
    return tuple(sorted(names, key=parse_version_numbers, reverse=True))


OUTPUT_SEPARATOR = "#torchyard#"  # the line between the two outputs of `set`
# Not captured: variables of cmd, and those in which vcvarsall stores the calling prompt. VSCMD_VER
# is the release of Visual Studio, which can change while the compilers do not. Without the other
# two VSCMD variables, a later vcvarsall would try to undo the captured ones.
_VOLATILE_VARIABLES = ("__VSCMD_PREINIT_", "VSCMD_VER", "VSCMD_START_DIR", "PROMPT", "ERRORLEVEL")


def parse_set_output(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables before and after vcvarsall ran; ({}, {}) without `OUTPUT_SEPARATOR`."""
    lines = text.replace("\r\n", "\n").split("\n")
    if OUTPUT_SEPARATOR not in lines:
        return {}, {}
    middle = lines.index(OUTPUT_SEPARATOR)
    return _parse_variables(lines[:middle]), _parse_variables(lines[middle + 1 :])


def _parse_variables(lines: list[str]) -> dict[str, str]:
    pairs = (line.partition("=") for line in lines if not line.startswith("="))
    return {name: value for name, equals, value in pairs if equals}


def compare_environments(
    before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the new or changed variables except PATH, and the folders prepended to PATH."""
    old = {name.upper(): value for name, value in before.items()}
    changed = {name: value for name, value in after.items() if old.get(name.upper()) != value}
    path = next((value for name, value in changed.items() if name.upper() == "PATH"), "")
    names = {name: name.upper() for name in sorted(changed) if name.upper() != "PATH"}
    kept = (name for name in names if not names[name].startswith(_VOLATILE_VARIABLES))
    previous = {_normalize_folder(folder) for folder in old.get("PATH", "").split(";") if folder}
    prepended: dict[str, str] = {}
    for folder in filter(None, path.split(";")):
        if _normalize_folder(folder) in previous:
            break
        prepended.setdefault(_normalize_folder(folder), folder)
    return {name: changed[name] for name in kept}, tuple(prepended.values())


def _normalize_folder(folder: str) -> str:
    r"""Return the same text for all spellings of a folder, such as `C:\VS\VC\..` and `c:/vs`."""
    return normcase(normpath(folder))


_VCVARS_TIMEOUT = 120.0  # seconds: high because of cold disks and virus scanners
_MODIFY_HINT = (
    "install Desktop development with C++, with its MSVC build tools for x64 and a Windows SDK "
    "(Visual Studio Installer → Modify); then run the same command again"
)


def capture_msvc_environment(toolset: ChosenToolset) -> MsvcEnvironment:
    """Return the variables that vcvarsall sets for x64 and this toolset.

    If the compiler or the Windows SDK is missing, raises `MissingToolError` with the output of
    vcvarsall, which exits with 0 even then.
    """
    call = f"call .\\vcvarsall.bat x64 -vcvars_ver={toolset.cl.version}"
    line = f"set&echo {OUTPUT_SEPARATOR}&{call} >nul 2>nul&set"
    text = _run_cmd(toolset, "/u", line, "utf-16-le")
    variables, folders = compare_environments(*parse_set_output(text))
    names = {name.upper() for name in variables}
    cl_folder = _normalize_folder(dirname(toolset.cl.path))
    if "VCTOOLSINSTALLDIR" not in names or cl_folder not in map(_normalize_folder, folders):
        problem = f"vcvarsall.bat did not set up toolset {toolset.cl.version} for x64"
    elif "WINDOWSSDKDIR" not in names:
        problem = "vcvarsall.bat found no Windows SDK"
    else:
        return MsvcEnvironment(toolset.setup_name, variables, folders)
    output = _run_cmd(toolset, "/a", f"{call} 2>&1", "utf-8")
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("[ERROR")]
    message = ": ".join(filter(None, (problem, "; ".join((errors or lines)[-3:]))))
    raise MissingToolError(message, location=toolset.installation.vcvarsall, hint=_MODIFY_HINT)


def build_clean_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return `env` for vcvarsall: without telemetry, and with only the system folders in PATH."""
    root = {name.upper(): value for name, value in env.items()}.get("SYSTEMROOT", r"C:\Windows")
    system = rf"{root}\System32"
    path = (system, root, rf"{system}\Wbem", rf"{system}\WindowsPowerShell\v1.0")
    rest = {name: value for name, value in env.items() if name.upper() != "PATH"}
    return {**rest, "PATH": ";".join(path), "VSCMD_SKIP_SENDTELEMETRY": "1"}


def find_sdk_header(captured: MsvcEnvironment | None) -> str:
    """Return the path of Windows.h in the captured Windows SDK; "" without an SDK."""
    variables = captured.set if captured else {}
    folder, version = variables.get("WindowsSdkDir", ""), variables.get("WindowsSDKVersion", "")
    # joined as text: both end with a backslash, and may be read on another system
    return rf"{folder}Include\{version}um\Windows.h" if folder and version else ""


def _run_cmd(toolset: ChosenToolset, output: str, line: str, encoding: str) -> str:
    """Run a cmd line in vcvarsall's folder. `output` is /u (UTF-16) or /a (ANSI)."""
    env = build_clean_environment(shell.build_host_env())
    argv = (env.get("COMSPEC", "cmd.exe"), "/d", output, "/s", "/c", line)
    # `line` does not contain this folder: cmd could interpret characters of its name
    folder = Path(toolset.installation.vcvarsall).parent
    what, timeout = "ask vcvarsall for the environment of MSVC", _VCVARS_TIMEOUT
    return shell.capture_output(
        Command(argv, env, what, cwd=folder, timeout=timeout, encoding=encoding)
    )
