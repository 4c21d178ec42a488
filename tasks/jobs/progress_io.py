"""Report the progress of a build: its jobs, memory, compiler cache hits and slowest outputs."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from threading import Event, Lock, Thread

from tasks.core.build_activity import BuildActivity, find_heavy_jobs, find_slowest_outputs
from tasks.core.ninja_progress import Progress, ProgressMeter
from tasks.jobs.build_output import summarize_line
from tasks.jobs.forecast import Forecast
from tasks.jobs.jobserver_io import Jobserver
from tasks.runlog.memory_monitor_io import MEMORY_MONITOR
from tasks.system.output import bind_current_context, show_progress


@dataclass(frozen=True)
class ProgressMonitor:
    """The functions that return the compiler cache's hit rate and the seconds of each output."""

    hit_rate: Callable[[], float | None] = lambda: None
    took: Callable[[], Mapping[str, float]] = dict

    def read_activity(self, jobserver: Jobserver | None) -> BuildActivity:
        """Return the current activity, with the running jobs if the build has a jobserver."""
        jobs = jobserver.at_work if jobserver else ()
        memory = MEMORY_MONITOR.read_memory(_REPORT_INTERVAL)  # takes some milliseconds
        return BuildActivity(
            jobs=jobserver.in_use if jobserver else None,
            held_back=jobserver.withheld_jobs if jobserver else 0,
            used_mib=memory.limit_mib - memory.available_mib,
            limit_mib=memory.limit_mib,
            hit_rate=self.hit_rate(),
            heavy=find_heavy_jobs(jobs),
            slowest=find_slowest_outputs(self.took()),
            paused=sum(job.waits > 0 for job in jobs),
        )


_REPORT_INTERVAL = 1.0  # seconds


def create_line_handler() -> Callable[[str], None]:
    """Return a line handler that reports the progress of one command."""
    return _ProgressReporter().report_line


@contextlib.contextmanager
def report_build_progress(
    sample: Callable[[], BuildActivity], forecast: Forecast | None = None
) -> Iterator[Callable[[str], None]]:
    """Yield a line handler for a build, and report the result of `sample` each second."""
    reporter, is_over = _ProgressReporter(forecast=forecast, before_first=True), Event()
    report = bind_current_context(reporter.report_periodically)
    thread = Thread(target=report, args=(sample, is_over), name="watch", daemon=True)
    thread.start()
    try:
        yield reporter.report_line
    finally:
        is_over.set()
        thread.join()


@dataclass
class _ProgressReporter:
    """The progress display of one command. `lock` protects it, because two threads use it.

    From Ninja's first step to its last, only Ninja's lines are shown, not those of compilers. A
    line that begins with `--` is from CMake, which means that Ninja has ended. `before_first` is
    True in a build until Ninja has finished its first step.
    """

    meter: ProgressMeter = field(default_factory=ProgressMeter)
    forecast: Forecast | None = None
    at_work: BuildActivity = field(default_factory=BuildActivity)
    last_step: tuple[str, Progress, float] | None = None  # text, progress, time
    before_first: bool = False
    began: float = field(default_factory=time.monotonic)
    text: str = "compiling"
    lock: Lock = field(default_factory=Lock)

    def report_line(self, line: str) -> None:
        now, text = time.monotonic(), summarize_line(line)
        with self.lock:
            progress = self.meter.read_line(line, now)
            if progress:
                progress = replace(progress, at_work=self.at_work)
                if self.forecast:
                    self.forecast.finish_step(line, now)
                    if (remaining := self.forecast.estimate_remaining(now)) is not None:
                        progress = replace(progress, eta=remaining)
                is_done = progress.done >= progress.total
                self.last_step = None if is_done else (text, progress, now)
                self.before_first = False
            elif line.lstrip().startswith("-- "):
                self.last_step = None
            if text and (progress or not self.last_step):
                self.text = text
                show_progress(text, progress)

    def report_periodically(self, sample: Callable[[], BuildActivity], is_over: Event) -> None:
        """Report the result of `sample` each second until `is_over` is set."""
        while not is_over.is_set():
            self.at_work = sample()
            with self.lock:
                now = time.monotonic()
                if self.last_step:
                    text, progress, when = self.last_step
                    progress = progress.advance_time(now - when)
                    show_progress(text, replace(progress, at_work=self.at_work))
                else:
                    silent = now - self.began if self.before_first else 0.0
                    show_progress(self.text, Progress(0, 0, at_work=self.at_work, silent=silent))
            is_over.wait(_REPORT_INTERVAL)
