"""Stages that do not wait for one another, at work at once; each ends as the doit task that it is.

doit runs one task after the other. When it comes to the first of these stages, all that have to run
and wait for none of the others begin, each in a thread of its own; one that comes after another
begins when that one has ended well. When doit comes to the others they are at work, or done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tasks.core.model import Stage
from tasks.system import output, shell

_POLL_SECONDS = 0.5  # seconds: on Windows an interrupt does not end a wait, and is seen after it
_Failure = TypeVar("_Failure")


@dataclass
class ParallelStages(Generic[_Failure]):
    """`stages` are those that the run wants, in their order, `most` of them at once.

    `act` does one and returns None, or what is told of its failure; `is_due` says whether it has to
    run, as doit will find; `stopped` whether a person interrupted the run.
    """

    stages: tuple[Stage, ...]
    act: Callable[[Stage], _Failure | None]
    is_due: Callable[[Stage], bool]
    stopped: Callable[[], bool]
    most: int
    _at_work: dict[str, Future[_Failure | None]] = field(default_factory=dict)
    _idle: set[str] = field(default_factory=set)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _threads: ThreadPoolExecutor | None = None

    def wait_for_stage(self, stage: Stage) -> _Failure | None:
        """What came of one that doit has come to, and for which nothing has to be waited any more.

        Whatever its action raised is raised here; an interrupt when all threads have ended.
        """
        with self._lock:
            if stage.name not in self._at_work:
                self._begin_stage(stage)
        self._begin_others()
        ended = self._at_work[stage.name]
        try:
            while not ended.done():
                wait_for([ended], _POLL_SECONDS)
        except (SystemExit, KeyboardInterrupt):
            if self._threads:
                self._threads.shutdown(cancel_futures=True)
            raise
        return ended.result()

    def _begin_others(self) -> None:
        with self._lock:
            for stage in () if self.stopped() else self.stages:
                new = stage.name not in self._at_work
                if new and not self._is_blocked(stage) and self._is_due(stage):
                    self._begin_stage(stage)

    def _begin_stage(self, stage: Stage) -> None:
        if not self._threads:
            self._threads = ThreadPoolExecutor(self.most, thread_name_prefix="stage")
        begun = self._threads.submit(self._run_in_thread, stage)
        self._at_work[stage.name] = begun
        begun.add_done_callback(lambda _: self._begin_others())

    def _run_in_thread(self, stage: Stage) -> _Failure | None:
        with output.label_output(stage.name), shell.stop_commands_when(self.stopped):
            return self.act(stage)

    def _is_blocked(self, stage: Stage) -> bool:
        """Whether it reads what another of them is still to leave, or did not manage to."""
        return any(not self._is_satisfied(other) for other in self._list_predecessors(stage))

    def _is_due(self, stage: Stage) -> bool:
        """Asked once where it waits for nobody: a folder of sources is read for it."""
        if stage.name in self._idle:
            return False
        due = self.is_due(stage)
        if not due:
            self._idle.add(stage.name)
        return due

    def _list_predecessors(self, stage: Stage) -> Iterable[Stage]:
        return (other for other in self.stages if set(other.outputs) & set(stage.inputs))

    def _is_satisfied(self, stage: Stage) -> bool:
        ended = self._at_work.get(stage.name)
        if ended is None:
            return not self._is_blocked(stage) and not self._is_due(stage)
        return ended.done() and not ended.exception() and ended.result() is None
