"""Check the toolkit, GPUs and driver, and whether the outputs can run on this host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath, PureWindowsPath
from typing import TYPE_CHECKING

from packaging.version import Version

from tasks.core.check_ids import CheckId
from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch
from tasks.core.resolution import Combination
from tasks.core.text_formatting import format_size
from tasks.doctor import check_result
from tasks.doctor.tool_checks import is_in_build_folder, parse_tool_version
from tasks.knowledge.cpp_extension import SKIP_CHECK_VARIABLE, VersionBounds, is_check_disabled
from tasks.knowledge.cuda_toolkits import find_driver_floor
from tasks.knowledge.host_compilers import parse_msc_ver
from tasks.knowledge.known_problems import Finding
from tasks.knowledge.known_problems import find_known_bad as judge_combination
from tasks.knowledge.machine_code_rules import MachineCode, can_run_code
from tasks.knowledge.minimum_versions import find_too_old_versions
from tasks.knowledge.package_managers import format_install_hint
from tasks.knowledge.versions import format_major_minor, parse_major_minor
from tasks.planning.resolve import resolve_without_suggestions
from tasks.planning.suggestions import format_suggestions
from tasks.planning.what_if import WhatIf, is_known_bad

if TYPE_CHECKING:
    from tasks.core.model import Gpu
    from tasks.doctor.host_facts import BuildTorch, HostFacts, Tool
    from tasks.knowledge import Knowledge
    from tasks.knowledge.gpus import NvidiaDriver
    from tasks.lock.opened_profile_io import Profile
    from tasks.stages.extensions.model import ExtensionJob

_ACCEPT_COMMAND = check_result.format_command(
    "doit doctor --accept", "to plan from what is here now:"
)


def check_toolkit_and_gpus(
    s: HostFacts, profile: Profile | None, knowledge: Knowledge
) -> Iterator[check_result.CheckResult]:
    """Check toolkit, cards, targets and driver."""
    yield _check_toolkit(s, profile)
    if s.nvidia is None:
        yield from (
            check_result.report_unchecked(check) for check in ("cards", "targets", "driver")
        )
        return
    yield _check_gpus(s, s.nvidia, profile)
    yield _check_targets(s.nvidia, profile)
    yield _check_driver(s, s.nvidia, profile, knowledge)


def _check_toolkit(s: HostFacts, profile: Profile | None) -> check_result.CheckResult:
    if profile is None:
        installed = ", ".join(f"{kit.version} at {kit.home}" for kit in s.host.toolkits)
        return check_result.report_ok("toolkit", installed or "none installed")
    toolkit = profile.choice.toolkit
    if toolkit.provider in {"none", "pypi"}:
        description = f"CUDA {toolkit.version} comes as Python packages"
        return check_result.report_ok(
            "toolkit", description if toolkit.version else "a build for the CPU needs none"
        )
    return _check_installed_toolkit(s.nvcc, toolkit.home, toolkit.version)


def _check_installed_toolkit(
    nvcc: Tool | None, home: str, version: str
) -> check_result.CheckResult:
    if nvcc is None:
        return check_result.report_unchecked("toolkit")
    if not nvcc.path:
        hint = "install it again, name another in toolkit.path, or,"
        return check_result.report_problem(
            "toolkit", f"no nvcc that runs at {home}", f"{hint} {_ACCEPT_COMMAND}"
        )
    message = f"{nvcc.version} at {home}"
    if not nvcc.version.startswith(f"{version}."):
        return check_result.report_warning(
            "toolkit", f"{message}; planned was CUDA {version}", _ACCEPT_COMMAND
        )
    return check_result.report_ok("toolkit", message)


def _check_gpus(
    s: HostFacts, nvidia: NvidiaDriver, profile: Profile | None
) -> check_result.CheckResult:
    if nvidia.trouble or nvidia.lost:
        return _report_silent_gpus(s, nvidia, profile)
    if not nvidia.gpus:
        reason = "no NVIDIA card or no driver"
        return check_result.report_ok(
            "cards", f"{reason}: builds work, checks on a card are not run"
        )
    gpu_names = ", ".join(map(_format_gpu, nvidia.gpus))
    planned_capabilities = {gpu.capability for gpu in s.host.gpus}
    capabilities = {gpu.capability for gpu in nvidia.gpus}
    if s.host.pinned and _has_auto_gpus(profile) and planned_capabilities != capabilities:
        planned_text = ", ".join(sorted(planned_capabilities)) or "no card"
        return check_result.report_warning(
            "cards", f"{gpu_names}; this profile was planned for {planned_text}", _ACCEPT_COMMAND
        )
    return check_result.report_ok("cards", gpu_names)


def _has_auto_gpus(profile: Profile | None) -> bool:
    return profile is not None and profile.loaded.settings.target.gpus == "auto"


def _report_silent_gpus(
    s: HostFacts, nvidia: NvidiaDriver, profile: Profile | None
) -> check_result.CheckResult:
    """Report GPUs that do not respond: the build must not silently target other GPUs."""
    if nvidia.trouble:
        message = f"there is a driver, and its cards cannot be asked: {nvidia.trouble}"
    else:
        gpu_names = ", ".join(map(_format_gpu, nvidia.gpus))
        lost_count = f"{nvidia.lost} more" if gpu_names else f"{nvidia.lost} here"
        message = f"{gpu_names}; {lost_count} that does not answer".removeprefix("; ")
    if "mismatch" in nvidia.trouble.lower():
        hint = check_result.format_command(
            "sudo reboot", "restart: the driver was upgraded while it was in use"
        )
    else:
        hint = check_result.format_command(
            "nvidia-smi", "restart the machine, or see what is said here:"
        )
    if _has_auto_gpus(profile) and not s.host.gpus and not nvidia.gpus:
        gpu_names = 'or name it, with target.gpus: ["RTX 4090"] for example'
        return check_result.report_problem(
            "cards", f"{message}; another card would be assumed", f"{hint}\n{gpu_names}"
        )
    return check_result.report_warning("cards", message, hint)


def _format_gpu(gpu: Gpu) -> str:
    memory = f", {format_size(gpu.memory_mib)}" if gpu.memory_mib else ""
    return f"{gpu.name} ({gpu.capability}{memory})"


def _check_targets(nvidia: NvidiaDriver, profile: Profile | None) -> check_result.CheckResult:
    if profile is None:
        return check_result.report_unchecked("targets", "the profile does not open")
    targets = profile.choice.targets
    if not targets:
        return check_result.report_ok(
            "targets", f"no card is a target: {profile.choice.targets_why}"
        )
    target_names = ", ".join(map(str, targets))
    if not nvidia.gpus:
        return check_result.report_ok("targets", f"{target_names}: {profile.choice.targets_why}")
    unsupported_gpus = [gpu for gpu in nvidia.gpus if not _can_run_on_gpu(gpu, nvidia, profile)]
    if not unsupported_gpus:
        return check_result.report_ok("targets", f"{target_names}, which the cards here can run")
    gpu_names = " and ".join(sorted({f"{gpu.name} ({gpu.capability})" for gpu in unsupported_gpus}))
    combined_targets = {
        *targets,
        *(Arch.parse_capability(gpu.capability) for gpu in unsupported_gpus),
    }
    setting = ", ".join(f'"{arch}"' for arch in sorted(combined_targets))
    hint = f"if it is meant for here, write target.gpus: [{setting}]"
    if not _can_plan(profile, sorted(combined_targets)):
        hint = f"no known torch and CUDA support all of {setting}: use another profile"
    return check_result.report_warning(
        "targets", f"{target_names}: {gpu_names} in this machine cannot run that", hint
    )


def _can_plan(profile: Profile, targets: list[Arch]) -> bool:
    what_if = WhatIf(
        profile.loaded.settings, profile.host, profile.knowledge, resolve_without_suggestions
    )
    return what_if.resolve_with(target={"gpus": tuple(map(str, targets))}) is not None


def _can_run_on_gpu(gpu: Gpu, nvidia: NvidiaDriver, profile: Profile) -> bool:
    targets = frozenset(profile.choice.targets)
    ptx = frozenset({max(targets)}) if profile.choice.ptx and targets else frozenset()
    try:
        return can_run_code(
            profile.knowledge,
            MachineCode(targets, ptx),
            Arch.parse_capability(gpu.capability),
            maker=profile.choice.cuda,
            driver=nvidia.cuda or None,
        )
    except KnowledgeError:
        return False


def _check_driver(
    s: HostFacts, nvidia: NvidiaDriver, profile: Profile | None, knowledge: Knowledge
) -> check_result.CheckResult:
    """Check the driver: with one that is too old, torch starts but fails at the first kernel."""
    cuda = profile.choice.cuda if profile else None
    if not nvidia.driver:
        unchecked = check_result.report_unchecked("driver", "its version could not be asked")
        return (
            unchecked if nvidia.trouble or nvidia.gpus else check_result.report_ok("driver", "none")
        )
    cuda_support = f", for CUDA up to {nvidia.cuda}" if nvidia.cuda else ""
    if profile is None or not cuda:
        return check_result.report_ok("driver", f"{nvidia.driver}{cuda_support}")
    try:
        floor = find_driver_floor(knowledge, cuda)
    except KnowledgeError:
        return check_result.report_unchecked("driver", f"what CUDA {cuda} needs is not known")
    if int(nvidia.driver.partition(".")[0]) >= floor:
        return _check_ptx_support(
            s, nvidia, profile, f"{nvidia.driver}{cuda_support}; CUDA {cuda} needs {floor}"
        )
    message = f"{nvidia.driver} is too old: CUDA {cuda} needs {floor} or later"
    hint = f"install driver {floor} or later (https://www.nvidia.com/drivers), or choose an older "
    hint += "toolkit.version"
    if not any(_can_run_on_gpu(gpu, nvidia, profile) for gpu in nvidia.gpus):
        return check_result.report_warning(
            "driver", f"{message}; the build is for other cards than those here", hint
        )
    return check_result.report_problem("driver", message, hint)


def _check_ptx_support(
    s: HostFacts, nvidia: NvidiaDriver, profile: Profile, seen: str
) -> check_result.CheckResult:
    """Check that the driver can compile the PTX of the build.

    A driver compiles only PTX of its CUDA version and older: cudaErrorUnsupportedPtxVersion
    (config/knowledge/toolkits.yaml, binary_rules).
    """
    cuda = profile.choice.toolkit.version
    if not (profile.choice.ptx and nvidia.cuda and cuda) or parse_major_minor(
        nvidia.cuda
    ) >= parse_major_minor(cuda):
        return check_result.report_ok("driver", seen)
    return check_result.report_warning(
        "driver",
        f"{nvidia.driver} compiles PTX up to CUDA {nvidia.cuda}; PTX of CUDA {cuda} is no use here",
        "install a newer driver, or leave target.ptx at false",
    )


_TORCH_CHECKS_ID: CheckId = "torch-checks"


def check_torch_compilers(
    s: HostFacts, profile: Profile | None, _: Knowledge
) -> Iterator[check_result.CheckResult]:
    """Check torch-checks: the compilers that torch's cpp_extension accepts."""
    if profile is None:
        yield check_result.report_unchecked(_TORCH_CHECKS_ID, "the profile does not open")
        return
    if not _list_cuda_extensions(s, profile) or not profile.choice.cuda:
        yield check_result.report_ok(_TORCH_CHECKS_ID, "not needed: no CUDA extension is built")
    elif s.torch is None:
        yield check_result.report_unchecked(_TORCH_CHECKS_ID)
    elif not _is_planned_torch(s.torch, profile):
        yield check_result.report_unchecked(
            _TORCH_CHECKS_ID, f"torch {profile.choice.torch} is not installed yet"
        )
    else:
        yield _check_torch_bounds(s, s.torch, profile)


