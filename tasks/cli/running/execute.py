"""Execute the stages of a run: one at a time, and the requested extensions in parallel."""

from __future__ import annotations

import errno
import importlib
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from doit.exceptions import TaskFailed

from tasks import __version__
from tasks.core.errors import BusyError, NoSpaceError, TorchyardError
from tasks.core.model import Json, Layout, Plan, Stage
from tasks.settings.schema import Notify
from tasks.system import output, shell
from tasks.system.console import Console, Outcome
from tasks.system.invocation import add_profile_to_errors

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from tasks.runlog.run_record_io import RunRecorder


def load_stage_module(stage: Stage, module: str) -> Any:
    """Import a module of the stage's package: `run`, `up_to_date` or `explain_changes`."""
    return importlib.import_module(f"tasks.stages.{stage.kind}.{module}")


StageAction = Callable[[Any], tuple[Any, ...]]
StageAttempt = Callable[[Stage, StageAction], tuple[tuple[Any, ...], str]]
_MAX_PARALLEL = 4  # extensions built at once: each is a Python process that has torch loaded
_INCOMPLETE_MESSAGE = "an extension failed; this stage ran without it"
_TASKS_WITH_ALL_EXTENSIONS = {"build", "extensions", "install"}  # tasks that need every extension
_NOT_WRITABLE_ERRNOS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)


@dataclass
class Session:
    """The state of one run of a profile.

    `gate` runs the checks before a build. `pin` stores the host facts. `attempt` runs a stage.
    `refusal` says why no stage can start. `busy` is True if another run has locked the build
    folder. `selected` are the requested tasks.
    """

    plan: Plan
    layout: Layout
    console: Console
    pin: Callable[[], None]
    gate: Callable[[], None] = lambda: None
    attempt: StageAttempt = lambda stage, run: (run(stage.job), "")
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
    parallel: ParallelStages | None = None

    @cached_property
    def record(self) -> RunRecorder:
        """Return the recorder of the run, which writes the run header before anything else."""
        from tasks.runlog.run_record_io import RunRecorder  # noqa: PLC0415 - only where something is done

        return RunRecorder(self.records, self.read_run_header, started=self.console.started)


def execute_stage(session: Session, stage: Stage) -> TaskFailed | None:
    """Run a stage. The first extension starts all requested extensions in parallel."""
    if refusal := _find_refusal(session, stage):
        session.record.record_refusal(stage.name, refusal.get_msg())
        return refusal
    if stage.kind == "extensions":
        return _find_parallel_stages(session).wait_for_stage(stage)
    failed = set[PurePath]()
    # the stage runs even if a stage that writes its optional inputs failed; the exit code is then 1
    for other in list_optional_stages(session.plan, stage):
        parallel = _find_parallel_stages(session)
        if failed & set(other.inputs) or (is_due(other) and parallel.wait_for_stage(other)):
            failed.update(other.outputs)
    failure = _capture_failure(lambda: _run_stage(session, stage))
    return failure or (TaskFailed(_INCOMPLETE_MESSAGE, report=False) if failed else None)


def list_optional_stages(plan: Plan, stage: Stage) -> list[Stage]:
    """Return the stages whose manifests are optional inputs of `stage`, in plan order."""
    return [other for other in plan.stages if set(other.outputs) & set(stage.optional_inputs)]


def _find_refusal(session: Session, stage: Stage) -> TaskFailed | None:
    """Return the failure of a stage that cannot start, or None if the stage can start."""
    if session.refusal and (session.busy or _needs_gate(session, stage)):
        return TaskFailed(session.refusal, report=False)

    failure = _capture_failure(lambda: _prepare_stage(session, stage))
    if failure and session.busy:  # report the run, not a stage: none could start
        session.refusal = failure.get_msg()
        session.console.report_failure(session.layout.profile, session.refusal, "Busy")
        return TaskFailed(session.refusal, report=False)
    return failure


