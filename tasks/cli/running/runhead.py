"""What is known of a run before it begins, for its record: this machine, what was asked, what was
decided, and the stages of the plan.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import PurePath

from tasks.core.digest import convert_to_json
from tasks.core.model import Host, Json, Plan, Stage
from tasks.core.resolution import Resolution
from tasks.lock.profile import Profile
from tasks.settings.told import list_nondefault_settings
from tasks.system.hardware import capacity, memory


def build_run_header(name: str, profile: Profile, selected: Collection[str]) -> dict[str, Json]:
    """The facts of `begin`; `selected` are the tasks that a person asked for."""
    return {
        "command": sorted(selected),
        "profile": name,
        "host": _describe_host(profile.host),
        "asked": convert_to_json(list_nondefault_settings(profile.loaded)),
        "decided": _describe_resolution(profile.choice),
        "stages": list(_build_stage_graph(profile.plan, selected)),
    }


def _describe_host(host: Host) -> Json:
    return {
        "system": host.system,
        "machine": host.machine,
        "cores": capacity.count_usable_cores(),
        "memory_mib": memory.find_memory_limit(memory.find_control_groups()),
        "python": host.python.version,
        "gpus": [{"name": gpu.name, "capability": gpu.capability} for gpu in host.gpus],
    }


def _describe_resolution(choice: Resolution) -> Json:
    return {
        "strategy": choice.strategy,
        "why": [choice.strategy_why, choice.targets_why],
        "torch": choice.torch,
        "cuda": choice.cuda,
        "targets": [str(arch) for arch in choice.targets],
        "toolkit": choice.toolkit.reason,
    }


def _build_stage_graph(plan: Plan, selected: Collection[str]) -> Iterator[Json]:
    stages = [*plan.stages, *([plan.validate] if plan.validate.name in selected else [])]
    left: dict[PurePath, str] = {path: stage.name for stage in stages for path in stage.outputs}
    for stage in stages:
        yield {"name": stage.name, "after": _find_predecessors(stage, left)}


def _find_predecessors(stage: Stage, left: dict[PurePath, str]) -> list[Json]:
    return list(dict.fromkeys(left[path] for path in stage.inputs if path in left))
