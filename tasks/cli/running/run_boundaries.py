"""Write the header and the end of a run record, and notify the user."""

import signal
import time
from collections.abc import Collection
from contextlib import suppress

from tasks.cli.running.execute import Session
from tasks.core.canonical_json import convert_to_json
from tasks.core.errors import TorchyardError
from tasks.core.model import Json
from tasks.core.text_formatting import format_duration
from tasks.lock.opened_profile_io import Profile
from tasks.settings.loaded_settings import list_nondefault_settings
from tasks.system import files, shell
from tasks.system.hardware import capacity
from tasks.system.output import print_warning


def build_run_header(name: str, profile: Profile, selected: Collection[str]) -> dict[str, Json]:
    """Return the content of the record's `begin` line; `selected` are the requested tasks."""
    host, choice, plan = profile.host, profile.choice, profile.plan
    stages = [*plan.stages, *([plan.validate] if plan.validate.name in selected else [])]
    producers = {path: stage.name for stage in stages for path in stage.outputs}
    predecessors = [(stage, map(producers.get, stage.inputs)) for stage in stages]
    return {
        "command": sorted(selected),
        "profile": name,
        "host": {
            "system": host.system,
            "machine": host.machine,
            "cores": capacity.count_usable_cores(),
            "memory_mib": capacity.find_memory_limit(capacity.find_control_groups()),
            "python": host.python.version,
            "gpus": [{"name": gpu.name, "capability": gpu.capability} for gpu in host.gpus],
        },
        "asked": convert_to_json(list_nondefault_settings(profile.loaded)),
        "decided": {
            "strategy": choice.strategy,
            "why": [choice.strategy_why, choice.targets_why],
            "torch": choice.torch,
            "cuda": choice.cuda,
            "targets": [str(arch) for arch in choice.targets],
            "toolkit": choice.toolkit.reason,
            **({"facts": list(choice.facts)} if choice.facts else {}),
        },
        "stages": [
            {"name": stage.name, "after": [one for one in dict.fromkeys(names) if one]}
            for stage, names in predecessors
        ],
    }


_LONG_RUN_SECONDS = 10.0  # ring the bell only after longer runs: the user may be away


def finalize_run(session: Session, code: int) -> None:
    """Record the end of the run, print a summary, notify the user. `code` is doit's exit code.

    Nothing is recorded if there is no build folder, or if another run has locked it.
    """
    console = session.console
    seconds = time.monotonic() - console.started
    outcome = "interrupted" if console.interrupted else "failed" if code else "done"
    if session.entered:
        session.record.finish_record(outcome, code)
    elif files.is_marked(session.layout.build):
        try:
            with suppress(TorchyardError), files.lock_folder(session.layout.build):
                session.record.start_record()
                session.record.finish_record(outcome, code)
        except OSError as error:
            session.record.warn_incomplete(error)
    console.print_summary()
    if (console.ran or (code and session.entered)) and outcome != "interrupted":
        session.lock_stack.close()  # unlock first: the notified user may start another build
        _notify_user(session, seconds, code)


def _notify_user(session: Session, seconds: float, code: int) -> None:
    profile, command = session.layout.profile, session.notify.command
    if session.notify.bell and seconds > _LONG_RUN_SECONDS:
        session.console.screen.ring_bell()
    if not command:
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # everything is saved, so Ctrl-C may end the command
    outcome, state = ("failed", "failed") if code else ("done", "is done")
    message = f"torchyard: {profile} {state} after {format_duration(seconds)}"
    try:
        shell.run_notification(command, outcome, profile, seconds, message)
    except TorchyardError as error:
        print_warning(f"notify.command: {error}")