def _prepare_stage(session: Session, stage: Stage) -> None:
    """Run the checks before a build, then create and lock the build folder, once per run."""
    with add_profile_to_errors(session.layout.profile):
        if _needs_gate(session, stage):
            try:
                session.gate()
            except TorchyardError as error:
                session.refusal = str(error)
                raise
            session.gate_passed = True
        has_folder = stage.kind != "validate" or Path(session.layout.build).is_dir()
        if has_folder and not session.entered:
            from tasks.system import files  # noqa: PLC0415 - nothing of this is needed when all is up to date

            files.create_owned_folder(session.layout.build)
            try:
                session.lock_stack.enter_context(files.lock_folder(session.layout.build))
            except BusyError:
                session.busy = True
                raise
            session.pin()
            session.entered = True
    if session.entered:
        session.record.start_record()


def _capture_failure(act: Callable[[], None]) -> TaskFailed | None:
    """Call `act`. Return a failed task if it raises a `TorchyardError` or a disk error."""
    try:
        act()
    except TorchyardError as error:
        return TaskFailed(str(error))
    except OSError as error:
        location = str(error.filename)
        if error.errno == errno.ENOSPC:
            hint = "free some disk space, then run the same command again"
            return TaskFailed(str(NoSpaceError("the disk is full", location=location, hint=hint)))
        if error.errno not in _NOT_WRITABLE_ERRNOS:
            raise
        hint = "make this path writable, or choose another one in the settings"
        message = str(error.strerror).lower()
        return TaskFailed(str(TorchyardError(message, location=location, hint=hint)))
    return None


def _run_stage(session: Session, stage: Stage) -> None:
    from tasks.cli.running import rebuild_reason  # noqa: PLC0415 - nothing of this is needed when all is up to date
    from tasks.runlog import stage_record_io  # noqa: PLC0415 - as above
    from tasks.system import manifests  # noqa: PLC0415 - as above

    may_skip = stage.kind == "extensions" and not session.rebuild_all
    if may_skip and stage_record_io.read_last_record(stage) is not None and not is_due(stage):
        return  # after a failure, doit loses the state of later tasks; other stages take seconds
    reason = rebuild_reason.format_rebuild_reason(stage)
    session.console.begin_stage(stage, reason)
    label, entry = output.label_output(stage.name), session.record.record_stage(stage.name, reason)
    with label, entry as record, add_profile_to_errors(session.layout.profile):
        start = time.monotonic()
        old_contents = list(map(_read_bytes, stage.outputs))
        if stage.uptodate_check != "always":
            manifests.remove_manifests(*stage.outputs)
        outputs, auto_fix = session.attempt(stage, load_stage_module(stage, "run").run)
        for path, content in zip(stage.outputs, outputs, strict=True):
            manifests.write_manifest(path, content)
        seconds = time.monotonic() - start
        stage_record_io.write_stage_record(stage, reason, seconds, __version__, auto_fix)
        has_changed = old_contents != list(map(_read_bytes, stage.outputs))
        outcome: Outcome = "changed" if has_changed else "unchanged"
        if getattr(outputs[0], "status", "") == "unreachable":
            outcome = "skipped"
        record.outputs, record.outcome, record.auto_fix = outputs[0], outcome, auto_fix
    session.console.end_stage(stage, reason, outcome)


def _find_parallel_stages(session: Session) -> ParallelStages:
    """Return the runner of the requested extensions; the first call creates it."""
    if session.parallel:
        return session.parallel
    from tasks.system.hardware import capacity  # noqa: PLC0415

    def run_extension(stage: Stage) -> TaskFailed | None:
        failure = _capture_failure(lambda: _run_stage(session, stage))
        if failure is None or session.console.interrupted:
            return failure
        # report the failure now, not when doit reaches this stage
        session.console.report_failure(stage.name, failure.get_msg())
        return TaskFailed(failure.get_msg(), report=False)

    stages = session.plan.find_stages("extensions")
    if not _TASKS_WITH_ALL_EXTENSIONS & session.selected:
        # the named extensions, and those that they depend on
        names = {name for name in session.selected if name.startswith("extensions:")}
        for stage in reversed(stages):
            if stage.name in names:
                names |= {one.name for one in stages if set(one.outputs) & set(stage.inputs)}
        stages = tuple(stage for stage in stages if stage.name in names)
    session.parallel = ParallelStages(
        stages=stages,
        act=run_extension,
        is_due=is_due,
        stopped=lambda: session.console.interrupted,
        most=min(capacity.count_usable_cores(), _MAX_PARALLEL),
    )
    return session.parallel


