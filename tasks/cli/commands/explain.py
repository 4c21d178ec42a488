"""`doit explain`: what the settings come to here, what `doit build` would do now, stage by stage,
why, and how long. It changes nothing.

A stage that files alone, or its own look at the world, tell to run `runs`; one that only reads what
such a stage leaves `may run`: where that comes out the same, it does not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tasks.cli.commands.doctor import refuse_known_bad
from tasks.cli.decisions import (
    Decision,
    Expected,
    Found,
    Known,
    Past,
    decisions,
    expected,
    whole_build,
)
from tasks.cli.running import why
from tasks.cli.running.rooms import room
from tasks.core.deps_model import Cache, Deps
from tasks.core.digest import canonical, plain
from tasks.core.errors import BuildError, redact
from tasks.core.formatting.lines import rows
from tasks.core.model import Plan, Stage
from tasks.doctor.ask import ask
from tasks.doctor.disks import taken, told
from tasks.doctor.probes import disks as surroundings
from tasks.lock.profile import Profile, Subject
from tasks.planning.foreseen import capability_warnings, foreseen
from tasks.runlog import records, runs
from tasks.settings.variables import unread
from tasks.stages.compile.foresee import Outlook
from tasks.stages.compile.foresee import foresee as foresee_compile
from tasks.stages.env.foresee import foresee as foresee_env
from tasks.stages.env.job import Environment
from tasks.stages.source.foresee import foresee as foresee_source
from tasks.system import manifests, tty
from tasks.system.files import deliver
from tasks.system.hardware import capacity
from tasks.system.voice import show

_KEYS = 13
_MOVED = "what it made, or what it is made from, was changed since"


@dataclass(frozen=True)
class Verdict:
    """What would become of a stage, and why; `outlook` is compile's."""

    stage: str
    verdict: Literal["up to date", "runs", "may run"]
    reasons: tuple[str, ...]
    outlook: Outlook | None = None


def run(subject: Subject, json: str = "") -> None:
    """Print the decisions, a line for each stage in order, and what that takes. Raises the problem
    of a profile that is broken, and the error of `doit build` for a combination that is known to
    fail.
    """
    opened = subject.of_build()
    plan = opened.plan
    found = list(explain(plan))
    decided = decisions(opened, _found(plan, found))
    takes = expected(_past(plan, found), _by_facts(subject, opened))
    known = foreseen(opened.knowledge, opened.host, opened.choice)
    named = capability_warnings(opened.loaded, opened.host, opened.knowledge)
    warnings = [*plan.warnings, *unread(os.environ), *named, *known]
    show_decisions(decided)
    for warning in warnings:
        _row("WARNING", warning)
    refuse_known_bad(subject)
    if json:
        document = {**_document(subject.name, decided, found, takes), "warnings": warnings}
        deliver(Path(json), redact(canonical(document)))
    _show_stages(found)
    show("")
    _row("expected", str(takes))


def _by_facts(subject: Subject, profile: Profile) -> Known:
    """What builds like this one take, by the facts, on this machine's cores and disks."""
    cost, room = profile.cost.on(capacity.cores()), profile.cost.room
    disks = tuple(surroundings.disks(ask(subject.root, profile.host, profile)))
    most = sum(mib for _, mib in taken(disks, room).values()) if room else 0
    sure = "unverified" not in cost.known
    return Known(
        seconds=sum(cost.seconds) / 2 if cost.seconds else None,
        memory_mib=cost.memory_mib or None,
        disk_gib=most / 1024 or None,
        disk=told(disks, room),
        by="by our facts" if sure else "by our facts, in part not verified",
    )


def show_decisions(decided: Iterable[Decision]) -> None:
    """What was decided, a row each."""
    last = ""
    for decision in decided:
        _row("" if decision.key == last else decision.key, str(decision))
        last = decision.key
    show("")


def _row(key: str, text: str) -> None:
    for line in rows(key, text, _KEYS, tty.width()):
        show(line)


def _show_stages(found: list[Verdict]) -> None:
    width = max(len(verdict.stage) for verdict in found)
    for verdict in found:
        before = f"{verdict.stage:<{width}}  {verdict.verdict:<10}  "
        for line in rows(before, "\n".join(_lines(verdict)), len(before), tty.width()):
            show(line)


