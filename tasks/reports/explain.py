"""`doit explain`: what `doit build` would do now, stage by stage, and why. It changes nothing.

A stage that files alone, or its own look at the world, tell to run `runs`; one that only reads what
such a stage leaves `may run`: where that comes out the same, it does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tasks.digest import canonical
from tasks.effects import records
from tasks.effects.files import deliver
from tasks.effects.voice import show
from tasks.errors import BuildError, redact
from tasks.model import Plan, Stage
from tasks.reports.subject import Subject
from tasks.rooms import room
from tasks.stages.compile.foresee import Outlook
from tasks.stages.compile.foresee import foresee as foresee_compile
from tasks.stages.env.foresee import foresee as foresee_env
from tasks.stages.env.job import Environment
from tasks.stages.source.foresee import foresee as foresee_source

_MOVED = "what it made, or what it is made from, was changed since"


@dataclass(frozen=True)
class Verdict:
    """What would become of a stage, and why; `outlook` is compile's."""

    stage: str
    verdict: Literal["up to date", "runs", "may run"]
    reasons: tuple[str, ...]
    outlook: Outlook | None = None


def run(subject: Subject, json: str = "") -> None:
    """Print a line for each stage, in order. Raises the problem of a profile that is broken."""
    if subject.opened is None:
        raise subject.problem or BuildError("this profile cannot be opened", where=subject.name)
    found = list(explain(subject.opened.plan))
    if json:
        deliver(Path(json), redact(canonical(_document(subject.name, found))))
    width = max(len(verdict.stage) for verdict in found)
    for verdict in found:
        first, *more = _lines(verdict)
        show(f"{verdict.stage:<{width}}  {verdict.verdict:<10}  {first}".rstrip())
        for line in more:
            show(f"{'':<{width}}  {'':<10}  {line}")


def _lines(verdict: Verdict) -> tuple[str, ...]:
    outlook = (str(verdict.outlook),) if verdict.outlook else ()
    return (*verdict.reasons, *outlook) or ("",)


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
    reasons = _source(stage) if stage.room == "source" else records.reasons(stage)
    if not reasons and stage.asks == "moved" and room(stage, "moved").moved(stage.job):
        reasons = (_MOVED,)
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


def _document(profile: str, found: list[Verdict]) -> dict[str, Any]:
    return {"profile": profile, "stages": [_plain(verdict) for verdict in found]}


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