def _is_planned_torch(torch: BuildTorch, profile: Profile) -> bool:
    """Return True if the installed torch is the planned one; another one is replaced before use."""
    resolution = profile.choice
    installed_version, planned_version = (
        version.partition("+")[0] for version in (torch.version, resolution.torch)
    )
    is_same_build = (installed_version, torch.cuda) == (planned_version, resolution.cuda)
    return bool(installed_version) and (resolution.strategy == "existing" or is_same_build)


def _check_torch_bounds(
    s: HostFacts, torch: BuildTorch, profile: Profile
) -> check_result.CheckResult:
    cuda = s.nvcc.version if s.nvcc and s.nvcc.version else profile.choice.toolkit.version
    if torch.cuda and cuda and cuda.partition(".")[0] != torch.cuda.partition(".")[0]:
        message = f"torch {torch.version} is of CUDA {torch.cuda} and refuses nvcc {cuda}"
        return check_result.report_problem(
            _TORCH_CHECKS_ID, message, f'set toolkit.version: "{torch.cuda}"'
        )
    if s.cxx is None or not s.cxx.path:
        return check_result.report_unchecked(_TORCH_CHECKS_ID, "no compiler was found")
    if not torch.says.should_check_compilers(torch.version):
        return check_result.report_ok(
            _TORCH_CHECKS_ID, f"torch {torch.version} was built by hand: it looks at no compiler"
        )
    if s.host.system == "windows":
        return _check_msvc(torch, s.cxx)
    if s.host.system == "linux":
        return _check_linux_compiler(s, torch, format_major_minor(cuda), s.cxx, profile)
    return check_result.report_ok(
        _TORCH_CHECKS_ID, f"torch {torch.version} looks at no version of a compiler here"
    )


