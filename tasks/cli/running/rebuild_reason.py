"""Explain why a stage runs: changed files, and details from the stage's `explain_changes`."""

from contextlib import suppress
from pathlib import PurePath

from tasks.cli.running.execute import load_stage_module
from tasks.core.errors import TorchyardError
from tasks.core.model import Stage
from tasks.core.text_formatting import format_short_reasons
from tasks.runlog import stage_record_io


def format_rebuild_reason(stage: Stage) -> str:
    """Return a short text: the rebuild reasons, else the differences from torchyard.lock.

    If there are neither, return `UNFINISHED` if the up-to-date check finds no change, else the
    default reason of the up-to-date check.
    """
    if reasons := list_rebuild_reasons(stage) or list_unlocked_sources(stage):
        return format_short_reasons(reasons)
    check = stage.uptodate_check
    if check == "stale" and not load_stage_module(stage, "up_to_date").is_stale(stage.job):
        return stage_record_io.UNFINISHED
    return stage_record_io.DEFAULT_REASONS[check]


def list_unlocked_sources(stage: Stage) -> tuple[str, ...]:
    """Return what torchyard.lock pins and the stage's results lack; () if there are no results."""
    unlocked: tuple[str, ...] = ()
    if stage.uptodate_check == "stale":
        module = load_stage_module(stage, "up_to_date")
        with suppress(TorchyardError):
            unlocked = module.list_unlocked(stage.job) if hasattr(module, "list_unlocked") else ()
    return unlocked


def list_rebuild_reasons(stage: Stage) -> tuple[str, ...]:
    """Return the reasons to run the stage again, with details on changed manifests."""

    def explain_manifest(path: PurePath) -> tuple[str, ...]:
        if path not in stage.explained_inputs:
            return ()
        return tuple(load_stage_module(stage, "explain_changes").list_changes(stage.job))

    return stage_record_io.find_rebuild_reasons(stage, explain_manifest)
