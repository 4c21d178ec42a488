"""The one way a stage is executed, and what a run needs for it.

Extensions do not wait for one another: whichever doit comes to first, all are at work
(`tasks.cli.running.execute`).
"""

from __future__ import annotations

import errno
import importlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from doit.exceptions import TaskFailed

from tasks import __version__
from tasks.core.errors import BusyError, NoSpaceError, TorchyardError
from tasks.core.model import Json, Layout, Plan, Stage
from tasks.settings.schema import Notify
from tasks.system import output, shell
from tasks.system.console import Console, Outcome
from tasks.system.profile_hint import add_profile_to_errors

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from tasks.runlog.run_record_io import RunRecorder


def load_stage_module(stage: Stage, module: str) -> Any:
    """Return a module of the stage's package: `run`, `up_to_date` or `explain_changes`."""
    return importlib.import_module(f"tasks.stages.{stage.kind}.{module}")


StageAction = Callable[[Any], tuple[Any, ...]]

_MAX_PARALLEL = 4  # extensions at once
_INCOMPLETE_MESSAGE = "an extension failed; this stage ran without it"
_TASKS_WITH_ALL_EXTENSIONS = {"build", "extensions", "install"}  # what takes all of them
_NOT_WRITABLE_ERRNOS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)


@dataclass
class Session:
    """One run over one profile: its plan, its console, and the lock that is taken with the first
    action. `gate` raises a `BuildError` for what would stop a build; it is asked once, by the first
    stage that really has something to do, and `refused` is what it said; `busy` says that another
    run holds the lock. `attempt` runs a stage's
    action, and tells what was done about a failure of it. `always`: a person asked for every stage
    anew. `selected` are the tasks that a person asked for, once doit knows; `notify` says who is
    told of the run's end.
    """

    plan: Plan
    layout: Layout
    console: Console
    pin: Callable[[], None]
    gate: Callable[[], None] = lambda: None
    attempt: Callable[[Stage, StageAction], tuple[tuple[Any, ...], str]] = lambda stage, run: (
        run(stage.job),
        "",
    )
    lock_stack: ExitStack = field(default_factory=ExitStack)
    entered: bool = False
    gate_passed: bool = False
    refusal: str = ""
    busy: bool = False
    rebuild_all: bool = False
    selected: set[str] = field(default_factory=set)
    records: PurePath | None = None
    read_run_header: Callable[[], Mapping[str, Json]] = dict
    notify: Notify = field(default_factory=Notify)
    parallel: ParallelStages[TaskFailed] | None = None

    @cached_property
    def record(self) -> RunRecorder:
        """What is kept of the run, in the folder `records`; it begins with `head`."""
        from tasks.runlog.run_record_io import RunRecorder  # noqa: PLC0415 - only where something is done

        return RunRecorder(self.records, self.read_run_header, started=self.console.started)


def execute_stage(yard: Session, stage: Stage) -> TaskFailed | None:
    """What doit calls for a stage. Extensions are at work side by side, whichever it came to."""
    if refusal := _find_refusal(yard, stage):
        yard.record.record_refusal(stage.name, refusal.get_msg())
        return refusal
    if stage.optional_inputs:
        return _run_despite_failures(yard, stage)
    if stage.kind != "extensions":
        return _capture_failure(lambda: _run_stage(yard, stage))
    yard.parallel = yard.parallel or _create_parallel_stages(yard)
    return yard.parallel.wait_for_stage(stage)


def _run_despite_failures(yard: Session, stage: Stage) -> TaskFailed | None:
    """Run a stage after those whose manifests it may lack. If one of these failed, fail the stage
    afterwards, so that the exit code is 1.
    """
    yard.parallel = yard.parallel or _create_parallel_stages(yard)
    failed: set[PurePath] = set()
    for other in list_optional_stages(yard.plan, stage):
        if failed & set(other.inputs) or (is_due(other) and yard.parallel.wait_for_stage(other)):
            failed.update(other.outputs)
    failure = _capture_failure(lambda: _run_stage(yard, stage))
    return failure or (TaskFailed(_INCOMPLETE_MESSAGE, report=False) if failed else None)


