"""Check the toolkit, GPUs, the driver, torch's compiler requirements, and known problems."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath, PureWindowsPath
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch
from tasks.core.resolution import Combination
from tasks.core.text_formatting import format_size
from tasks.doctor import check_result
from tasks.doctor.check_result import report_ok, report_problem, report_unchecked, report_warning
from tasks.doctor.machine_checks import is_in_build_folder, parse_tool_version
from tasks.knowledge.cpp_extension import SKIP_CHECK_VARIABLE, VersionBounds, is_check_disabled
from tasks.knowledge.cuda_toolkits import find_driver_floor
from tasks.knowledge.host_compilers import parse_msc_ver
from tasks.knowledge.known_problems import find_known_bad
from tasks.knowledge.machine_code_rules import MachineCode, can_run_code
from tasks.knowledge.minimum_versions import find_too_old_versions
from tasks.knowledge.package_managers import format_install_hint
from tasks.knowledge.versions import format_major_minor, parse_major_minor
from tasks.planning.suggestions import WhatIf, format_suggestions, is_known_bad

if TYPE_CHECKING:
    from tasks.core.model import Gpu
    from tasks.doctor.check_result import CheckResult, Level, Results
    from tasks.doctor.host_facts import BuildTorch, HostFacts, Tool
    from tasks.knowledge import Knowledge
    from tasks.knowledge.gpus import NvidiaDriver
    from tasks.lock.opened_profile_io import Profile
    from tasks.stages.extensions.model import ExtensionJob

_ACCEPT_HINT = check_result.format_command(
    "doit doctor --accept", "to plan with the current GPUs and toolkits:"
)


def check_toolkit_and_gpus(s: HostFacts, profile: Profile | None, knowledge: Knowledge) -> Results:
    """Yield the results of the checks `toolkit`, `cards`, `targets` and `driver`."""
    yield _check_toolkit(s, profile)
    if s.nvidia is None:
        yield from (report_unchecked(check) for check in ("cards", "targets", "driver"))
        return
    yield _check_gpus(s, s.nvidia, profile)
    yield _check_targets(s.nvidia, profile)
    yield _check_driver(s.nvidia, profile, knowledge)


def _check_toolkit(s: HostFacts, profile: Profile | None) -> CheckResult:
    if profile is None:
        installed = ", ".join(f"{kit.version} at {kit.home}" for kit in s.host.toolkits)
        return report_ok("toolkit", installed or "no CUDA toolkit is installed")
    toolkit = profile.choice.toolkit
    if toolkit.provider in {"none", "pypi"}:
        packages = f"CUDA {toolkit.version} comes as Python packages"
        none = "a build for the CPU needs no CUDA toolkit"
        return report_ok("toolkit", packages if toolkit.version else none)
    if s.nvcc is None:
        return report_unchecked("toolkit")
    if not s.nvcc.path:
        hint = "install the toolkit again, or set toolkit.path to another one"
        message = f"no nvcc at {toolkit.home} can be run"
        return report_problem("toolkit", message, f"{hint}\n{_ACCEPT_HINT}")
    message = f"{s.nvcc.version} at {toolkit.home}"
    if not s.nvcc.version.startswith(f"{toolkit.version}."):
        message += f"; this profile was planned for CUDA {toolkit.version}"
        return report_warning("toolkit", message, _ACCEPT_HINT)
    return report_ok("toolkit", message)


def _check_gpus(s: HostFacts, nvidia: NvidiaDriver, profile: Profile | None) -> CheckResult:
    is_auto = profile is not None and profile.loaded.settings.target.gpus == "auto"
    sizes = (f", {format_size(gpu.memory_mib)}" if gpu.memory_mib else "" for gpu in nvidia.gpus)
    pairs = zip(nvidia.gpus, sizes, strict=True)
    names = ", ".join(f"{gpu.name} ({gpu.capability}{size})" for gpu, size in pairs)
    if nvidia.trouble or nvidia.lost:
        return _report_silent_gpus(nvidia, names, must_assume=is_auto and not s.host.gpus)
    if not names:
        message = "no NVIDIA GPU or no driver: builds work, but checks on a GPU do not run"
        return report_ok("cards", message)
    planned = {gpu.capability for gpu in s.host.gpus}
    if s.host.pinned and is_auto and planned != {gpu.capability for gpu in nvidia.gpus}:
        message = f"{names}; this profile was planned for {', '.join(sorted(planned)) or 'no GPU'}"
        return report_warning("cards", message, _ACCEPT_HINT)
    return report_ok("cards", names)


def _report_silent_gpus(nvidia: NvidiaDriver, names: str, *, must_assume: bool) -> CheckResult:
    """Report GPUs that do not respond: a problem if the build must guess a GPU, else a warning."""
    message = f"the driver cannot list its GPUs: {nvidia.trouble}"
    if not nvidia.trouble:
        message = f"{nvidia.lost} GPU{'s do' if nvidia.lost > 1 else ' does'} not respond"
        message = f"{names}; {message}" if names else message
    steps = "restart the machine, or read the error message of:"
    hint = check_result.format_command("nvidia-smi", steps)
    if "mismatch" in nvidia.trouble.lower():
        steps = "restart the machine: the driver was upgraded while it was in use"
        hint = check_result.format_command("sudo reboot", steps)
    if must_assume and not names:
        message += "; the build would assume another GPU"
        hint += '\nor name the GPU, for example target.gpus: ["RTX 4090"]'
        return report_problem("cards", message, hint)
    return report_warning("cards", message, hint)


def _check_targets(nvidia: NvidiaDriver, profile: Profile | None) -> CheckResult:
    if profile is None:
        return report_unchecked("targets", check_result.NO_PROFILE)
    choice = profile.choice
    if not choice.targets:
        return report_ok("targets", f"no target GPU: {choice.targets_why}")
    target_names = ", ".join(map(str, choice.targets))
    if not nvidia.gpus:
        return report_ok("targets", f"{target_names}: {choice.targets_why}")
    unsupported = [gpu for gpu in nvidia.gpus if not _can_run_on_gpu(gpu, nvidia, profile)]
    if not unsupported:
        return report_ok("targets", f"the GPUs of this machine can run code for {target_names}")
    gpu_names = " and ".join(sorted({f"{gpu.name} ({gpu.capability})" for gpu in unsupported}))
    other_targets = {Arch.parse_capability(gpu.capability) for gpu in unsupported}
    combined = tuple(map(str, sorted({*choice.targets, *other_targets})))
    setting = ", ".join(f'"{arch}"' for arch in combined)
    what_if = WhatIf(profile.loaded.settings, profile.host, profile.knowledge)
    hint = f"to build for this machine, set target.gpus: [{setting}]"
    if what_if.resolve_with(target={"gpus": combined}) is None:
        hint = f"no known torch and CUDA support all of {setting}: use another profile"
    message = f"{target_names}: {gpu_names} in this machine cannot run this code"
    return report_warning("targets", message, hint)


def _can_run_on_gpu(gpu: Gpu, nvidia: NvidiaDriver, profile: Profile) -> bool:
    choice, targets = profile.choice, frozenset(profile.choice.targets)
    ptx = frozenset({max(targets)}) if choice.ptx and targets else frozenset()
    code, arch = MachineCode(targets, ptx), Arch.parse_capability(gpu.capability)
    driver = nvidia.cuda or None
    try:
        return can_run_code(profile.knowledge, code, arch, maker=choice.cuda, driver=driver)
    except KnowledgeError:
        return False


def _check_driver(
    nvidia: NvidiaDriver, profile: Profile | None, knowledge: Knowledge
) -> CheckResult:
    """Check the driver version. With a driver that is too old, torch fails at the first kernel."""
    if not nvidia.driver:
        unknown = report_unchecked("driver", "the driver does not report its version")
        is_installed = nvidia.trouble or nvidia.gpus
        return (
            unknown
            if is_installed
            else report_ok("driver", "no driver is installed; a build needs none")
        )
    message = nvidia.driver + (f", for CUDA up to {nvidia.cuda}" if nvidia.cuda else "")
    if profile is None or not (cuda := profile.choice.cuda):
        return report_ok("driver", message)
    try:
        floor = find_driver_floor(knowledge, cuda)
    except KnowledgeError:
        return report_unchecked("driver", f"the minimum driver for CUDA {cuda} is not known")
    if int(nvidia.driver.partition(".")[0]) >= floor:
        ptx_cuda = profile.choice.toolkit.version if profile.choice.ptx and nvidia.cuda else ""
        # The driver compiles the PTX of the build (toolkits.yaml, `binary_rules`)
        if not ptx_cuda or parse_major_minor(nvidia.cuda) >= parse_major_minor(ptx_cuda):
            return report_ok("driver", f"{message}; CUDA {cuda} needs {floor}")
        message = f"{nvidia.driver} compiles PTX up to CUDA {nvidia.cuda}"
        message += f", not PTX of CUDA {ptx_cuda}"
        return report_warning("driver", message, "install a newer driver, or set target.ptx: false")
    message = f"{nvidia.driver} is too old: CUDA {cuda} needs {floor} or later"
    url = "https://www.nvidia.com/drivers"
    hint = f"install driver {floor} or later ({url}), or set an older toolkit.version"
    is_target = any(_can_run_on_gpu(gpu, nvidia, profile) for gpu in nvidia.gpus)
    report = report_problem if is_target else report_warning
    if not is_target:
        message += "; the build does not target the GPUs of this machine"
    return report("driver", message, hint)


def check_torch_compilers(s: HostFacts, profile: Profile | None, _: Knowledge) -> Results:
    """Check `torch-checks`: whether torch's cpp_extension.py accepts the host compiler and nvcc."""
    if profile is None:
        yield report_unchecked("torch-checks", check_result.NO_PROFILE)
    elif not _list_cuda_extensions(s, profile) or not profile.choice.cuda:
        yield report_ok("torch-checks", "not needed: no CUDA extension is built")
    elif s.torch is None:
        yield report_unchecked("torch-checks")
    else:
        choice, version = profile.choice, s.torch.version.partition("+")[0]
        is_same_build = (version, s.torch.cuda) == (choice.torch.partition("+")[0], choice.cuda)
        if version and (choice.strategy == "existing" or is_same_build):
            yield _check_torch_bounds(s, s.torch, profile)
        else:  # the build replaces any other torch before use
            yield report_unchecked("torch-checks", f"torch {choice.torch} is not installed yet")