def is_due(stage: Stage) -> bool:
    """Return True if a manifest of the stage is missing or its record does not match.

    If only the record is missing, returns False: doit decides whether the stage runs.
    """
    from tasks.runlog import stage_record_io  # noqa: PLC0415 - nothing of this is needed when all is up to date

    if not all(Path(path).is_file() for path in stage.outputs):
        return True
    has_record = stage_record_io.read_last_record(stage) is not None
    return has_record and bool(
        stage_record_io.find_rebuild_reasons(stage)
        or load_stage_module(stage, "up_to_date").is_stale(stage.job)
    )


def run_command_action(act: Callable[..., None], **params: Any) -> TaskFailed | None:
    """Run the action of a command. Return a failed task if it raises an expected error."""
    return _capture_failure(lambda: act(**params))


def _needs_gate(session: Session, stage: Stage) -> bool:
    """Return True if the checks in `session.gate` must run and succeed before this stage."""
    is_check_only = stage.uptodate_check == "always" and all(map(_read_bytes, stage.outputs))
    return not (session.gate_passed or is_check_only or stage.kind == "validate")


def _read_bytes(path: PurePath) -> bytes:
    file = Path(path)
    return file.read_bytes() if file.is_file() else b""


_POLL_SECONDS = 0.5  # on Windows, an interrupt is noticed only when a wait ends


@dataclass
class ParallelStages:
    """A pool of up to `most` threads that run stages with `act` until `stopped` is True."""

    stages: tuple[Stage, ...]
    act: Callable[[Stage], TaskFailed | None]
    is_due: Callable[[Stage], bool]
    stopped: Callable[[], bool]
    most: int
    _at_work: dict[str, Future[TaskFailed | None]] = field(default_factory=dict)
    _idle: set[str] = field(default_factory=set)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _threads: ThreadPoolExecutor | None = None

    def wait_for_stage(self, stage: Stage) -> TaskFailed | None:
        """Start a stage unless it was started, and wait for it. Return its failure, if any."""
        with self._lock:
            if stage.name not in self._at_work:
                self._begin_stage(stage)
        self._begin_others()
        from concurrent.futures import wait  # noqa: PLC0415 - only where stages run

        future = self._at_work[stage.name]
        try:
            while not future.done():
                wait([future], _POLL_SECONDS)
        except (SystemExit, KeyboardInterrupt):
            if self._threads:
                self._threads.shutdown(cancel_futures=True)
            raise
        return future.result()

    def _begin_others(self) -> None:
        with self._lock:
            for stage in () if self.stopped() else self.stages:
                is_new = stage.name not in self._at_work
                if is_new and not self._is_blocked(stage) and self._is_due(stage):
                    self._begin_stage(stage)

    def _begin_stage(self, stage: Stage) -> None:
        if not self._threads:
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - only where stages run

            self._threads = ThreadPoolExecutor(self.most, thread_name_prefix="stage")

        def run_in_thread() -> TaskFailed | None:
            with output.label_output(stage.name), shell.stop_commands_when(self.stopped):
                return self.act(stage)

        future = self._threads.submit(run_in_thread)
        self._at_work[stage.name] = future
        future.add_done_callback(lambda _: self._begin_others())

    def _is_blocked(self, stage: Stage) -> bool:
        """Return True if the stage has a dependency that has not succeeded yet."""
        for other in self.stages:
            if not set(other.outputs) & set(stage.inputs):
                continue
            future = self._at_work.get(other.name)
            if future is None:
                if self._is_blocked(other) or self._is_due(other):
                    return True
            elif not future.done() or future.exception() or future.result() is not None:
                return True
        return False

    def _is_due(self, stage: Stage) -> bool:
        """Return `is_due(stage)`. A stage that is not due is not checked again."""
        if stage.name not in self._idle and self.is_due(stage):
            return True
        self._idle.add(stage.name)
        return False
