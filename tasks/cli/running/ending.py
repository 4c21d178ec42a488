"""What becomes of a run that builds when it is over: the end of its record, its last line, and a
word to whoever waits for it.
"""

from __future__ import annotations

import signal
import time

from tasks.cli.running.execution import Session
from tasks.core.errors import TorchyardError
from tasks.core.formatting.duration import format_duration
from tasks.system import files, notify
from tasks.system.voice import print_warning

_LONG_RUN_SECONDS = 10.0  # seconds after which nobody may be looking


def finalize_run(yard: Session, code: int) -> None:
    """The run is over, and `code` is what doit is going to exit with."""
    console = yard.console
    took, ran = time.monotonic() - console.started, console.ran > 0
    stopped = console.interrupted
    _record_end(yard, "interrupted" if stopped else "failed" if code else "done", code)
    console.print_summary()
    if (ran or (code and yard.entered)) and not stopped:
        yard.lock_stack.close()  # whoever is told may build again
        _notify_user(yard, took, code)


def _record_end(yard: Session, outcome: str, code: int) -> None:
    """Of a run that found nothing to do as well, where there is a build folder: it then holds the
    lock for as long as it writes, and leaves it where another run is at work.
    """
    if yard.entered:
        yard.record.finish_record(outcome, code)
    elif files.is_marked(yard.layout.build):
        try:
            with files.lock_folder(yard.layout.build):
                yard.record.start_record()
                yard.record.finish_record(outcome, code)
        except TorchyardError:
            return
        except OSError as error:
            yard.record.warn_incomplete(error)


def _notify_user(yard: Session, took: float, code: int) -> None:
    profile, outcome = yard.layout.profile, "failed" if code else "done"
    if yard.notify.bell and took > _LONG_RUN_SECONDS:
        yard.console.screen.ring_bell()
    if not yard.notify.command:
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # all is saved: who does not want to wait need not
    message = (
        f"torchyard: {profile} {'failed' if code else 'is done'} after {format_duration(took)}"
    )
    try:
        notify.run_notification(yard.notify.command, outcome, profile, took, message)
    except TorchyardError as error:
        print_warning(f"notify.command: {error}")
