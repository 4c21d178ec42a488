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
from tasks.doctor.programs import version_of
from tasks.doctor.symptom import Symptom, ok, problem, unchecked, warning
from tasks.knowledge.cppextension import SWITCH, Bounds, switched_off
from tasks.knowledge.hostcompilers import msc_ver
from tasks.knowledge.packagemanagers import installing
from tasks.knowledge.versions import major_minor

if TYPE_CHECKING:
    from tasks.doctor.host_facts import Surroundings, Tool, TorchSeen
    from tasks.knowledge import Knowledge
    from tasks.lock.profile import Profile
    from tasks.stages.extensions.job import ExtensionJob

_ID: CheckId = "torch-checks"


def judge(s: Surroundings, profile: Profile | None, _: Knowledge) -> Iterator[Symptom]:
    """torch-checks."""
    if profile is None:
        yield unchecked(_ID, "the profile does not open")
        return
    if not _extensions(s, profile) or not profile.choice.cuda:
        yield ok(_ID, "not needed: no CUDA extension is built")
    elif s.torch is None:
        yield unchecked(_ID)
    elif not _is_the_one(s.torch, profile):
        yield unchecked(_ID, f"torch {profile.choice.torch} is not installed yet")
    else:
        yield _torch(s, s.torch, profile)


def _is_the_one(torch: TorchSeen, profile: Profile) -> bool:
    """What is in the environment may be of another plan, and is replaced before it is used."""
    choice = profile.choice
    here, planned = (version.partition("+")[0] for version in (torch.version, choice.torch))
    same = (here, torch.cuda) == (planned, choice.cuda)
    return bool(here) and (choice.strategy == "existing" or same)


def _torch(s: Surroundings, torch: TorchSeen, profile: Profile) -> Symptom:
    cuda = s.nvcc.version if s.nvcc and s.nvcc.version else profile.choice.toolkit.version
    if torch.cuda and cuda and cuda.partition(".")[0] != torch.cuda.partition(".")[0]:
        seen = f"torch {torch.version} is of CUDA {torch.cuda} and refuses nvcc {cuda}"
        return problem(_ID, seen, f'set toolkit.version: "{torch.cuda}"')
    if s.cxx is None or not s.cxx.path:
        return unchecked(_ID, "no compiler was found")
    if not torch.says.checks(torch.version):
        return ok(_ID, f"torch {torch.version} was built by hand: it looks at no compiler")
    if s.host.system == "windows":
        return _windows(torch, s.cxx)
    if s.host.system == "linux":
        return _linux(s, torch, major_minor(cuda), s.cxx, profile)
    return ok(_ID, f"torch {torch.version} looks at no version of a compiler here")


def _windows(torch: TorchSeen, cl: Tool) -> Symptom:
    version = msc_ver(cl.version)
    named = f"19.{version % 100:02}" if version else ""
    return _least(torch, f"cl.exe {named or cl.version}", named, torch.says.least_msvc)


def _linux(s: Surroundings, torch: TorchSeen, cuda: str, cxx: Tool, profile: Profile) -> Symptom:
    whose, table = torch.says.table(cxx.path)
    named = f"{cxx.path} {cxx.version}"
    bounds = table.get(cuda)
    if bounds is None or version_of(cxx.version) is None:
        return _least(torch, named, cxx.version, torch.says.least_gcc)
    taken = f"torch {torch.version} takes {whose} {bounds} with CUDA {cuda}"
    if bounds.hold(cxx.version):
        return ok(_ID, taken)
    names = ", ".join(job.name for job in _extensions(s, profile) if _is_checked(job))
    if not names:
        return ok(_ID, f"{taken}; no extension has it look at {named}")
    seen = f"{taken}, and would refuse {named} for {names}"
    return problem(_ID, seen, _todo(s, profile, cxx, bounds, names))


def _extensions(s: Surroundings, profile: Profile) -> list[ExtensionJob]:
    """Those that nvcc compiles; a companion may come as a wheel."""
    jobs = [stage.job for stage in profile.plan.of("extensions")]
    without = s.without_cuda or ()
    return [job for job in jobs if job.kind != "wheel" and job.name not in without]


def _is_checked(job: ExtensionJob) -> bool:
    """One with a compiler of its own is not asked for it here."""
    return "CXX" not in job.env and not switched_off(job.env)


def _least(torch: TorchSeen, named: str, version: str, least: str) -> Symptom:
    """Below it, torch says that the compiler may not fit, and goes on."""
    here, wanted = version_of(version), version_of(least)
    if here and wanted and here < wanted:
        seen = f"torch {torch.version} wants {least} or later, and warns of {named}"
        return warning(_ID, seen, "install a newer compiler")
    return ok(_ID, f"torch {torch.version} takes {named}")


def _todo(s: Surroundings, profile: Profile, cxx: Tool, bounds: Bounds, names: str) -> str:
    """An older GCC, where that helps, and torch itself would not be compiled again for it;
    `compiler` saw to it that nvcc takes the one that is here.
    """
    off = f'turn its look off:\n  extensions ({names}).env: {{{SWITCH}: "1"}}'
    if "clang" in PurePath(cxx.path).name:
        return f"nvcc takes this clang, and torch goes by GCC's versions, so {off}"
    if Version(cxx.version) < Version(bounds.lowest):
        return f"install a g++ of {bounds.lowest} or later"
    if profile.choice.strategy == "source":
        return f"nvcc takes it, so {off}"
    older = int(bounds.above.partition(".")[0]) - 1
    add = installing(profile.knowledge, s.systems, "newest-gcc", gcc=str(older))
    other = f"or take an older one ({add}):"
    return f"nvcc takes it, so {off}\n{other}\n  build.env: {{CC: gcc-{older}, CXX: g++-{older}}}"
