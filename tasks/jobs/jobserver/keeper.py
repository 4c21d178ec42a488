"""The hand on the tokens: looks, asks the governor, withholds tokens or hands them out.

How many jobs are right is the governor's. Measured with 16 jobs of three processes each among 330:
2.2 ms a moment on Linux, which is 0.9 % of a core at four moments a second; a quarter of it is the
listing of all processes.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable

from tasks.core.jobs import Job, Verdict, View
from tasks.jobs.jobserver.edges import Edges, Moment
from tasks.jobs.jobserver.pauses import Pauses
from tasks.jobs.jobserver.tokens import Chair, Tokens
from tasks.system.hardware import memory
from tasks.system.voice import warn

_AUDITED = 8  # moments that must agree before tokens count as lost, or as too many


class Keeper:
    """Of `total` tokens, those that it holds are withheld; the others lie there or are at
    work. Who has not the governor's chair only looks.
    """

    def __init__(
        self,
        tokens: Tokens,
        chair: Chair,
        edges: Edges,
        decide: Callable[[View], Verdict],
        most: int,
    ) -> None:
        self.tokens = tokens
        self.in_use = self.busiest = 0
        self.at_work: tuple[Job, ...] = ()
        self._chair = chair
        self._edges = edges
        self._decide = decide
        self._most = most
        self._pauses = Pauses()
        self._groups = memory.groups()
        self._failed = self._unsure = False
        self._held = 0
        self._owed = 0  # to be withheld as soon as they come back
        self._granted = time.monotonic()
        self._astray: deque[tuple[int, int]] = deque(maxlen=_AUDITED)

    @property
    def withheld(self) -> int:
        """Tokens held, here or by another governor."""
        return self._held if self._chair.taken else self._missing(self.in_use)

    def begin(self) -> None:
        """The first moment, before any build: there are no tokens yet."""
        self._safely(self._moment)

    def run(self, tick: float) -> None:
        """Until `end`, a moment every `tick` seconds."""
        self._safely(lambda: self._govern(tick))

    def end(self, thread: threading.Thread) -> dict[str, int]:
        """Stop, give everything back; peaks in MiB by output. Once more where an interrupt came in
        between.
        """
        self.tokens.stop()
        thread.join()
        self._safely(self._last_look)
        self._release()
        return self._edges.peaks

    def _safely(self, work: Callable[[], None]) -> None:
        """Once something fails there is no governor here any more, and nothing is withheld."""
        if self._failed:
            return
        try:
            work()
        except Exception as bug:  # noqa: BLE001 - a build must not hang for a bug of ours
            self._failed = True
            self.at_work = ()  # nobody looks any more
            warn(f"jobs are not held back by memory any more: {type(bug).__name__}: {bug}")
            with contextlib.suppress(OSError):  # it may be what failed
                if self._chair.take() and not self._unsure:
                    self._held = max(self._held, self._missing(self.in_use))
            self._release()
            self._chair.close()
            self.in_use = 0

    def _last_look(self) -> None:
        self._edges.sample(time.monotonic())

    def _govern(self, tick: float) -> None:
        while not self._wait(time.monotonic() + tick):
            self._moment()

    def _moment(self) -> None:
        now = time.monotonic()
        moment = self._edges.sample(now, self._pauses.since)
        self.in_use = len(moment.jobs)
        self.busiest = max(self.busiest, self.in_use)
        self.at_work = moment.jobs
        self._unsure = moment.unsure
        if not self._chair.taken:
            if not self._chair.take():
                return
            # what a make holds is not missing: once it is gone the audit tells what is
            self._held = 0 if moment.unsure else self._missing(moment.most)
        self._audit(moment)
        self._apply(self._decide(self._view(moment, now)), moment, now)

    def _view(self, moment: Moment, now: float) -> View:
        there = memory.measure(self._groups)
        return View(
            limit_mib=there.limit_mib,
            available_mib=there.available_mib,
            running=moment.jobs,
            idle=self.tokens.count() + (moment.idle if moment.ninjas else 1),
            most=self._most,
            shown=self._edges.shown,
            since_grant=now - self._granted,
        )

    def _apply(self, verdict: Verdict, moment: Moment, now: float) -> None:
        self._pauses.change(verdict.paused, now)
        out = max(0, verdict.jobs - max(1, moment.ninjas)) + self._elsewhere(moment)
        out = min(self._total, out)
        self._owed = max(0, self._total - out - self._held)
        surplus = self._held - (self._total - out)
        if surplus > 0:
            self.tokens.put(surplus)
            self._held -= surplus
            self._granted = now
        self._hold(self.tokens.take(self._owed))

    def _elsewhere(self, moment: Moment) -> int:
        """Tokens that a make holds for jobs that nobody sees: not to be had from others."""
        if not moment.unsure:
            return 0
        return max(0, self._total - self.tokens.count() - self._held - moment.least)

    def _hold(self, taken: int) -> None:
        self._held += taken
        self._owed -= taken

    def _wait(self, until: float) -> bool:
        """True when it is to stop. Tokens that are owed are taken as they come back."""
        while (left := until - time.monotonic()) > 0 and not self.tokens.stopped:
            self._hold(self.tokens.wait(left, self._owed))
        return self.tokens.stopped

    def _audit(self, moment: Moment) -> None:
        """Tokens that a killed build took with it are held from now on, so that the governor can
        hand them out; of too many the rest is thrown away.
        """
        there = self.tokens.count() + self._held
        lost = 0 if moment.unsure else self._total - there - moment.most
        self._astray.append((lost, there + moment.least - self._total))
        if len(self._astray) < _AUDITED:
            return
        lost, extra = (min(counts) for counts in zip(*self._astray, strict=True))
        if lost > 0 or extra > 0:
            self._astray.clear()
        if lost > 0:
            self._held += lost
        elif extra > 0:
            ours = min(extra, self._held)
            self._held -= ours
            self.tokens.take(extra - ours)

    def _missing(self, at_work: int) -> int:
        return max(0, self._total - self.tokens.count() - at_work)

    def _release(self) -> None:
        self._pauses.close()
        self.tokens.put(self._held)
        self._held = self._owed = 0

    @property
    def _total(self) -> int:
        return self._most - 1  # Ninja's own job is the one more
