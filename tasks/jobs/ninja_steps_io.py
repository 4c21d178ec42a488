"""Preview a build with `ninja -n`, and record when each edge (build step) ran."""

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from tasks.core.build_activity import Job
from tasks.core.errors import CommandFailedError, MissingToolError
from tasks.core.model import Command
from tasks.core.ninja_progress import find_failed_output, find_step_output, parse_ninja_step
from tasks.runlog import build_history_io
from tasks.runlog.build_history_io import NinjaLogEntry
from tasks.runlog.run_record import Edge
from tasks.system import shell

_OBJECT = re.compile(r".+\.(?:o|obj)")
_RERUNS_CMAKE = "Re-running CMake"


@dataclass(frozen=True)
class NinjaDryRun:
    """The steps of a dry run. If `configures` is True, CMake runs first, and steps may change."""

    steps: int
    objects: int
    outputs: tuple[str, ...]
    configures: bool


def preview_ninja_build(ninja: str, folder: PurePath, target: str) -> NinjaDryRun | None:
    """Return the steps that Ninja would run for `target`; None if the dry run fails."""
    argv, purpose = (ninja, "-C", str(folder), "-n", target), "list Ninja's steps"
    try:
        command = Command(argv, shell.build_host_env(), purpose, cwd=Path(folder))
        text = shell.capture_output(command)
    except (CommandFailedError, MissingToolError):
        return None
    words = [step.text for step in map(parse_ninja_step, text.splitlines()) if step]
    reruns_cmake = any(_RERUNS_CMAKE in word for word in words)
    files = [word for word in words if _RERUNS_CMAKE not in word and not word.startswith("Install")]
    outputs = tuple(output for output in map(find_step_output, files) if output)
    objects = sum(bool(_OBJECT.fullmatch(output)) for output in outputs)
    return NinjaDryRun(len(files), objects, outputs, reruns_cmake)


@dataclass
class EdgeTimes:
    """The monotonic times at which outputs were started (`since`), finished or failed."""

    finished: dict[str, float] = field(default_factory=dict)
    failed: dict[str, float] = field(default_factory=dict)
    since: dict[str, float] = field(default_factory=dict)

    def record_line(self, line: str) -> None:
        """Record the current time if a line of Ninja reports a finished or failed output."""
        if parse_ninja_step(line):
            if output := find_step_output(line):
                self.finished[output] = time.monotonic()
        elif output := find_failed_output(line):
            self.failed[output] = time.monotonic()

    def record_running_jobs(self, at_work: Iterable[Job]) -> None:
        """Record the start times of the jobs in one sample of the jobserver."""
        now = time.monotonic()
        self.since.update({job.output: now - job.age for job in at_work if job.output})


def build_edges(
    times: EdgeTimes, log_entries: Mapping[str, NinjaLogEntry], peaks: Mapping[str, int]
) -> list[Edge]:
    """Return the finished and failed compiler and linker edges, ordered by start time.

    `log_entries` is Ninja's log of this build, which lacks failed outputs. `peaks` maps outputs
    to MiB. A failed edge has the duration 0 if its start is unknown.
    """
    edges = []
    for output, end in times.failed.items():
        start = min(times.since.get(output, end), end)
        edges.append(Edge(output, start, end, peaks.get(output), failed=True))
    compiled = dict(build_history_io.select_compiled(log_entries))
    reported = times.finished.keys() & compiled.keys()
    if reported:
        began = min(times.finished[output] - compiled[output].ended for output in reported)
        for output, entry in compiled.items():  # Ninja prints no line for some outputs
            end = times.finished.get(output, began + entry.ended)
            edges.append(Edge(output, end - entry.seconds, end, peaks.get(output)))
    return sorted(edges, key=lambda edge: (edge.began, edge.output))