def _check_msvc(torch: BuildTorch, cl: Tool) -> check_result.CheckResult:
    version = parse_msc_ver(cl.version)
    msvc_version = f"19.{version % 100:02}" if version else ""
    return _check_minimum_version(
        torch, f"cl.exe {msvc_version or cl.version}", msvc_version, torch.says.least_msvc
    )


def _check_linux_compiler(
    s: HostFacts, torch: BuildTorch, cuda: str, cxx: Tool, profile: Profile
) -> check_result.CheckResult:
    compiler_name, table = torch.says.select_bounds(cxx.path)
    compiler = f"{cxx.path} {cxx.version}"
    bounds = table.get(cuda)
    if bounds is None or parse_tool_version(cxx.version) is None:
        return _check_minimum_version(torch, compiler, cxx.version, torch.says.least_gcc)
    accepted = f"torch {torch.version} takes {compiler_name} {bounds} with CUDA {cuda}"
    if bounds.is_accepted(cxx.version):
        return check_result.report_ok(_TORCH_CHECKS_ID, accepted)
    extension_names = ", ".join(
        job.name for job in _list_cuda_extensions(s, profile) if _is_compiler_checked(job)
    )
    if not extension_names:
        return check_result.report_ok(
            _TORCH_CHECKS_ID, f"{accepted}; no extension has it look at {compiler}"
        )
    message = f"{accepted}, and would refuse {compiler} for {extension_names}"
    return check_result.report_problem(
        _TORCH_CHECKS_ID, message, _suggest_compiler_fix(s, profile, cxx, bounds, extension_names)
    )