def list_optional_stages(plan: Plan, stage: Stage) -> list[Stage]:
    """Return the stages whose manifests `stage` may lack, in order."""
    return [other for other in plan.stages if set(other.outputs) & set(stage.optional_inputs)]


def _find_refusal(yard: Session, stage: Stage) -> TaskFailed | None:
    """Why it cannot begin; what the gate found is told with the first stage that it stopped."""
    if yard.refusal and (yard.busy or _needs_gate(yard, stage)):
        return TaskFailed(yard.refusal, report=False)
    failure = _capture_failure(lambda: _prepare_stage(yard, stage))
    if failure and yard.busy:  # no stage has failed: none could begin
        yard.refusal = failure.get_msg()
        yard.console.report_failure(yard.layout.profile, yard.refusal, "Busy")
        return TaskFailed(yard.refusal, report=False)
    return failure


def _prepare_stage(yard: Session, stage: Stage) -> None:
    with add_profile_to_errors(yard.layout.profile):
        _check_gate(yard, stage)
        _enter_build_folder(yard, stage)
    if yard.entered:
        yard.record.start_record()


def _capture_failure(act: Callable[[], None]) -> TaskFailed | None:
    """A `BuildError` becomes a failed task, anything else stays a bug."""
    try:
        act()
    except TorchyardError as error:
        return TaskFailed(str(error))
    except OSError as error:
        told = _translate_disk_error(error)
        if told is None:
            raise
        return TaskFailed(str(told))
    return None


def _run_stage(yard: Session, stage: Stage) -> None:
    """One stage, and the record of it."""
    from tasks.cli.running import rebuild_reason  # noqa: PLC0415 - nothing of this is needed when all is up to date

    if stage.kind == "extensions" and not yard.rebuild_all and _is_current(stage):
        return  # doit forgets what waited for a stage that failed; the others cost seconds
    reason = rebuild_reason.format_rebuild_reason(stage)
    yard.console.begin_stage(stage, reason)
    speaking, kept = output.label_output(stage.name), yard.record.record_stage(stage.name, reason)
    with speaking, kept as done, add_profile_to_errors(yard.layout.profile):
        outputs, outcome, auto_fix = _run_action(yard, stage, reason)
        done.outcome, done.outputs, done.auto_fix = outcome, outputs[0], auto_fix
    yard.console.end_stage(stage, reason, outcome)


def _run_action(yard: Session, stage: Stage, reason: str) -> tuple[Any, Outcome, str]:
    """Withdraw its claim, act, publish. With what was done about a failure on the way."""
    from tasks.runlog import stage_record_io  # noqa: PLC0415 - as above
    from tasks.system import manifests  # noqa: PLC0415 - as above

    started = time.monotonic()
    before = [_read_bytes(path) for path in stage.outputs]
    if stage.uptodate_check != "always":
        manifests.remove_manifests(*stage.outputs)
    outputs, auto_fix = yard.attempt(stage, load_stage_module(stage, "run").run)
    for path, content in zip(stage.outputs, outputs, strict=True):
        manifests.write_manifest(path, content)
    stage_record_io.write_stage_record(
        stage, reason, time.monotonic() - started, __version__, auto_fix
    )
    changed = before != [_read_bytes(path) for path in stage.outputs]
    return outputs, _classify_outcome(outputs, changed=changed), auto_fix


def _create_parallel_stages(yard: Session) -> ParallelStages[TaskFailed]:
    """The extensions that were asked for, as many at once as there are cores, and not many: each
    has a Python with a torch in it.
    """
    from tasks.system.hardware import capacity  # noqa: PLC0415

    def run_extension(stage: Stage) -> TaskFailed | None:
        failure = _capture_failure(lambda: _run_stage(yard, stage))
        if failure is None or yard.console.interrupted:
            return failure
        yard.console.report_failure(
            stage.name, failure.get_msg()
        )  # now, and not when doit comes to it
        return TaskFailed(failure.get_msg(), report=False)

    return ParallelStages(
        stages=tuple(_list_selected_extensions(yard)),
        act=run_extension,
        is_due=is_due,
        stopped=lambda: yard.console.interrupted,
        most=min(capacity.count_usable_cores(), _MAX_PARALLEL),
    )


