"""`doit explain`: print the decisions and what `doit build` would do now, with reasons and cost.

It changes nothing. A stage `runs` if files or its up-to-date check say so. A stage that only reads
outputs of such a stage `may run`: if those come out the same, it does not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tasks.cli import decisions
from tasks.cli.commands.doctor import refuse_known_bad
from tasks.cli.running import rebuild_reason
from tasks.cli.running.execute import load_stage_module
from tasks.core.canonical_json import convert_to_json, format_canonical_json
from tasks.core.deps_model import CompilerCache, DepsManifest
from tasks.core.errors import TorchyardError, redact_secrets
from tasks.core.model import Plan, Stage
from tasks.doctor import folder_facts_io
from tasks.doctor.examine_host import build_probe_request
from tasks.doctor.folder_checks import compute_disk_usage, format_disk_usage
from tasks.lock.opened_profile_io import Profile, SelectedProfile
from tasks.planning.warnings import list_capability_warnings, list_known_bad_warnings
from tasks.runlog import build_history_io, stage_record_io
from tasks.settings.setting_errors import describe_unused_variables
from tasks.stages.compile.build_context_io import BuildPreview
from tasks.stages.compile.build_context_io import preview_build as foresee_compile
from tasks.stages.env.model import Environment
from tasks.stages.env.run import preview_environment as foresee_env
from tasks.stages.source.tree_changes_io import preview_source_changes as foresee_source
from tasks.system import manifests
from tasks.system.files import write_user_file
from tasks.system.hardware import capacity
from tasks.system.output import print_report
from tasks.system.screen import print_labeled_text, print_status_rows

_EXPLAIN_KEY_WIDTH = 13
_CHANGED_REASON = "what it made, or what it is made from, was changed since"


@dataclass(frozen=True)
class Verdict:
    """Whether a stage would run, and why; `preview` is set for compile."""

    stage: str
    verdict: Literal["up to date", "runs", "may run"]
    reasons: tuple[str, ...]
    preview: BuildPreview | None = None


def run(subject: SelectedProfile, json: str = "") -> None:
    """Print the decisions, a line per stage in order, and the expected cost.

    Raises the problem of a broken profile, and the error of `doit build` for a combination that is
    known to fail.
    """
    opened = subject.require_profile()
    plan = opened.plan
    verdicts = list(explain_stages(plan))
    resolved = decisions.list_decisions(opened, _read_deps_results(plan, verdicts))
    cost = decisions.estimate_cost(
        _list_stage_costs(plan, verdicts), _estimate_from_facts(subject, opened)
    )
    known_bad = list_known_bad_warnings(opened.knowledge, opened.host, opened.choice)
    target_notes = list_capability_warnings(opened.loaded, opened.host, opened.knowledge)
    warnings = [*plan.warnings, *describe_unused_variables(os.environ), *target_notes, *known_bad]
    show_decisions(resolved)
    for warning in warnings:
        _show_row("WARNING", warning)
    refuse_known_bad(subject)
    if json:
        document = {
            **_build_explain_document(subject.name, resolved, verdicts, cost),
            "warnings": warnings,
        }
        write_user_file(Path(json), redact_secrets(format_canonical_json(document)))
    print_status_rows([_format_verdict(verdict) for verdict in verdicts])
    print_report("")
    _show_row("expected", str(cost))


def _estimate_from_facts(subject: SelectedProfile, profile: Profile) -> decisions.CostEstimate:
    """Return the cost of similar builds, from the knowledge, on the cores and disks here."""
    cost, disk = profile.cost.scale_to_cores(capacity.count_usable_cores()), profile.cost.disk_usage
    disks = tuple(
        folder_facts_io.list_disks(build_probe_request(subject.root, profile.host, profile))
    )
    size = sum(mib for _, mib in compute_disk_usage(disks, disk).values()) if disk else 0
    is_verified = "unverified" not in cost.known
    return decisions.CostEstimate(
        seconds=sum(cost.seconds) / 2 if cost.seconds else None,
        memory_mib=cost.memory_mib or None,
        disk_gib=size / 1024 or None,
        disk=format_disk_usage(disks, disk),
        by="by our facts" if is_verified else "by our facts, in part not verified",
    )


def show_decisions(decided: Iterable[decisions.Decision]) -> None:
    """Print one row per decision."""
    last = ""
    for decision in decided:
        _show_row("" if decision.key == last else decision.key, str(decision))
        last = decision.key
    print_report("")


def _show_row(key: str, text: str) -> None:
    print_labeled_text(key, text, _EXPLAIN_KEY_WIDTH)


def _format_verdict(verdict: Verdict) -> tuple[str, str, str]:
    preview = (str(verdict.preview),) if verdict.preview else ()
    return verdict.stage, verdict.verdict, "\n".join((*verdict.reasons, *preview))


def _read_deps_results(plan: Plan, found: Iterable[Verdict]) -> decisions.DepsResults:
    """Return the results of deps if they are up to date, else empty ones."""
    deps, env = (next(one for one in plan.stages if one.kind == kind) for kind in ("deps", "env"))
    if any(one.stage == deps.name and one.verdict != "up to date" for one in found):
        return decisions.DepsResults()
    try:
        results = (
            manifests.read_manifest(deps.job.manifest, DepsManifest),
            manifests.read_manifest(env.job.cache, CompilerCache),
        )
        return decisions.DepsResults(*results, foresee_env(env.job))
    except TorchyardError:
        return decisions.DepsResults()


def _list_stage_costs(plan: Plan, found: Iterable[Verdict]) -> Iterator[decisions.StageCost]:
    """Yield the last cost of each stage that would run."""
    stages = {stage.name: stage for stage in plan.stages}
    for verdict in found:
        stage = stages[verdict.stage]
        if verdict.verdict == "up to date":
            continue
        cost = (
            _estimate_compile_cost(stage, verdict.preview)
            if stage.kind == "compile"
            else _read_recorded_cost(stage)
        )
        yield replace(cost, certain=verdict.verdict == "runs")


def _read_recorded_cost(stage: Stage) -> decisions.StageCost:
    record = stage_record_io.read_last_record(stage) or {}
    return decisions.StageCost(stage.name, record.get("seconds"))


def _estimate_compile_cost(stage: Stage, outlook: BuildPreview | None) -> decisions.StageCost:
    history = list(build_history_io.read_history(stage.job.runs))
    objects = outlook.ninja.objects if outlook and outlook.ninja else None
    peaks = build_history_io.collect_peaks(history).values()
    return decisions.StageCost(
        stage.name, decisions.estimate_compile_seconds(history, objects), max(peaks, default=None)
    )


def explain_stages(plan: Plan) -> Iterator[Verdict]:
    """Yield the verdicts in the order in which the stages would run."""
    changing: set[str] = set()
    environment = None
    for stage in plan.stages:
        verdict = _judge_stage(stage, changing, environment)
        if stage.kind == "env" and verdict.verdict == "runs":
            environment = foresee_env(stage.job)
        if verdict.verdict != "up to date":
            changing.update(str(path) for path in stage.outputs)
        yield verdict


def _judge_stage(stage: Stage, moving: set[str], environment: Environment | None) -> Verdict:
    reasons = (
        _list_source_reasons(stage)
        if stage.kind == "source"
        else rebuild_reason.list_rebuild_reasons(stage)
    )
    if (
        not reasons
        and stage.uptodate_check == "stale"
        and load_stage_module(stage, "up_to_date").is_stale(stage.job)
    ):
        reasons = rebuild_reason.list_unlocked_sources(stage) or (_CHANGED_REASON,)
    changed_inputs = [Path(path).stem for path in stage.inputs if str(path) in moving]
    compiles = stage.kind == "compile" and (reasons or changed_inputs)
    outlook = foresee_compile(stage.job, environment) if compiles else None
    if reasons:
        return Verdict(stage.name, "runs", reasons, outlook)
    if changed_inputs:
        return Verdict(stage.name, "may run", (f"after {', '.join(changed_inputs)}",), outlook)
    return Verdict(stage.name, "up to date", ())


def _list_source_reasons(stage: Stage) -> tuple[str, ...]:
    """Return why source would run.

    The stage inspects the tree on every run; only what it would find counts.
    """
    return tuple(
        dict.fromkeys((*stage_record_io.find_rebuild_reasons(stage), *foresee_source(stage.job)))
    )


def _build_explain_document(
    profile: str,
    decided: Iterable[decisions.Decision],
    found: list[Verdict],
    takes: decisions.ExpectedCost,
) -> dict[str, Any]:
    return {
        "profile": profile,
        "decisions": [convert_to_json(decision) for decision in decided],
        "stages": [_serialize_verdict(verdict) for verdict in found],
        "expected": {
            **vars(takes.known),
            "at_most": takes.at_most,
            "unknown": list(takes.unknown),
        },
    }


def _serialize_verdict(verdict: Verdict) -> dict[str, Any]:
    document: dict[str, Any] = {
        "stage": verdict.stage,
        "verdict": verdict.verdict,
        "reasons": list(verdict.reasons),
    }
    if verdict.preview:
        decision, ninja = verdict.preview.decision, verdict.preview.ninja
        document["folder"] = {
            "decision": decision.action,
            "changes": list(decision.changes),
            "objects": ninja.objects if ninja else None,
            "steps": ninja.steps if ninja else None,
            "last_whole_build": verdict.preview.last_object_count or None,
        }
    return document