def _check_torch_bounds(s: HostFacts, torch: BuildTorch, profile: Profile) -> CheckResult:
    cuda = s.nvcc.version if s.nvcc and s.nvcc.version else profile.choice.toolkit.version
    name = f"torch {torch.version}"
    if torch.cuda and cuda and cuda.partition(".")[0] != torch.cuda.partition(".")[0]:
        message = f"{name} was built with CUDA {torch.cuda} and refuses nvcc {cuda}"
        return report_problem("torch-checks", message, f'set toolkit.version: "{torch.cuda}"')
    if s.cxx is None or not s.cxx.path:
        return report_unchecked("torch-checks", "no compiler was found")
    if not torch.says.should_check_compilers(torch.version):
        message = f"{name} was built from source and does not check compilers"
        return report_ok("torch-checks", message)
    if s.host.system == "windows":
        version = parse_msc_ver(s.cxx.version)
        msvc_version = f"19.{version % 100:02}" if version else ""
        compiler = f"cl.exe {msvc_version or s.cxx.version}"
        return _check_minimum_version(torch, compiler, msvc_version, torch.says.least_msvc)
    if s.host.system == "linux":
        return _check_linux_compiler(s, torch, format_major_minor(cuda), s.cxx, profile)
    return report_ok("torch-checks", f"{name} accepts every version of the compiler on this system")


