"""What becomes of a run that builds when it is over: the end of its record, its last line, and a
word to whoever waits for it.
"""

from __future__ import annotations

import signal
import time

from tasks.cli.running.execution import Yard
from tasks.core.errors import BuildError
from tasks.core.formatting.duration import elapsed
from tasks.system import files, notify
from tasks.system.voice import warn

_LONG = 10.0  # seconds after which nobody may be looking


def end(yard: Yard, code: int) -> None:
    """The run is over, and `code` is what doit is going to exit with."""
    console = yard.console
    took, ran = time.monotonic() - console.started, console.ran > 0
    stopped = console.interrupted
    _record(yard, "interrupted" if stopped else "failed" if code else "done", code)
    console.close()
    if (ran or (code and yard.entered)) and not stopped:
        yard.held.close()  # whoever is told may build again
        _notify(yard, took, code)


def _record(yard: Yard, outcome: str, code: int) -> None:
    """Of a run that found nothing to do as well, where there is a build folder: it then holds the
    lock for as long as it writes, and leaves it where another run is at work.
    """
    if yard.entered:
        yard.record.end(outcome, code)
    elif files.is_marked(yard.layout.build):
        try:
            with files.lock(yard.layout.build):
                yard.record.begin()
                yard.record.end(outcome, code)
        except BuildError:
            return
        except OSError as error:
            yard.record.unwritten(error)


def _notify(yard: Yard, took: float, code: int) -> None:
    profile, outcome = yard.layout.profile, "failed" if code else "done"
    if yard.notify.bell and took > _LONG:
        yard.console.screen.ring()
    if not yard.notify.command:
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # all is saved: who does not want to wait need not
    message = f"torchyard: {profile} {'failed' if code else 'is done'} after {elapsed(took)}"
    try:
        notify.tell(yard.notify.command, outcome, profile, took, message)
    except BuildError as error:
        warn(f"notify.command: {error}")