def _list_cuda_extensions(s: HostFacts, profile: Profile) -> list[ExtensionJob]:
    """Return the extensions that nvcc compiles; a companion package may be a wheel."""
    jobs = [stage.job for stage in profile.plan.find_stages("extensions")]
    without_cuda = s.without_cuda or ()
    return [job for job in jobs if job.kind != "wheel" and job.name not in without_cuda]


def _is_compiler_checked(job: ExtensionJob) -> bool:
    """Return True if torch checks the host compiler for this extension."""
    return "CXX" not in job.env and not is_check_disabled(job.env)


def _check_minimum_version(
    torch: BuildTorch, named: str, version: str, least: str
) -> check_result.CheckResult:
    """Check the minimum version of the compiler; below it, torch only warns."""
    installed, required = parse_tool_version(version), parse_tool_version(least)
    if installed and required and installed < required:
        message = f"torch {torch.version} wants {least} or later, and warns of {named}"
        return check_result.report_warning(_TORCH_CHECKS_ID, message, "install a newer compiler")
    return check_result.report_ok(_TORCH_CHECKS_ID, f"torch {torch.version} takes {named}")


def _suggest_compiler_fix(
    s: HostFacts, profile: Profile, cxx: Tool, bounds: VersionBounds, names: str
) -> str:
    """Return how to get a compiler that torch accepts, or how to disable its check.

    An older GCC is suggested only if torch itself would not be rebuilt for it. The `compiler` check
    ensures that nvcc accepts the installed compiler.
    """
    disable = f'turn its look off:\n  extensions ({names}).env: {{{SKIP_CHECK_VARIABLE}: "1"}}'
    if "clang" in PurePath(cxx.path).name:
        return f"nvcc takes this clang, and torch goes by GCC's versions, so {disable}"
    if Version(cxx.version) < Version(bounds.lowest):
        return f"install a g++ of {bounds.lowest} or later"
    if profile.choice.strategy == "source":
        return f"nvcc takes it, so {disable}"
    gcc = int(bounds.above.partition(".")[0]) - 1
    install_hint = format_install_hint(profile.knowledge, s.systems, "newest-gcc", gcc=str(gcc))
    option = f"or take an older one ({install_hint}):"
    return f"nvcc takes it, so {disable}\n{option}\n  build.env: {{CC: gcc-{gcc}, CXX: g++-{gcc}}}"