def _lines(verdict: Verdict) -> tuple[str, ...]:
    outlook = (str(verdict.outlook),) if verdict.outlook else ()
    return (*verdict.reasons, *outlook)


def _found(plan: Plan, found: Iterable[Verdict]) -> Found:
    """What deps left, where that is still what it would leave."""
    deps, env = (next(one for one in plan.stages if one.room == room) for room in ("deps", "env"))
    if any(one.stage == deps.name and one.verdict != "up to date" for one in found):
        return Found()
    try:
        left = manifests.read(deps.job.manifest, Deps), manifests.read(env.job.cache, Cache)
        return Found(*left, foresee_env(env.job))
    except BuildError:
        return Found()


def _past(plan: Plan, found: Iterable[Verdict]) -> Iterator[Past]:
    """What the stages that would run took last time."""
    stages = {stage.name: stage for stage in plan.stages}
    for verdict in found:
        stage = stages[verdict.stage]
        if verdict.verdict == "up to date":
            continue
        past = _compiled(stage, verdict.outlook) if stage.room == "compile" else _recorded(stage)
        yield replace(past, certain=verdict.verdict == "runs")


def _recorded(stage: Stage) -> Past:
    record = records.last_record(stage) or {}
    return Past(stage.name, record.get("seconds"))


def _compiled(stage: Stage, outlook: Outlook | None) -> Past:
    past = list(runs.read(stage.job.runs))
    asked = outlook.ninja.objects if outlook and outlook.ninja else None
    peaks = runs.peaks(past).values()
    return Past(stage.name, whole_build(past, asked), max(peaks, default=None))


def explain(plan: Plan) -> Iterator[Verdict]:
    """The verdicts, in the order in which the stages would run."""
    moving: set[str] = set()
    environment = None
    for stage in plan.stages:
        verdict = _judge(stage, moving, environment)
        if stage.room == "env" and verdict.verdict == "runs":
            environment = foresee_env(stage.job)
        if verdict.verdict != "up to date":
            moving.update(str(path) for path in stage.leaves)
        yield verdict


def _judge(stage: Stage, moving: set[str], environment: Environment | None) -> Verdict:
    reasons = _source(stage) if stage.room == "source" else why.reasons(stage)
    if not reasons and stage.asks == "moved" and room(stage, "moved").moved(stage.job):
        reasons = why.unlocked(stage) or (_MOVED,)
    fed = [Path(path).stem for path in stage.reads if str(path) in moving]
    compiles = stage.room == "compile" and (reasons or fed)
    outlook = foresee_compile(stage.job, environment) if compiles else None
    if reasons:
        return Verdict(stage.name, "runs", reasons, outlook)
    if fed:
        return Verdict(stage.name, "may run", (f"after {', '.join(fed)}",), outlook)
    return Verdict(stage.name, "up to date", ())


def _source(stage: Stage) -> tuple[str, ...]:
    """It looks at the tree every time; only what it would find counts."""
    return tuple(dict.fromkeys((*records.reasons(stage), *foresee_source(stage.job))))


def _document(
    profile: str, decided: Iterable[Decision], found: list[Verdict], takes: Expected
) -> dict[str, Any]:
    return {
        "profile": profile,
        "decisions": [plain(decision) for decision in decided],
        "stages": [_plain(verdict) for verdict in found],
        "expected": {
            **vars(takes.known),
            "at_most": takes.at_most,
            "unknown": list(takes.unknown),
        },
    }


def _plain(verdict: Verdict) -> dict[str, Any]:
    told: dict[str, Any] = {
        "stage": verdict.stage,
        "verdict": verdict.verdict,
        "reasons": list(verdict.reasons),
    }
    if verdict.outlook:
        decision, ninja = verdict.outlook.decision, verdict.outlook.ninja
        told["folder"] = {
            "decision": decision.do,
            "changes": list(decision.changes),
            "objects": ninja.objects if ninja else None,
            "steps": ninja.steps if ninja else None,
            "last_whole_build": verdict.outlook.last or None,
        }
    return told
