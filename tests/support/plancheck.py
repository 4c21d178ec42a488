"""Check plans against the published wheels: their metadata, their code and their own functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from tasks.core.deps_model import DepsJob
from tasks.core.model import Arch, Host, Layout, Plan
from tasks.core.project import Project
from tasks.core.resolution import Resolution
from tasks.knowledge.torch_releases import normalize_machine
from tasks.knowledge.versions import format_major_minor, parse_major_minor
from tasks.planning.profile_plan import make_plan
from tasks.planning.warnings import list_known_bad_warnings
from tasks.settings.schema import parse_settings
from tasks.stages.env.model import EnvJob
from tests.support.checkout import KNOWLEDGE
from tests.support.newest import NEWEST_RELEASE
from tests.support.publishedwheels import Compiler, PublishedWheels, TorchWheel, parse_archs

_LAYOUT = Layout(
    Project.of_checkout(PurePosixPath("/yard")), "p", PurePosixPath("/yard/wheelhouse")
)


@dataclass(frozen=True)
class Planned:
    """Settings and a host that have a plan. `name` begins each line about the plan."""

    name: str
    settings: Mapping[str, Any]
    host: Host
    resolution: Resolution
    plan: Plan

    @property
    def platform(self) -> str:
        """Return the system and machine of the host, "windows x86_64"."""
        return f"{self.host.system} {normalize_machine(self.host.machine)}"

    @property
    def torch(self) -> str:
        """Return the release of torch, without a local part."""
        return self.resolution.torch.partition("+")[0]

    @property
    def requested(self) -> list[Arch]:
        """Return the capabilities of target.gpus."""
        named = {gpu.name: gpu.arch for gpu in KNOWLEDGE.gpus}
        gpus = self.settings["target"]["gpus"]
        return [named.get(gpu) or Arch.parse_capability(gpu) for gpu in gpus]


def plan_settings(name: str, settings: Mapping[str, Any], host: Host) -> Planned:
    """Return the plan. Raises `SettingsError`."""
    resolution, plan = make_plan(parse_settings(settings), host, KNOWLEDGE, _LAYOUT)
    return Planned(name, settings, host, resolution, plan)


def check_plan(one: Planned, published: PublishedWheels) -> Iterator[str]:
    """Yield what is wrong with a plan, one line each."""
    if one.resolution.strategy == "prebuilt":
        yield from check_wheel(one, published)
    if one.resolution.needs_compiler:
        yield from check_build(one, published)


def check_wheel(one: Planned, published: PublishedWheels) -> Iterator[str]:
    """Yield what is wrong with the torch of a prebuilt plan.

    A wheel that only pytorch.org has is not read: its release is, in a wheel of the default index.
    """
    yield from (f"{one.name}: {line}" for line in _list_wheel_mistakes(one, published))


def check_build(one: Planned, published: PublishedWheels) -> Iterator[str]:
    """Yield what is wrong with the compilers and the arch lists of a plan that compiles."""
    yield from (f"{one.name}: {line}" for line in _list_build_mistakes(one, published))


def _list_wheel_mistakes(one: Planned, published: PublishedWheels) -> Iterator[str]:
    if not published.has_torch(one.torch):
        yield from _require_assumption(one)
        return
    choice, wheel = one.resolution, published.read_torch(one.torch)
    if not choice.index:
        found = published.find_torch(one.torch, choice.python.minor, one.platform)
        if not found:
            yield f"torch {one.torch} has no wheel for this Python on the default index"
            return
        wheel = found
        if wheel.cuda != choice.cuda:
            yield f"{wheel.name} has CUDA {wheel.cuda}, the plan {choice.cuda}"
    if choice.python.version not in wheel.requires_python:
        yield f"{wheel.name} requires Python {wheel.requires_python}"
    newest = published.read_torch(NEWEST_RELEASE.patch)  # its rules are for the GPUs of every torch
    archs, cuda = _find_wheel_archs(one, wheel), str(choice.cuda)
    for arch in one.requested:
        if not any(newest.can_run(arch, code, cuda) for code in archs):
            yield f"torch {one.torch} of CUDA {cuda} has code for {archs}, not for {arch}"


def _require_assumption(one: Planned) -> Iterator[str]:
    start = f"torch {one.resolution.torch}: assumed"
    if not any(fact.startswith(start) for fact in one.resolution.facts):
        yield f"torch {one.torch} is not published, and the plan does not say what it assumes"


def _find_wheel_archs(one: Planned, wheel: TorchWheel) -> list[int]:
    """Return the archs (120) of the wheel in the plan: from torch's table, or the recorded ones.

    The table is that of the wheels for Linux. A wheel for Windows has the same archs or more.
    """
    choice, machine = one.resolution, normalize_machine(one.host.machine)
    if wheel.code:
        return sorted(wheel.code.get(str(choice.cuda), {}).get(machine, ()))
    rows = KNOWLEDGE.releases[format_major_minor(one.torch)].wheels
    wanted = (choice.cuda, one.host.system, machine)
    archs = {a for row in rows if (row.cuda, row.system, row.machine) == wanted for a in row.archs}
    return sorted(arch.major * 10 + arch.minor for arch in archs)


def _list_build_mistakes(one: Planned, published: PublishedWheels) -> Iterator[str]:
    choice, cuda = one.resolution, one.resolution.toolkit.version
    compiler = published.read_compiler(cuda)
    if choice.toolkit.provider == "pypi" and not published.has_compiler(cuda, one.platform):
        yield f"CUDA {cuda} for {one.platform} is not on the default index"
    if choice.strategy != "source" and str(choice.cuda).split(".")[0] != cuda.split(".")[0]:
        yield f"torch has CUDA {choice.cuda}, and the toolkit is CUDA {cuda}"
    yield from _check_limits(one, compiler)
    plain = {arch for arch in choice.targets if not arch.suffix}
    missing = {*choice.targets} - compiler.assembled
    missing |= plain - compiler.compiled if compiler.compiled is not None else set()
    if missing:
        yield f"{compiler.name} does not compile for {', '.join(map(str, sorted(missing)))}"
    if not published.has_torch(one.torch):
        yield from _require_assumption(one)
        return
    wheel = published.read_torch(one.torch)
    yield from _check_arch_lists(one, wheel)
    if choice.strategy == "source":
        yield from _check_sources(one, wheel)


def _check_limits(one: Planned, compiler: Compiler) -> Iterator[str]:
    """Yield the limits of host compilers that are not those of crt/host_config.h."""
    (deps,) = (stage.job for stage in one.plan.stages if isinstance(stage.job, DepsJob))
    gcc, clang, msvc = deps.limits.gcc_max, deps.limits.clang_max, deps.limits.msvc
    if gcc is None or clang is None or msvc is None:
        yield f"the plan has no limits for the host compilers of CUDA {compiler.cuda}"
        return
    least, below = msvc
    cases = [("gcc", number, number <= gcc) for number in (gcc, gcc + 1)]
    cases += [("clang", number, number <= clang) for number in (clang, clang + 1)]
    edges = (least - 1, least, below - 1, below)
    cases += [("msvc", number, least <= number < below) for number in edges]
    for kind, number, is_allowed in cases:
        if compiler.accepts(kind, number) is not is_allowed:
            verb = "refuses" if is_allowed else "accepts"
            yield f"host_config.h of {compiler.name} {verb} {kind} {number}"


def _check_arch_lists(one: Planned, wheel: TorchWheel) -> Iterator[str]:
    """Yield the arch lists that torch's own functions refuse, and the GPUs that they omit."""
    (env,) = (stage.job for stage in one.plan.stages if isinstance(stage.job, EnvJob))
    readers = []
    if one.resolution.extensions:
        readers.append((wheel.read_arch_list, env.arch_lists.extensions))
    if one.resolution.strategy == "source":
        readers.append((wheel.read_cmake_arch_list, env.arch_lists.torch))
    for read, text in readers:
        try:
            flags = " ".join(sorted(read(text)))
        except ValueError as error:
            yield f"{wheel.name} refuses TORCH_CUDA_ARCH_LIST={text}: {error}"
            continue
        cubins, ptx = {*parse_archs(flags, "code=sm_")}, {*parse_archs(flags, "code=compute_")}
        for arch in one.requested:
            if not _is_covered(arch, cubins, ptx):
                yield f"TORCH_CUDA_ARCH_LIST={text} gives {flags}, without code for {arch}"


def _is_covered(arch: Arch, cubins: set[Arch], ptx: set[Arch]) -> bool:
    """Return True if the GPU has code of its own, or code that a GPU unknown to nvcc runs."""
    if arch.suffix or any(arch in kit.makes for kit in KNOWLEDGE.toolkits.values()):
        return arch in cubins
    lower = [one for one in cubins if one.major == arch.major and one.minor <= arch.minor]
    return bool(lower) or any(one <= arch for one in ptx)


def _check_sources(one: Planned, wheel: TorchWheel) -> Iterator[str]:
    """Yield why this Python or CUDA cannot build the release, unless the plan warns."""
    choice = one.resolution
    if choice.python.version not in wheel.requires_python:
        yield f"{wheel.name} requires Python {wheel.requires_python}"
    is_too_old = parse_major_minor(choice.toolkit.version) < parse_major_minor(wheel.least_cuda)
    if is_too_old and not list(list_known_bad_warnings(KNOWLEDGE, one.host, choice)):
        yield f"torch requires CUDA {wheel.least_cuda} to be built, and the plan has no warning"