def _check_linux_compiler(
    s: HostFacts, torch: BuildTorch, cuda: str, cxx: Tool, profile: Profile
) -> CheckResult:
    compiler_name, table = torch.says.select_bounds(cxx.path)
    compiler, bounds = f"{cxx.path} {cxx.version}", table.get(cuda)
    if bounds is None or parse_tool_version(cxx.version) is None:
        return _check_minimum_version(torch, compiler, cxx.version, torch.says.least_gcc)
    message = f"torch {torch.version} accepts {compiler_name} {bounds} with CUDA {cuda}"
    if bounds.is_accepted(cxx.version):
        return report_ok("torch-checks", message)
    jobs = [job for job in _list_cuda_extensions(s, profile) if not is_check_disabled(job.env)]
    names = ", ".join(job.name for job in jobs if "CXX" not in job.env)
    if not names:
        return report_ok("torch-checks", f"{message}; no extension uses this check for {compiler}")
    hint = _suggest_compiler_fix(s, profile, cxx, bounds, names)
    return report_problem("torch-checks", f"{message}, and refuses {compiler} for {names}", hint)


def _list_cuda_extensions(s: HostFacts, profile: Profile) -> list[ExtensionJob]:
    """Return the extensions to build from source whose sources may contain CUDA code."""
    jobs = [stage.job for stage in profile.plan.find_stages("extensions")]
    without_cuda = s.without_cuda or ()
    return [job for job in jobs if job.kind != "wheel" and job.name not in without_cuda]


def _check_minimum_version(
    torch: BuildTorch, compiler: str, version: str, minimum: str
) -> CheckResult:
    """Return a warning if the compiler is older than torch requires."""
    installed, required = parse_tool_version(version), parse_tool_version(minimum)
    if installed and required and installed < required:
        message = f"torch {torch.version} needs {minimum} or later, and warns about {compiler}"
        return report_warning("torch-checks", message, f"install version {minimum} or later")
    return report_ok("torch-checks", f"torch {torch.version} accepts {compiler}")


