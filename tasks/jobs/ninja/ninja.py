"""What a build says while it is at work, told as ticks: how far Ninja is, and the file in short."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from tasks.core.atwork import AtWork
from tasks.core.progress import Meter, Progress
from tasks.jobs.buildlines import subject
from tasks.jobs.forecast import Forecast
from tasks.system.voice import for_speaker, tick

_BEAT = 1.0  # seconds


def follow() -> Callable[[str], None]:
    """For `shell.run`: it takes every line of one command."""
    return _Follower().take


@contextlib.contextmanager
def watched(
    look: Callable[[], AtWork], forecast: Forecast | None = None
) -> Iterator[Callable[[str], None]]:
    """The same, and each second what `look` finds at work, also while Ninja is silent. A `forecast`
    knows better what is left than the count does.
    """
    follower, over = _Follower(forecast=forecast, before_first=True), threading.Event()
    watch = for_speaker(follower.watch)
    beat = threading.Thread(target=watch, args=(look, over), name="watch", daemon=True)
    beat.start()
    try:
        yield follower.take
    finally:
        over.set()
        beat.join()


@dataclass(frozen=True)
class _Said:
    text: str
    progress: Progress
    when: float


@dataclass
class _Follower:
    """While Ninja counts, only its own lines are told: what compilers say goes to the log. CMake's
    `--` means that Ninja is done, also where it never came to the last step.

    The reader of the build takes, another thread watches: one of them ticks at a time.
    """

    meter: Meter = field(default_factory=Meter)
    forecast: Forecast | None = None
    at_work: AtWork = field(default_factory=AtWork)
    counting: _Said | None = None
    before_first: bool = False
    began: float = field(default_factory=time.monotonic)
    text: str = "compiling"
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, line: str) -> None:
        now, text = time.monotonic(), subject(line)
        with self.lock:
            progress = self.meter.feed(line, now)
            if progress:
                progress = replace(progress, eta=self._eta(line, now, progress.eta))
                progress = replace(progress, at_work=self.at_work)
                is_done = progress.done >= progress.total
                self.counting = None if is_done else _Said(text, progress, now)
                self.before_first = False
            elif line.lstrip().startswith("-- "):
                self.counting = None
            if text and (progress or not self.counting):
                self.text = text
                tick(text, progress)

    def watch(self, look: Callable[[], AtWork], over: threading.Event) -> None:
        """Report each second what is at work until `over` is set, even if no step ends."""
        while not over.is_set():
            self.at_work = look()
            with self.lock:
                now = time.monotonic()
                if said := self.counting:
                    later = said.progress.after(now - said.when)
                    tick(said.text, replace(later, at_work=self.at_work))
                else:
                    silent = now - self.began if self.before_first else 0.0
                    tick(self.text, Progress(0, 0, at_work=self.at_work, silent=silent))
            over.wait(_BEAT)

    def _eta(self, line: str, now: float, by_count: float | None) -> float | None:
        if not self.forecast:
            return by_count
        self.forecast.finish(line, now)
        left = self.forecast.left(now)
        return by_count if left is None else left
