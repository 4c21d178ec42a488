"""`doit explain`: print the decisions and what `doit build` would do now, with reasons and cost."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePath
from typing import Any, Literal

from tasks.cli import decisions
from tasks.cli.commands.doctor import refuse_known_bad
from tasks.cli.commands.json_output import write_json_result
from tasks.cli.running import rebuild_reason
from tasks.cli.running.execute import load_stage_module
from tasks.core.canonical_json import convert_to_json
from tasks.core.deps_model import CompilerCache, DepsManifest
from tasks.core.errors import TorchyardError
from tasks.core.model import Plan, Stage
from tasks.doctor import folder_facts_io
from tasks.doctor.examine_host import build_probe_request
from tasks.doctor.folder_checks import compute_disk_usage, format_disk_usage
from tasks.lock.opened_profile_io import Profile, SelectedProfile
from tasks.planning.warnings import list_capability_warnings, list_known_bad_warnings
from tasks.runlog import build_history_io, stage_record_io
from tasks.settings.setting_errors import describe_unused_variables
from tasks.stages.compile.build_context_io import BuildPreview, preview_build
from tasks.stages.env.model import Environment
from tasks.stages.env.run import preview_environment
from tasks.stages.source.tree_changes_io import preview_source_changes
from tasks.system import manifests
from tasks.system.hardware import capacity
from tasks.system.output import print_report
from tasks.system.screen import print_labeled_text, print_status_rows

_EXPLAIN_KEY_WIDTH = 13
_CHANGED_REASON = "an output or input of the stage was changed"


@dataclass(frozen=True)
class Verdict:
    """What a build would do with a stage, and why. `preview` is set only for a `compile` stage.

    `may run` means that the stage runs only if an earlier stage changes an input of this stage.
    """

    stage: str
    verdict: Literal["up to date", "runs", "may run"]
    reasons: tuple[str, ...]
    preview: BuildPreview | None = None


def run(subject: SelectedProfile, json: str = "") -> None:
    """Print the decisions, the stages and the cost. Raises the error that would stop a build."""
    opened = subject.require_profile()
    plan = opened.plan
    verdicts = list(explain_stages(plan))
    resolved = list(decisions.list_decisions(opened, *_read_deps_results(plan, verdicts)))
    facts = _estimate_from_facts(subject, opened)
    cost = decisions.estimate_cost(_list_stage_costs(plan, verdicts), facts)
    warnings = [*plan.warnings, *describe_unused_variables(os.environ)]
    warnings += list_capability_warnings(opened.loaded, opened.host, opened.knowledge)
    warnings += list_known_bad_warnings(opened.knowledge, opened.host, opened.choice)
    show_decisions(resolved)
    for warning in warnings:
        print_labeled_text("WARNING", warning, _EXPLAIN_KEY_WIDTH)
    refuse_known_bad(subject)
    document = {
        "profile": subject.name,
        "decisions": [convert_to_json(decision) for decision in resolved],
        "stages": [_serialize_verdict(verdict) for verdict in verdicts],
        "expected": vars(cost),
        "warnings": warnings,
    }
    write_json_result(json, document)
    details = [filter(None, (*one.reasons, one.preview)) for one in verdicts]
    texts = ["\n".join(map(str, lines)) for lines in details]
    rows = zip(verdicts, texts, strict=True)
    print_status_rows([(one.stage, one.verdict, text) for one, text in rows])
    print_report("")
    print_labeled_text("expected", str(cost), _EXPLAIN_KEY_WIDTH)


def _estimate_from_facts(subject: SelectedProfile, profile: Profile) -> decisions.CostEstimate:
    """Estimate the cost of a build on this machine from the cost of similar builds."""
    cost, disk = profile.cost.scale_to_cores(capacity.count_usable_cores()), profile.cost.disk_usage
    request = build_probe_request(subject.project, profile.host, profile)
    disks = tuple(folder_facts_io.list_disks(request))
    size = sum(mib for _, mib in compute_disk_usage(disks, disk).values()) if disk else 0
    is_verified = "unverified" not in cost.known
    return decisions.CostEstimate(
        seconds=sum(cost.seconds) / 2 if cost.seconds else None,
        memory_mib=cost.memory_mib or None,
        disk_gib=size / 1024 or None,
        disk=format_disk_usage(disks, disk),
        by="estimated from similar builds" + ("" if is_verified else ", not all verified"),
    )


def show_decisions(rows: Iterable[decisions.Decision]) -> None:
    """Print one row per decision."""
    for key, group in groupby(rows, key=lambda row: row.key):
        for index, row in enumerate(group):
            print_labeled_text("" if index else key, str(row), _EXPLAIN_KEY_WIDTH)
    print_report("")


def _read_deps_results(
    plan: Plan, found: Iterable[Verdict]
) -> tuple[()] | tuple[DepsManifest, CompilerCache, Environment | None]:
    """Return the toolchain, compiler cache and environment, or () if `deps` is not up to date."""
    deps, env = (next(one for one in plan.stages if one.kind == kind) for kind in ("deps", "env"))
    if any(one.stage == deps.name and one.verdict != "up to date" for one in found):
        return ()
    with suppress(TorchyardError):
        results = manifests.read_manifest(deps.job.manifest, DepsManifest)
        cache = manifests.read_manifest(env.job.cache, CompilerCache)
        return results, cache, preview_environment(env.job)
    return ()


def _list_stage_costs(plan: Plan, found: Iterable[Verdict]) -> Iterator[decisions.StageCost]:
    """Yield the cost of each stage that runs or may run, from the records of earlier runs."""
    stages = {stage.name: stage for stage in plan.stages}
    for verdict in found:
        stage, preview, memory = stages[verdict.stage], verdict.preview, None
        if verdict.verdict == "up to date":
            continue
        if stage.kind == "compile":
            history = list(build_history_io.read_history(stage.job.runs))
            objects = preview.ninja.objects if preview and preview.ninja else None
            seconds = decisions.estimate_compile_seconds(history, objects)
            memory = max(build_history_io.collect_peaks(history).values(), default=None)
        else:
            seconds = (stage_record_io.read_last_record(stage) or {}).get("seconds")
        yield decisions.StageCost(stage.name, seconds, memory, verdict.verdict == "runs")


def explain_stages(plan: Plan) -> Iterator[Verdict]:
    """Yield a verdict for each stage, in the order of a build."""
    changing, environment = set[PurePath](), None
    for stage in plan.stages:
        verdict = _judge_stage(stage, changing, environment)
        if stage.kind == "env" and verdict.verdict == "runs":
            environment = preview_environment(stage.job)
        if verdict.verdict != "up to date":
            changing.update(stage.outputs)
        yield verdict


def _judge_stage(stage: Stage, changing: set[PurePath], environment: Environment | None) -> Verdict:
    if stage.kind == "source":  # source inspects the tree on every run: only changes count
        found = (*stage_record_io.find_rebuild_reasons(stage), *preview_source_changes(stage.job))
        reasons = tuple(dict.fromkeys(found))
    else:
        reasons = rebuild_reason.list_rebuild_reasons(stage)
    has_check = not reasons and stage.uptodate_check == "stale"
    if has_check and load_stage_module(stage, "up_to_date").is_stale(stage.job):
        reasons = rebuild_reason.list_unlocked_sources(stage) or (_CHANGED_REASON,)
    changed_inputs = [path.stem for path in stage.inputs if path in changing]
    if not reasons and not changed_inputs:
        return Verdict(stage.name, "up to date", ())
    preview = preview_build(stage.job, environment) if stage.kind == "compile" else None
    if reasons:
        return Verdict(stage.name, "runs", reasons, preview)
    return Verdict(stage.name, "may run", (f"after {', '.join(changed_inputs)}",), preview)


def _serialize_verdict(verdict: Verdict) -> dict[str, Any]:
    document: dict[str, Any] = {"stage": verdict.stage, "verdict": verdict.verdict}
    document["reasons"] = list(verdict.reasons)
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