def _suggest_compiler_fix(
    s: HostFacts, profile: Profile, cxx: Tool, bounds: VersionBounds, names: str
) -> str:
    """Return how to get a compiler that torch accepts, or how to disable torch's compiler check.

    If torch is built from source, no older GCC is suggested, because it would rebuild torch.
    """
    setting = f'  extensions ({names}).env: {{{SKIP_CHECK_VARIABLE}: "1"}}'
    disable = f"nvcc accepts this compiler, so disable torch's check:\n{setting}"
    if _is_clang(cxx):
        return f"torch compares clang with the versions of GCC. {disable}"
    if Version(cxx.version) < Version(bounds.lowest):
        return f"install g++ {bounds.lowest} or later"
    if profile.choice.strategy == "source":
        return disable
    gcc = int(bounds.above.partition(".")[0]) - 1
    install_hint = format_install_hint(profile.knowledge, s.systems, "newest-gcc", gcc=str(gcc))
    option = f"or use an older compiler ({install_hint}):"
    return f"{disable}\n{option}\n  build.env: {{CC: gcc-{gcc}, CXX: g++-{gcc}}}"


_CHECKED_ELSEWHERE = {"driver-min", "python-min"}  # by the check `driver`, and by planning
_LEVELS: dict[str, Level] = {"error": "problem", "warning": "warning", "info": "ok"}


def check_known_bad(s: HostFacts, profile: Profile | None, knowledge: Knowledge) -> Results:
    """Yield a result for each known problem that applies; if there is none, yield one `ok`."""
    if profile is None:
        yield report_unchecked("known-bad", check_result.NO_PROFILE)
        return
    combination = build_combination(s, profile)
    too_old = find_too_old_versions(knowledge, combination)
    outdated = (finding for finding in too_old if finding.id not in _CHECKED_ELSEWHERE)
    findings = (*find_known_bad(knowledge, combination), *outdated)
    if not findings:
        count = len(knowledge.known_bad)
        yield report_ok("known-bad", f"none of the {count} known bad combinations applies")
    for finding in findings:
        level, message, hint = _LEVELS[finding.level], finding.what, finding.fix
        if finding.cured:
            level, message, hint = "ok", f"the stage {finding.cured} avoids this: {message}", ""
        elif level == "problem" and is_known_bad(knowledge, profile.choice, profile.host):
            suggestions = format_suggestions(profile.loaded.settings, profile.host, knowledge)
            hint += f"\nfor this profile: {suggestions}" if suggestions else ""
        yield check_result.CheckResult("known-bad", level, finding.id, message, hint, finding.id)


def build_combination(s: HostFacts, profile: Profile) -> Combination:
    """Return the planned combination of versions, updated with the versions found on the host."""
    planned = profile.choice.build_combination(s.host)
    return replace(
        planned,
        cuda=s.nvcc.version if planned.cuda and s.nvcc and s.nvcc.version else planned.cuda,
        driver=s.nvidia.driver or None if s.nvidia else None,
        ninja=_read_build_tool_version(s.ninja, profile),
        cmake=_read_build_tool_version(s.cmake, profile),
        setuptools=_read_build_tool_version(s.setuptools, profile),
        **(_list_compiler_versions(s) if profile.choice.needs_compiler else {}),
    )


def _list_compiler_versions(s: HostFacts) -> dict[str, Any]:
    """Return the versions of the host compiler and of glibc or Visual Studio."""
    version = s.cxx.version or None if s.cxx else None
    if s.host.system == "windows":
        msc_ver = parse_msc_ver(version or "")
        path = PureWindowsPath(s.cxx.path) if s.cxx else PureWindowsPath()
        studios = (one for one in s.visual_studio or () if path.is_relative_to(one.folder))
        return {
            "msvc": str(msc_ver) if msc_ver else None,
            "msvc_tools": version,
            "visual_studio": next((studio.version for studio in studios), None),
        }
    return {"glibc": s.glibc or None, "clang" if s.cxx and _is_clang(s.cxx) else "gcc": version}


def _is_clang(cxx: Tool) -> bool:
    return "clang" in PurePath(cxx.path).name


def _read_build_tool_version(tool: Tool | None, profile: Profile) -> str | None:
    """Return the version of a tool, or None if it is not in the build environment."""
    is_used = tool and tool.version and is_in_build_folder(tool.path, profile)
    return tool.version if tool and is_used else None
