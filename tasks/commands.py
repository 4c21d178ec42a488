"""The commands beside the stages: each a task of doit that runs a report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tasks.effects.typed import naming
from tasks.execution import failing
from tasks.graph import Task, from_where
from tasks.reports.subject import Subject


def command_tasks(subject: Subject) -> Iterator[Task]:
    """All of them; most write JSON as well."""

    def command(name: str, doc: str, *params: Task) -> Task:
        run = (failing, [_report(name, subject)])
        return {"basename": name, "doc": doc, "actions": [run], "params": list(params)}

    json = _file("json", "write it to FILE as JSON too")
    yes = _flag("yes", "do it")
    yield command("settings", "show the resolved settings and where each value came from", json)
    yield command(
        "doctor",
        "look at this machine: what is there, what is missing, and the command that adds it",
        json,
        _flag("accept", "plan from the cards and toolkits that are here now"),
    )
    yield command(
        "diagnose",
        "why the last build failed, or what a log tells (--log FILE): the cause, what to do",
        _file("log", "read FILE, from anywhere"),
        json,
    )
    yield command(
        "history",
        "the runs of this profile: when, what was asked, what came of it, what was rebuilt",
        json,
    )
    yield command(
        "report",
        "the last run on one HTML page, for Perfetto, and as text for a bug report",
        _value("run", "the run of that name"),
        _value("against", "beside that run"),
        _file("out", "write it into FOLDER"),
    )
    yield command(
        "explain", "what doit build would do now and why; for compile, how many objects", json
    )
    yield {
        **command(
            "verify",
            "verify WHEEL: against what is recorded of it, and what it declares to need",
            _file("wheel", "look at FILE"),
        ),
        "pos_arg": "wheels",
    }
    yield command(
        "matrix",
        "the builds of this profile's matrix and how each stands (--build builds them)",
        _flag("build", "build what is not up to date, each by itself, and publish"),
        _value("workflow", "write the matrix for github or slurm"),
        _file("out", "write it to FILE"),
        json,
    )
    yield command("purge", "remove what this profile built (--yes to do it)", yes)
    yield command(
        "restore",
        "put back what install.into replaced in your own environment (--yes to do it)",
        yes,
    )
    yield command(
        "publish",
        "put the wheels on a package index that pip and uv can use (--dest, --check)",
        {
            **_value("dest", "a folder, user@host:path, or a command with {index} in it"),
            "type": _destination,
        },
        _flag("check", "read all that is on it, and change nothing"),
        _value("yank", "keep the wheel NAME from who does not ask for exactly it"),
        _value("because", "why it is yanked"),
    )
    yield command(
        "lock",
        "write into torchyard.lock what this was built of (--check: only compare)",
        _flag("check", "tell in what lock and build differ, exit 1 where they do"),
        _flag("update", "lock the commits that the refs stand for now, for the next build"),
    )
    yield command(
        "bundle",
        "collect all that this profile is built of, for a machine without a network",
        _file("dest", "a folder, or FILE.tar"),
    )
    yield command("check", "for work on torchyard itself: lint, types and tests")


def _value(name: str, meaning: str) -> Task:
    return {"name": name, "long": name, "default": "", "help": meaning}


def _file(name: str, meaning: str) -> Task:
    """A file or folder, from where doit was started."""
    return {**_value(name, meaning), "type": from_where}


def _destination(typed: str) -> str:
    from tasks.effects.published.sending import is_folder  # noqa: PLC0415 - only for publish

    return from_where(typed) if is_folder(typed) else typed


def _flag(name: str, meaning: str) -> Task:
    return {"name": name, "long": name, "type": bool, "default": False, "help": meaning}


def _report(name: str, subject: Subject) -> Callable[..., None]:
    def run(**params: Any) -> None:
        import importlib  # noqa: PLC0415 - a report is loaded when it is asked for

        if params.get("wheels"):
            params["wheels"] = [from_where(one) for one in params["wheels"]]
        with naming(subject.name):
            importlib.import_module(f"tasks.reports.{name}").run(subject, **params)

    return run
