"""When each output of a build was made, by our own clock.

Ninja's log has times since that Ninja began, of which there can be several in one build: after
CMake has run, and after a compiler was killed. So an output ended when Ninja's line about it came,
and began as long before that as the log says.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tasks.core.jobs import Job
from tasks.core.ninjalines import find_failed_output, find_step_output, parse_ninja_step
from tasks.runlog import runs
from tasks.runlog.ninjalog import NinjaLogEntry
from tasks.runlog.record import Edge


@dataclass
class EdgeTimes:
    """What a build said while it was at work, in seconds of the steady clock: when outputs were
    made, or failed, and since when those have been at work that were seen.
    """

    finished: dict[str, float] = field(default_factory=dict)
    failed: dict[str, float] = field(default_factory=dict)
    since: dict[str, float] = field(default_factory=dict)

    def record_line(self, line: str) -> None:
        """One line of the build."""
        if parse_ninja_step(line):
            if output := find_step_output(line):
                self.finished[output] = time.monotonic()
        elif output := find_failed_output(line):
            self.failed[output] = time.monotonic()

    def record_running_jobs(self, at_work: Iterable[Job]) -> None:
        """The jobs at one moment."""
        now = time.monotonic()
        self.since.update({job.output: now - job.age for job in at_work if job.output})


def build_edges(
    heard: EdgeTimes, made: Mapping[str, NinjaLogEntry], peaks: Mapping[str, int]
) -> Iterator[Edge]:
    """What compilers and linkers made, and what they failed to, in the order in which it began.
    `made` is what Ninja's log has of this build, `peaks` MiB by output.

    Of an output that failed the log has nothing: where nobody saw it at work, it took no time.
    """
    found = [*_build_failed_edges(heard, peaks), *_build_finished_edges(heard, made, peaks)]
    yield from sorted(found, key=lambda one: (one.began, one.output))


def _build_finished_edges(
    heard: EdgeTimes, made: Mapping[str, NinjaLogEntry], peaks: Mapping[str, int]
) -> Iterator[Edge]:
    compiled = dict(runs.select_compiled(made))
    told = heard.finished.keys() & compiled.keys()
    began = min((heard.finished[output] - compiled[output].ended for output in told), default=None)
    for output, one in compiled.items():
        ended = heard.finished.get(output)
        if ended is None and began is not None:
            ended = began + one.ended  # of an output that no line was about
        if ended is not None:
            yield Edge(output, ended - one.seconds, ended, peaks.get(output))


def _build_failed_edges(heard: EdgeTimes, peaks: Mapping[str, int]) -> Iterator[Edge]:
    for output, ended in heard.failed.items():
        began = min(heard.since.get(output, ended), ended)
        yield Edge(output, began, ended, peaks.get(output), failed=True)