_CHECKED_ELSEWHERE = {"driver-min", "python-min"}  # the driver check, and planning
_LEVELS: dict[str, check_result.Level] = {"error": "problem", "warning": "warning", "info": "ok"}


def check_known_bad(
    s: HostFacts, profile: Profile | None, knowledge: Knowledge
) -> Iterator[check_result.CheckResult]:
    """Check known-bad: return one result for each known problem that applies."""
    if profile is None:
        yield check_result.report_unchecked("known-bad", "the profile does not open")
        return
    combination = build_combination(s, profile)
    outdated = (
        finding
        for finding in find_too_old_versions(knowledge, combination)
        if finding.id not in _CHECKED_ELSEWHERE
    )
    findings = (*judge_combination(knowledge, combination), *outdated)
    if not findings:
        yield check_result.report_ok(
            "known-bad", f"none of {len(knowledge.known_bad)} known combinations is met"
        )
    for finding in findings:
        yield _build_known_bad_result(finding, profile, knowledge)


def _build_known_bad_result(
    finding: Finding, profile: Profile, knowledge: Knowledge
) -> check_result.CheckResult:
    if finding.fixed_by:
        message = f"taken care of by {finding.fixed_by}: {finding.message}"
        return check_result.CheckResult("known-bad", "ok", finding.id, message, known=finding.id)
    level = _LEVELS[finding.level]
    hint = finding.fix
    if level == "problem" and is_known_bad(knowledge, profile.choice, profile.host):
        suggestions = format_suggestions(
            profile.loaded.settings, profile.host, knowledge, resolve_without_suggestions
        )
        hint += f"\nfor this profile: {suggestions}" if suggestions else ""
    return check_result.CheckResult(
        "known-bad", level, finding.id, finding.message, hint, finding.id
    )


def build_combination(s: HostFacts, profile: Profile) -> Combination:
    """Return the combination of versions that would be built, as far as it was inspected."""
    planned = profile.choice.build_combination(s.host)
    combination = replace(
        planned,
        cuda=s.nvcc.version if planned.cuda and s.nvcc and s.nvcc.version else planned.cuda,
        driver=s.nvidia.driver or None if s.nvidia else None,
        ninja=_read_build_tool_version(s.ninja, profile),
        cmake=_read_build_tool_version(s.cmake, profile),
        setuptools=_read_build_tool_version(s.setuptools, profile),
    )
    return _add_compilers(combination, s) if profile.choice.needs_compiler else combination


def _add_compilers(found: Combination, s: HostFacts) -> Combination:
    """Add the compilers and the C library, whose headers nvcc reads.

    These are irrelevant if nothing is compiled.
    """
    version = _read_compiler_version(s.cxx)
    if s.host.system == "windows":
        msvc, installation = _find_msc_ver(s.cxx), _find_visual_studio_version(s)
        return replace(found, msvc=msvc, msvc_tools=version, visual_studio=installation)
    glibc = s.glibc or None
    if _is_clang(s.cxx):
        return replace(found, clang=version, glibc=glibc)
    return replace(found, gcc=version, glibc=glibc)


def _read_compiler_version(cxx: Tool | None) -> str | None:
    return cxx.version or None if cxx else None


def _is_clang(cxx: Tool | None) -> bool:
    return cxx is not None and "clang" in PurePath(cxx.path).name


def _find_msc_ver(cxx: Tool | None) -> str | None:
    version = parse_msc_ver(cxx.version) if cxx else None
    return str(version) if version else None


def _find_visual_studio_version(s: HostFacts) -> str | None:
    """Return the version of the Visual Studio that contains the compiler."""
    path = PureWindowsPath(s.cxx.path) if s.cxx else None
    studios = s.visual_studio or ()
    return next(
        (studio.version for studio in studios if path and path.is_relative_to(studio.folder)), None
    )


def _read_build_tool_version(tool: Tool | None, profile: Profile) -> str | None:
    """Return the version of the tool in the build environment; tools on PATH are not used."""
    return (
        tool.version if tool and tool.version and is_in_build_folder(tool.path, profile) else None
    )
