"""What is known of a run before it begins, for its record: this machine, what was asked, what was
decided, and the stages of the plan.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import PurePath

from tasks.core.digest import plain
from tasks.core.model import Host, Json, Plan, Stage
from tasks.core.resolution import Choice
from tasks.lock.profile import Profile
from tasks.settings.told import asked
from tasks.system.hardware import capacity, memory


def head(name: str, profile: Profile, selected: Collection[str]) -> dict[str, Json]:
    """The facts of `begin`; `selected` are the tasks that a person asked for."""
    return {
        "command": sorted(selected),
        "profile": name,
        "host": _host(profile.host),
        "asked": plain(asked(profile.loaded)),
        "decided": _decided(profile.choice),
        "stages": list(_graph(profile.plan, selected)),
    }


def _host(host: Host) -> Json:
    return {
        "system": host.system,
        "machine": host.machine,
        "cores": capacity.cores(),
        "memory_mib": memory.limit_mib(memory.groups()),
        "python": host.python.version,
        "gpus": [{"name": gpu.name, "capability": gpu.capability} for gpu in host.gpus],
    }


def _decided(choice: Choice) -> Json:
    return {
        "strategy": choice.strategy,
        "why": [choice.strategy_why, choice.targets_why],
        "torch": choice.torch,
        "cuda": choice.cuda,
        "targets": [str(arch) for arch in choice.targets],
        "toolkit": choice.toolkit.told,
    }


def _graph(plan: Plan, selected: Collection[str]) -> Iterator[Json]:
    stages = [*plan.stages, *([plan.validate] if plan.validate.name in selected else [])]
    left: dict[PurePath, str] = {path: stage.name for stage in stages for path in stage.leaves}
    for stage in stages:
        yield {"name": stage.name, "after": _after(stage, left)}


def _after(stage: Stage, left: dict[PurePath, str]) -> list[Json]:
    return list(dict.fromkeys(left[path] for path in stage.reads if path in left))
