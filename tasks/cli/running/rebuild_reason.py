"""Explain why a stage runs: changed files, and details from the stage's `explain_changes`."""

from contextlib import suppress
from pathlib import PurePath

from tasks.cli.running.execute import load_stage_module
from tasks.core.errors import TorchyardError
from tasks.core.model import Stage
from tasks.core.text_formatting import format_short_reasons
from tasks.runlog import stage_record_io


def format_rebuild_reason(stage: Stage) -> str:
    """Return why the stage runs, as one short text."""
    if reasons := list_rebuild_reasons(stage) or list_unlocked_sources(stage):
        return format_short_reasons(reasons)
    check = stage.uptodate_check
    if check == "stale" and not load_stage_module(stage, "up_to_date").is_stale(stage.job):
        return stage_record_io.UNFINISHED
    return stage_record_io.DEFAULT_REASONS[check]


def list_unlocked_sources(stage: Stage) -> tuple[str, ...]:
    """Return how the results of the stage differ from torchyard.lock."""
    module = load_stage_module(stage, "up_to_date") if stage.uptodate_check == "stale" else None
    if module and hasattr(module, "list_unlocked"):
        with suppress(TorchyardError):
            return tuple(module.list_unlocked(stage.job))
    return ()


def list_rebuild_reasons(stage: Stage) -> tuple[str, ...]:
    """Return the reasons to run the stage again, with details on changed manifests."""

    def explain_manifest(path: PurePath) -> tuple[str, ...]:
        if path not in stage.explained_inputs:
            return ()
        return tuple(load_stage_module(stage, "explain_changes").list_changes(stage.job))

    return stage_record_io.find_rebuild_reasons(stage, explain_manifest)
