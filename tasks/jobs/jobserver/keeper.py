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

from tasks.core.jobs import BuildSnapshot, GovernorDecision, Job
from tasks.jobs.jobserver.edges import JobsSnapshot, RunningEdges
from tasks.jobs.jobserver.pauses import PausedJobs
from tasks.jobs.jobserver.tokens import JobTokens, LeaderLock
from tasks.system.hardware import memory
from tasks.system.voice import print_warning

_AUDIT_SAMPLES = 8  # moments that must agree before tokens count as lost, or as too many


class JobserverController:
    """Of `total` tokens, those that it holds are withheld; the others lie there or are at
    work. Who has not the governor's chair only looks.
    """

    def __init__(
        self,
        tokens: JobTokens,
        chair: LeaderLock,
        edges: RunningEdges,
        decide: Callable[[BuildSnapshot], GovernorDecision],
        most: int,
    ) -> None:
        self.tokens = tokens
        self.in_use = self.busiest = 0
        self.at_work: tuple[Job, ...] = ()
        self._leader_lock = chair
        self._edges = edges
        self._decide = decide
        self._most = most
        self._pauses = PausedJobs()
        self._groups = memory.find_control_groups()
        self._failed = self._unsure = False
        self._withheld = 0
        self._owed = 0  # to be withheld as soon as they come back
        self._granted = time.monotonic()
        self._audit_counts: deque[tuple[int, int]] = deque(maxlen=_AUDIT_SAMPLES)

    @property
    def withheld_jobs(self) -> int:
        """Tokens held, here or by another governor."""
        return (
            self._withheld if self._leader_lock.taken else self._count_missing_tokens(self.in_use)
        )

    def take_first_sample(self) -> None:
        """The first moment, before any build: there are no tokens yet."""
        self._run_safely(self._govern_once)

    def run_loop(self, tick: float) -> None:
        """Until `end`, a moment every `tick` seconds."""
        self._run_safely(lambda: self._govern_until_stopped(tick))

    def stop_control(self, thread: threading.Thread) -> dict[str, int]:
        """Stop, give everything back; peaks in MiB by output. Once more where an interrupt came in
        between.
        """
        self.tokens.stop_waiting()
        thread.join()
        self._run_safely(self._sample_last_time)
        self._release_tokens()
        return self._edges.peaks

    def _run_safely(self, work: Callable[[], None]) -> None:
        """Once something fails there is no governor here any more, and nothing is withheld."""
        if self._failed:
            return
        try:
            work()
        except Exception as bug:  # noqa: BLE001 - a build must not hang for a bug of ours
            self._failed = True
            self.at_work = ()  # nobody looks any more
            print_warning(f"jobs are not held back by memory any more: {type(bug).__name__}: {bug}")
            with contextlib.suppress(OSError):  # it may be what failed
                if self._leader_lock.acquire_lead() and not self._unsure:
                    self._withheld = max(self._withheld, self._count_missing_tokens(self.in_use))
            self._release_tokens()
            self._leader_lock.close()
            self.in_use = 0

    def _sample_last_time(self) -> None:
        self._edges.sample_jobs(time.monotonic())

    def _govern_until_stopped(self, tick: float) -> None:
        while not self._wait_until(time.monotonic() + tick):
            self._govern_once()

    def _govern_once(self) -> None:
        now = time.monotonic()
        moment = self._edges.sample_jobs(now, self._pauses.since)
        self.in_use = len(moment.jobs)
        self.busiest = max(self.busiest, self.in_use)
        self.at_work = moment.jobs
        self._unsure = moment.unsure
        if not self._leader_lock.taken:
            if not self._leader_lock.acquire_lead():
                return
            # what a make holds is not missing: once it is gone the audit tells what is
            self._withheld = 0 if moment.unsure else self._count_missing_tokens(moment.most)
        self._audit_tokens(moment)
        self._apply_verdict(self._decide(self._build_view(moment, now)), moment, now)

    def _build_view(self, moment: JobsSnapshot, now: float) -> BuildSnapshot:
        there = memory.measure_memory(self._groups)
        return BuildSnapshot(
            limit_mib=there.limit_mib,
            available_mib=there.available_mib,
            running=moment.jobs,
            idle=self.tokens.count_tokens() + (moment.idle if moment.ninjas else 1),
            most=self._most,
            shown=self._edges.shown,
            since_grant=now - self._granted,
        )

    def _apply_verdict(self, verdict: GovernorDecision, moment: JobsSnapshot, now: float) -> None:
        self._pauses.set_paused_jobs(verdict.paused, now)
        out = max(0, verdict.jobs - max(1, moment.ninjas)) + self._count_make_tokens(moment)
        out = min(self._total, out)
        self._owed = max(0, self._total - out - self._withheld)
        surplus = self._withheld - (self._total - out)
        if surplus > 0:
            self.tokens.return_tokens(surplus)
            self._withheld -= surplus
            self._granted = now
        self._add_withheld(self.tokens.take_tokens(self._owed))

    def _count_make_tokens(self, moment: JobsSnapshot) -> int:
        """Tokens that a make holds for jobs that nobody sees: not to be had from others."""
        if not moment.unsure:
            return 0
        return max(0, self._total - self.tokens.count_tokens() - self._withheld - moment.least)

    def _add_withheld(self, taken: int) -> None:
        self._withheld += taken
        self._owed -= taken

    def _wait_until(self, until: float) -> bool:
        """True when it is to stop. Tokens that are owed are taken as they come back."""
        while (left := until - time.monotonic()) > 0 and not self.tokens.stopped:
            self._add_withheld(self.tokens.wait_for_tokens(left, self._owed))
        return self.tokens.stopped

    def _audit_tokens(self, moment: JobsSnapshot) -> None:
        """Tokens that a killed build took with it are held from now on, so that the governor can
        hand them out; of too many the rest is thrown away.
        """
        there = self.tokens.count_tokens() + self._withheld
        lost = 0 if moment.unsure else self._total - there - moment.most
        self._audit_counts.append((lost, there + moment.least - self._total))
        if len(self._audit_counts) < _AUDIT_SAMPLES:
            return
        lost, extra = (min(counts) for counts in zip(*self._audit_counts, strict=True))
        if lost > 0 or extra > 0:
            self._audit_counts.clear()
        if lost > 0:
            self._withheld += lost
        elif extra > 0:
            ours = min(extra, self._withheld)
            self._withheld -= ours
            self.tokens.take_tokens(extra - ours)

    def _count_missing_tokens(self, at_work: int) -> int:
        return max(0, self._total - self.tokens.count_tokens() - at_work)

    def _release_tokens(self) -> None:
        self._pauses.close()
        self.tokens.return_tokens(self._withheld)
        self._withheld = self._owed = 0

    @property
    def _total(self) -> int:
        return self._most - 1  # Ninja's own job is the one more
