"""Explain why a stage runs: changed files, and what its package says about a changed manifest."""

from __future__ import annotations

from pathlib import PurePath

from tasks.cli.running.execute import load_stage_module
from tasks.core.errors import TorchyardError
from tasks.core.model import Stage
from tasks.core.text_formatting import format_short_reasons
from tasks.runlog import stage_record_io
from tasks.runlog.stage_record_io import ChangeExplainer


def format_rebuild_reason(stage: Stage) -> str:
    """Return the rebuild reasons in short, or the differences from torchyard.lock, or a default.

    If the stage's up-to-date check finds no change, the last run did not finish.
    """
    if reasons := list_rebuild_reasons(stage) or list_unlocked_sources(stage):
        return format_short_reasons(reasons)
    if stage.uptodate_check == "stale" and not load_stage_module(stage, "up_to_date").is_stale(
        stage.job
    ):
        return stage_record_io.UNFINISHED
    return stage_record_io.DEFAULT_REASONS[stage.uptodate_check]


def list_unlocked_sources(stage: Stage) -> tuple[str, ...]:
    """Return what torchyard.lock pins for a stage and the build lacks; () without a result."""
    if stage.uptodate_check != "stale":
        return ()
    up_to_date = load_stage_module(stage, "up_to_date")
    if not hasattr(up_to_date, "list_unlocked"):
        return ()
    try:
        unlocked: tuple[str, ...] = up_to_date.list_unlocked(stage.job)
    except TorchyardError:
        return ()
    return unlocked


def list_rebuild_reasons(stage: Stage) -> tuple[str, ...]:
    """Return the reasons of `find_rebuild_reasons`, with changed manifests explained."""
    return stage_record_io.find_rebuild_reasons(stage, _build_manifest_explainer(stage))


def _build_manifest_explainer(stage: Stage) -> ChangeExplainer:
    def explain_manifest(path: PurePath) -> tuple[str, ...]:
        lines: tuple[str, ...] = (
            load_stage_module(stage, "explain_changes").list_changes(stage.job)
            if path in stage.explained_inputs
            else ()
        )
        return lines

    return explain_manifest
