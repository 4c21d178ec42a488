"""What torch's own cpp_extension would say of the compilers, minutes into an extension's build.

It goes by tables of its own, which are in its text: the major release of CUDA has to be torch's,
and on Linux a compiler has to be within its bounds for the toolkit, whatever nvcc says of it. That
is asked of extensions with CUDA sources.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING

from packaging.version import Version

from tasks.core.check_ids import CheckId
from tasks.doctor.programs import parse_tool_version
from tasks.doctor.symptom import (
    CheckResult,
    report_ok,
    report_problem,
    report_unchecked,
    report_warning,
)
from tasks.knowledge.cppextension import SKIP_CHECK_VARIABLE, VersionBounds, is_check_disabled
from tasks.knowledge.hostcompilers import parse_msc_ver
from tasks.knowledge.packagemanagers import format_install_hint
from tasks.knowledge.versions import format_major_minor

if TYPE_CHECKING:
    from tasks.doctor.host_facts import BuildTorch, HostFacts, Tool
    from tasks.knowledge import Knowledge
    from tasks.lock.profile import Profile
    from tasks.stages.extensions.job import ExtensionJob

_TORCH_CHECKS_ID: CheckId = "torch-checks"


def check_torch_compilers(
    s: HostFacts, profile: Profile | None, _: Knowledge
) -> Iterator[CheckResult]:
    """torch-checks."""
    if profile is None:
        yield report_unchecked(_TORCH_CHECKS_ID, "the profile does not open")
        return
    if not _list_cuda_extensions(s, profile) or not profile.choice.cuda:
        yield report_ok(_TORCH_CHECKS_ID, "not needed: no CUDA extension is built")
    elif s.torch is None:
        yield report_unchecked(_TORCH_CHECKS_ID)
    elif not _is_planned_torch(s.torch, profile):
        yield report_unchecked(
            _TORCH_CHECKS_ID, f"torch {profile.choice.torch} is not installed yet"
        )
    else:
        yield _check_torch_bounds(s, s.torch, profile)


def _is_planned_torch(torch: BuildTorch, profile: Profile) -> bool:
    """What is in the environment may be of another plan, and is replaced before it is used."""
    choice = profile.choice
    here, planned = (version.partition("+")[0] for version in (torch.version, choice.torch))
    same = (here, torch.cuda) == (planned, choice.cuda)
    return bool(here) and (choice.strategy == "existing" or same)


def _check_torch_bounds(s: HostFacts, torch: BuildTorch, profile: Profile) -> CheckResult:
    cuda = s.nvcc.version if s.nvcc and s.nvcc.version else profile.choice.toolkit.version
    if torch.cuda and cuda and cuda.partition(".")[0] != torch.cuda.partition(".")[0]:
        seen = f"torch {torch.version} is of CUDA {torch.cuda} and refuses nvcc {cuda}"
        return report_problem(_TORCH_CHECKS_ID, seen, f'set toolkit.version: "{torch.cuda}"')
    if s.cxx is None or not s.cxx.path:
        return report_unchecked(_TORCH_CHECKS_ID, "no compiler was found")
    if not torch.says.should_check_compilers(torch.version):
        return report_ok(
            _TORCH_CHECKS_ID, f"torch {torch.version} was built by hand: it looks at no compiler"
        )
    if s.host.system == "windows":
        return _check_msvc(torch, s.cxx)
    if s.host.system == "linux":
        return _check_linux_compiler(s, torch, format_major_minor(cuda), s.cxx, profile)
    return report_ok(
        _TORCH_CHECKS_ID, f"torch {torch.version} looks at no version of a compiler here"
    )


def _check_msvc(torch: BuildTorch, cl: Tool) -> CheckResult:
    version = parse_msc_ver(cl.version)
    named = f"19.{version % 100:02}" if version else ""
    return _check_minimum_version(
        torch, f"cl.exe {named or cl.version}", named, torch.says.least_msvc
    )


def _check_linux_compiler(
    s: HostFacts, torch: BuildTorch, cuda: str, cxx: Tool, profile: Profile
) -> CheckResult:
    whose, table = torch.says.select_bounds(cxx.path)
    named = f"{cxx.path} {cxx.version}"
    bounds = table.get(cuda)
    if bounds is None or parse_tool_version(cxx.version) is None:
        return _check_minimum_version(torch, named, cxx.version, torch.says.least_gcc)
    taken = f"torch {torch.version} takes {whose} {bounds} with CUDA {cuda}"
    if bounds.is_accepted(cxx.version):
        return report_ok(_TORCH_CHECKS_ID, taken)
    names = ", ".join(
        job.name for job in _list_cuda_extensions(s, profile) if _is_compiler_checked(job)
    )
    if not names:
        return report_ok(_TORCH_CHECKS_ID, f"{taken}; no extension has it look at {named}")
    seen = f"{taken}, and would refuse {named} for {names}"
    return report_problem(
        _TORCH_CHECKS_ID, seen, _suggest_compiler_fix(s, profile, cxx, bounds, names)
    )


def _list_cuda_extensions(s: HostFacts, profile: Profile) -> list[ExtensionJob]:
    """Those that nvcc compiles; a companion may come as a wheel."""
    jobs = [stage.job for stage in profile.plan.find_stages("extensions")]
    without = s.without_cuda or ()
    return [job for job in jobs if job.kind != "wheel" and job.name not in without]


def _is_compiler_checked(job: ExtensionJob) -> bool:
    """One with a compiler of its own is not asked for it here."""
    return "CXX" not in job.env and not is_check_disabled(job.env)


def _check_minimum_version(torch: BuildTorch, named: str, version: str, least: str) -> CheckResult:
    """Below it, torch says that the compiler may not fit, and goes on."""
    here, wanted = parse_tool_version(version), parse_tool_version(least)
    if here and wanted and here < wanted:
        seen = f"torch {torch.version} wants {least} or later, and warns of {named}"
        return report_warning(_TORCH_CHECKS_ID, seen, "install a newer compiler")
    return report_ok(_TORCH_CHECKS_ID, f"torch {torch.version} takes {named}")


def _suggest_compiler_fix(
    s: HostFacts, profile: Profile, cxx: Tool, bounds: VersionBounds, names: str
) -> str:
    """An older GCC, where that helps, and torch itself would not be compiled again for it;
    `compiler` saw to it that nvcc takes the one that is here.
    """
    off = f'turn its look off:\n  extensions ({names}).env: {{{SKIP_CHECK_VARIABLE}: "1"}}'
    if "clang" in PurePath(cxx.path).name:
        return f"nvcc takes this clang, and torch goes by GCC's versions, so {off}"
    if Version(cxx.version) < Version(bounds.lowest):
        return f"install a g++ of {bounds.lowest} or later"
    if profile.choice.strategy == "source":
        return f"nvcc takes it, so {off}"
    older = int(bounds.above.partition(".")[0]) - 1
    add = format_install_hint(profile.knowledge, s.systems, "newest-gcc", gcc=str(older))
    other = f"or take an older one ({add}):"
    return f"nvcc takes it, so {off}\n{other}\n  build.env: {{CC: gcc-{older}, CXX: g++-{older}}}"