def _list_selected_extensions(yard: Session) -> Iterator[Stage]:
    """The extensions that were asked for: all of them, or some by name, and what these read."""
    stages = yard.plan.find_stages("extensions")
    named = {name for name in yard.selected if name.startswith("extensions:")}
    for stage in reversed(stages):
        if stage.name in named:
            named |= {one.name for one in stages if set(one.outputs) & set(stage.inputs)}
    every = bool(_TASKS_WITH_ALL_EXTENSIONS & yard.selected)
    yield from (stage for stage in stages if every or stage.name in named)


def is_due(stage: Stage) -> bool:
    """Whether doit will run it when it comes to it: where that is not sure, it shall find out."""
    from tasks.runlog import stage_record_io  # noqa: PLC0415 - nothing of this is needed when all is up to date

    if not all(Path(path).is_file() for path in stage.outputs):
        return True
    known = stage_record_io.read_last_record(stage) is not None
    return known and bool(
        stage_record_io.find_rebuild_reasons(stage)
        or load_stage_module(stage, "up_to_date").is_stale(stage.job)
    )


def _is_current(stage: Stage) -> bool:
    """Whether its last result is that of what is asked now, by files alone."""
    from tasks.runlog import stage_record_io  # noqa: PLC0415 - nothing of this is needed when all is up to date

    return stage_record_io.read_last_record(stage) is not None and not is_due(stage)


def _translate_disk_error(error: OSError) -> TorchyardError | None:
    """What a person can do something about; None where it is a bug of ours."""
    where = str(error.filename)
    if error.errno == errno.ENOSPC:
        return NoSpaceError("the disk is full", location=where, hint="free some room")
    if error.errno in _NOT_WRITABLE_ERRNOS:
        todo = "see that this place can be written to, or choose another one in the settings"
        return TorchyardError(str(error.strerror).lower(), location=where, hint=todo)
    return None


def _classify_outcome(outputs: Any, *, changed: bool) -> Outcome:
    if getattr(outputs[0], "status", "") == "unreachable":
        return "skipped"
    return "changed" if changed else "unchanged"


def run_command_action(act: Callable[..., None], **params: Any) -> TaskFailed | None:
    """An action outside the stages, its expected failures told the same way."""
    return _capture_failure(lambda: act(**params))


def _check_gate(yard: Session, stage: Stage) -> None:
    """Ask the gate, once."""
    if not _needs_gate(yard, stage):
        return
    try:
        yard.gate()
    except TorchyardError as error:
        yard.refusal = str(error)
        raise
    yard.gate_passed = True


def _needs_gate(yard: Session, stage: Stage) -> bool:
    """Not once the gate is passed, nor where a stage only looks (a tree each time, a build that is
    there).
    """
    only_looks = stage.uptodate_check == "always" and all(map(_read_bytes, stage.outputs))
    return not (yard.gate_passed or only_looks or stage.kind == "validate")


def _enter_build_folder(yard: Session, stage: Stage) -> None:
    """What the first action of a run does for all of them: own the build folder, lock it, pin the
    host. Where nothing was built yet there is nothing to own for who only looks.
    """
    if yard.entered or (stage.kind == "validate" and not Path(yard.layout.build).is_dir()):
        return
    from tasks.system import files  # noqa: PLC0415 - nothing of this is needed when all is up to date

    files.create_owned_folder(yard.layout.build)
    try:
        yard.lock_stack.enter_context(files.lock_folder(yard.layout.build))
    except BusyError:
        yard.busy = True
        raise
    yard.pin()
    yard.entered = True


def _read_bytes(path: PurePath) -> bytes:
    file = Path(path)
    return file.read_bytes() if file.is_file() else b""


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
        from concurrent.futures import wait  # noqa: PLC0415 - only where stages run

        ended = self._at_work[stage.name]
        try:
            while not ended.done():
                wait([ended], _POLL_SECONDS)
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
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - only where stages run

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
