"""`doit report`: one HTML file of a run, `trace.json` for ui.perfetto.dev and `report.md` for a bug
report, from its record and from what lies in the build folder. Nothing in them tells who or where.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tasks.core.errors import BuildError
from tasks.jobs import builtfolder
from tasks.lock.profile import Subject
from tasks.runlog.record import Run
from tasks.runlog.report.cameout import came_out
from tasks.runlog.report.comparison import comparable, compare
from tasks.runlog.report.documents import with_outputs
from tasks.runlog.report.drawing import embedded
from tasks.runlog.report.markdown import markdown
from tasks.runlog.report.page import values
from tasks.runlog.report.perfetto import trace
from tasks.runlog.report.private import Private
from tasks.runlog.report.words import headline
from tasks.runlog.runrecords import is_at_work, runs
from tasks.settings.workers import named
from tasks.system.files import write_atomic
from tasks.system.hardware import person
from tasks.system.render import render
from tasks.system.voice import show

_NAMED = 5  # runs that an error names


def run(subject: Subject, run: str = "", against: str = "", out: str = "") -> None:
    """Write the three files of the run of that name, or of the last one that did something, beside
    an earlier one. Raises `BuildError` where there is none.
    """
    build = subject.build
    records = build / "records" / "runs"
    chosen, newest, earlier = _chosen(records, run)
    other = _named(records, against) if against else comparable(chosen, earlier)

    hosts = (*person.hosts(), *named(chosen.asked), *named(other.asked if other else {}))
    private = Private(str(subject.root), person.homes(), person.users(), hosts)
    told = private.cleaned(chosen)
    came = private.cleaned(came_out(with_outputs(builtfolder.documents(build), chosen), chosen))
    title = headline(told, is_at_work(records, chosen))
    compared = compare(told, private.cleaned(other)) if other else None
    page = values(told, title, came, compared, newest=newest)
    texts = {
        "report.html": render(subject.root / "templates" / "report.html.j2", page),
        "trace.json": embedded(trace(told)),
        "report.md": markdown(told, title, came),
    }
    folder = Path(out).absolute() if out else build / "report"
    _write(folder, texts)
    show(f"{title}: the run {told.name}" + (f", beside {other.name}" if other else ""))
    for name in texts:
        show(f"  {folder / name}")


def _chosen(records: Path, name: str) -> tuple[Run, bool, Iterator[Run]]:
    """The run, whether it is the last one that did something, and the runs before it."""
    found = runs(records)
    if not name:
        first = next(found, None)
        one = next((one for one in found if one.did), first) if _idle(first) else first
        if one is None:
            raise BuildError(
                "no run of this profile is recorded",
                where=str(records),
                todo="doit build",
            )
        return one, True, found
    before: list[Run] = []
    for one in found:
        if one.name == _bare(name):
            return one, not any(later.did for later in before), found
        before.append(one)
    raise _unknown(name, records, before)


def _idle(run: Run | None) -> bool:
    return run is not None and not run.did


def _named(records: Path, name: str) -> Run:
    found = list(runs(records))
    one = next((one for one in found if one.name == _bare(name)), None)
    if one is None:
        raise _unknown(name, records, found)
    return one


def _bare(name: str) -> str:
    return name.removesuffix(".jsonl")


def _unknown(name: str, records: Path, found: list[Run]) -> BuildError:
    last = ", ".join(one.name for one in found[:_NAMED])
    todo = f"the last ones are {last}" if last else "doit build makes one"
    return BuildError(f'no run is called "{name}"', where=str(records), todo=todo)


def _write(folder: Path, texts: dict[str, str]) -> None:
    try:
        for name, text in texts.items():
            write_atomic(folder / name, text)
    except OSError as error:
        raise BuildError(
            f"the report cannot be written: {error.strerror}",
            where=str(folder),
            todo="choose another folder: doit report --out FOLDER",
        ) from error
