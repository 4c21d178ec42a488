"""The one way a stage is executed, and what a run needs for it.

Extensions do not wait for one another: whichever doit comes to first, all are at work
(`tasks.cli.running.abreast`).
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from doit.exceptions import TaskFailed

from tasks import __version__
from tasks.cli.running.rooms import room
from tasks.core.errors import BuildError, BusyError, NoSpaceError
from tasks.core.model import Json, Layout, Plan, Stage
from tasks.settings.schema import Notify
from tasks.system import voice
from tasks.system.terminal.console import Console, Outcome
from tasks.system.typed import naming

if TYPE_CHECKING:
    from tasks.cli.running.abreast import Abreast
    from tasks.runlog.recording import Recording

Run = Callable[[Any], tuple[Any, ...]]

_MOST = 4  # extensions at once
_INCOMPLETE = "an extension failed; this stage ran without it"
_EVERY = {"build", "extensions", "install"}  # what takes all of them
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)


@dataclass
class Yard:
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
    attempt: Callable[[Stage, Run], tuple[tuple[Any, ...], str]] = lambda stage, run: (
        run(stage.job),
        "",
    )
    held: ExitStack = field(default_factory=ExitStack)
    entered: bool = False
    passed: bool = False
    refused: str = ""
    busy: bool = False
    always: bool = False
    selected: set[str] = field(default_factory=set)
    records: PurePath | None = None
    head: Callable[[], Mapping[str, Json]] = dict
    notify: Notify = field(default_factory=Notify)
    abreast: Abreast[TaskFailed] | None = None

    @cached_property
    def record(self) -> Recording:
        """What is kept of the run, in the folder `records`; it begins with `head`."""
        from tasks.runlog.recording import Recording  # noqa: PLC0415 - only where something is done

        return Recording(self.records, self.head, started=self.console.started)


def execute(yard: Yard, stage: Stage) -> TaskFailed | None:
    """What doit calls for a stage. Extensions are at work side by side, whichever it came to."""
    if refusal := _refusal(yard, stage):
        yard.record.refused(stage.name, refusal.get_msg())
        return refusal
    if stage.may_lack:
        return _do_without_failed(yard, stage)
    if stage.room != "extensions":
        return _failure(lambda: _do(yard, stage))
    yard.abreast = yard.abreast or _abreast(yard)
    return yard.abreast.result(stage)


def _do_without_failed(yard: Yard, stage: Stage) -> TaskFailed | None:
    """Run a stage after those whose manifests it may lack. If one of these failed, fail the stage
    afterwards, so that the exit code is 1.
    """
    yard.abreast = yard.abreast or _abreast(yard)
    failed: set[PurePath] = set()
    for other in optional_stages(yard.plan, stage):
        if failed & set(other.reads) or (is_due(other) and yard.abreast.result(other)):
            failed.update(other.leaves)
    failure = _failure(lambda: _do(yard, stage))
    return failure or (TaskFailed(_INCOMPLETE, report=False) if failed else None)


def optional_stages(plan: Plan, stage: Stage) -> list[Stage]:
    """Return the stages whose manifests `stage` may lack, in order."""
    return [other for other in plan.stages if set(other.leaves) & set(stage.may_lack)]


def _refusal(yard: Yard, stage: Stage) -> TaskFailed | None:
    """Why it cannot begin; what the gate found is told with the first stage that it stopped."""
    if yard.refused and (yard.busy or _is_gated(yard, stage)):
        return TaskFailed(yard.refused, report=False)
    failure = _failure(lambda: _ready(yard, stage))
    if failure and yard.busy:  # no stage has failed: none could begin
        yard.refused = failure.get_msg()
        yard.console.fail(yard.layout.profile, yard.refused, "Busy")
        return TaskFailed(yard.refused, report=False)
    return failure


def _ready(yard: Yard, stage: Stage) -> None:
    with naming(yard.layout.profile):
        _pass(yard, stage)
        _enter(yard, stage)
    if yard.entered:
        yard.record.begin()


def _failure(act: Callable[[], None]) -> TaskFailed | None:
    """A `BuildError` becomes a failed task, anything else stays a bug."""
    try:
        act()
    except BuildError as error:
        return TaskFailed(str(error))
    except OSError as error:
        told = _of_the_disk(error)
        if told is None:
            raise
        return TaskFailed(str(told))
    return None


def _do(yard: Yard, stage: Stage) -> None:
    """One stage, and the record of it."""
    from tasks.cli.running import why  # noqa: PLC0415 - nothing of this is needed when all is up to date

    if stage.room == "extensions" and not yard.always and _stands(stage):
        return  # doit forgets what waited for a stage that failed; the others cost seconds
    reason = why.reason(stage)
    yard.console.begin(stage, reason)
    speaking, kept = voice.speaking(stage.name), yard.record.stage(stage.name, reason)
    with speaking, kept as done, naming(yard.layout.profile):
        outputs, outcome, healed = _done(yard, stage, reason)
        done.outcome, done.outputs, done.healed = outcome, outputs[0], healed
    yard.console.end(stage, reason, outcome)


def _done(yard: Yard, stage: Stage, reason: str) -> tuple[Any, Outcome, str]:
    """Withdraw its claim, act, publish. With what was done about a failure on the way."""
    from tasks.runlog import records  # noqa: PLC0415 - as above
    from tasks.system import manifests  # noqa: PLC0415 - as above

    started = time.monotonic()
    before = [_bytes(path) for path in stage.leaves]
    if stage.asks != "always":
        manifests.withdraw(*stage.leaves)
    outputs, healed = yard.attempt(stage, room(stage, "action").run)
    for path, output in zip(stage.leaves, outputs, strict=True):
        manifests.publish(path, output)
    records.write(stage, reason, time.monotonic() - started, __version__, healed)
    changed = before != [_bytes(path) for path in stage.leaves]
    return outputs, _outcome(outputs, changed=changed), healed


def _abreast(yard: Yard) -> Abreast[TaskFailed]:
    """The extensions that were asked for, as many at once as there are cores, and not many: each
    has a Python with a torch in it.
    """
    from tasks.cli.running.abreast import Abreast  # noqa: PLC0415 - nothing of this is needed when all is up to date
    from tasks.system.hardware import capacity  # noqa: PLC0415

    def act(stage: Stage) -> TaskFailed | None:
        failure = _failure(lambda: _do(yard, stage))
        if failure is None or yard.console.interrupted:
            return failure
        yard.console.fail(stage.name, failure.get_msg())  # now, and not when doit comes to it
        return TaskFailed(failure.get_msg(), report=False)

    return Abreast(
        stages=tuple(_wanted(yard)),
        act=act,
        is_due=is_due,
        stopped=lambda: yard.console.interrupted,
        most=min(capacity.cores(), _MOST),
    )


def _wanted(yard: Yard) -> Iterator[Stage]:
    """The extensions that were asked for: all of them, or some by name, and what these read."""
    stages = yard.plan.of("extensions")
    named = {name for name in yard.selected if name.startswith("extensions:")}
    for stage in reversed(stages):
        if stage.name in named:
            named |= {one.name for one in stages if set(one.leaves) & set(stage.reads)}
    every = bool(_EVERY & yard.selected)
    yield from (stage for stage in stages if every or stage.name in named)


def is_due(stage: Stage) -> bool:
    """Whether doit will run it when it comes to it: where that is not sure, it shall find out."""
    from tasks.runlog import records  # noqa: PLC0415 - nothing of this is needed when all is up to date

    if not all(Path(path).is_file() for path in stage.leaves):
        return True
    known = records.last_record(stage) is not None
    return known and bool(records.reasons(stage) or room(stage, "moved").moved(stage.job))


def _stands(stage: Stage) -> bool:
    """Whether its last result is that of what is asked now, by files alone."""
    from tasks.runlog import records  # noqa: PLC0415 - nothing of this is needed when all is up to date

    return records.last_record(stage) is not None and not is_due(stage)


def _of_the_disk(error: OSError) -> BuildError | None:
    """What a person can do something about; None where it is a bug of ours."""
    where = str(error.filename)
    if error.errno == errno.ENOSPC:
        return NoSpaceError("the disk is full", where=where, todo="free some room")
    if error.errno in _NOT_WRITABLE:
        todo = "see that this place can be written to, or choose another one in the settings"
        return BuildError(str(error.strerror).lower(), where=where, todo=todo)
    return None


def _outcome(outputs: Any, *, changed: bool) -> Outcome:
    if getattr(outputs[0], "status", "") == "unreachable":
        return "skipped"
    return "changed" if changed else "unchanged"


def failing(act: Callable[..., None], **params: Any) -> TaskFailed | None:
    """An action outside the stages, its expected failures told the same way."""
    return _failure(lambda: act(**params))


def _pass(yard: Yard, stage: Stage) -> None:
    """Ask the gate, once."""
    if not _is_gated(yard, stage):
        return
    try:
        yard.gate()
    except BuildError as error:
        yard.refused = str(error)
        raise
    yard.passed = True


def _is_gated(yard: Yard, stage: Stage) -> bool:
    """Not once the gate is passed, nor where a stage only looks (a tree each time, a build that is
    there).
    """
    only_looks = stage.asks == "always" and all(map(_bytes, stage.leaves))
    return not (yard.passed or only_looks or stage.room == "validate")


def _enter(yard: Yard, stage: Stage) -> None:
    """What the first action of a run does for all of them: own the build folder, lock it, pin the
    host. Where nothing was built yet there is nothing to own for who only looks.
    """
    if yard.entered or (stage.room == "validate" and not Path(yard.layout.build).is_dir()):
        return
    from tasks.system import files  # noqa: PLC0415 - nothing of this is needed when all is up to date

    files.own(yard.layout.build)
    try:
        yard.held.enter_context(files.lock(yard.layout.build))
    except BusyError:
        yard.busy = True
        raise
    yard.pin()
    yard.entered = True


def _bytes(path: PurePath) -> bytes:
    file = Path(path)
    return file.read_bytes() if file.is_file() else b""
