"""A profile, opened: settings and host read, the plan made, and every task that doit is to know.

Opening writes nothing and asks nobody outside this machine. Where the profile is broken, the tasks
that help with that open all the same.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tasks.cli.doit_commands import command_tasks
from tasks.cli.lookups import answer_by_our_words
from tasks.cli.opening import asked, open_profile
from tasks.cli.running.execution import Run, Yard
from tasks.cli.running.graph import Task, stage_tasks
from tasks.cli.running.reporter import Reporter, reporter_for
from tasks.cli.running.uptodate import go_on_without_saving
from tasks.core.errors import BuildError, SettingsError
from tasks.core.model import Host, Json, Stage
from tasks.lock.anchored import begin
from tasks.lock.profile import Profile, Subject
from tasks.settings.load import Loaded
from tasks.settings.location import located
from tasks.settings.matrix_entries import cells, divided
from tasks.settings.variables import unread
from tasks.system.hardware import probe
from tasks.system.terminal.console import Console
from tasks.system.terminal.screen import legible
from tasks.system.typed import naming

_OPEN_WHEN_BROKEN = frozenset(
    {
        *("settings", "doctor", "diagnose", "history", "init", "matrix", "report", "restore"),
        "verify",
    }
)
_INSTALLING = frozenset({"build", "install", "explain", "doctor"})
_ALWAYS = frozenset({"-a", "--always-execute"})
_HELP = frozenset({"--help", "-h"})
_STATUS = re.compile(r"--st|-\w*s")  # of doit list; doit also accepts abbreviated options
_LOOKING = frozenset({"list", "info", "clean", "forget", "ignore", "help", "tabcompletion"})


def database(profile: str) -> str:
    """The name of doit's database; a profile that cannot be opened may be called anything."""
    return f".doit.db.{re.sub(r'[^A-Za-z0-9._-]', '_', profile)}"


@dataclass(frozen=True)
class Opened:
    """What dodo.py hands to doit."""

    doit_config: Mapping[str, Any]
    tasks: Callable[[], Iterator[Task]]


def open_yard(root: Path, profile: str, environ: Mapping[str, str], argv: Sequence[str]) -> Opened:
    """Open `profile`. Raises `SettingsError`, unless a task was asked for that helps with it."""
    legible(sys.stderr)  # doit says there what is refused at load
    _refuse_other_words(argv)
    try:
        with naming(profile):
            yard, subject = _open(root, profile, environ, argv)
    except BuildError as error:
        yard, subject = None, Subject(root, profile, None, error)
        if not (_opens_when_broken(argv) or _locks_a_matrix(argv, subject)):
            raise
    if yard:
        yard.always = not _ALWAYS.isdisjoint(argv)
    go_on_without_saving()
    answer_by_our_words(yard)
    config = {
        "default_tasks": ["build"],
        "backend": "sqlite3",
        "dep_file": str(root / database(profile)),
        "reporter": _reporter(yard),
        "verbosity": 2,
        "continue": True,  # one extension that fails is no reason to lose another
    }

    def tasks() -> Iterator[Task]:
        if yard:
            yield from stage_tasks(yard)
        yield from command_tasks(subject)

    return Opened(config, tasks)


def _locks_a_matrix(argv: Sequence[str], subject: Subject) -> bool:
    """Whether each build is opened by itself: that the profile alone cannot be is no matter."""
    if _words(argv)[:1] != ["lock"] or divided(subject.name)[1]:
        return False
    try:
        return bool(cells(subject.asked().settings.matrix))
    except BuildError:
        return False


def _reporter(yard: Yard | None) -> type[Reporter]:
    if yard is None:
        return reporter_for(Console(None), set())

    def over(code: int) -> None:
        from tasks.cli.running.ending import end  # noqa: PLC0415 - only where something was asked for

        end(yard, code)

    return reporter_for(yard.console, yard.selected, over)


def _refuse_other_words(argv: Sequence[str]) -> None:
    """doit takes every NAME=VALUE and says nothing of those that nobody asks for."""
    for word in argv:
        name, equals, value = word.partition("=")
        if equals and name.isidentifier() and name != "profile":
            raise SettingsError(
                f'"{word}" means nothing here',
                where="the command line",
                todo=f"choose a profile with profile={value}, and set keys in the profile, in "
                "config/local.yaml, or as TORCHYARD__SECTION__KEY in the environment",
            )


def _open(
    root: Path, profile: str, environ: Mapping[str, str], argv: Sequence[str]
) -> tuple[Yard, Subject]:
    runs = not _runs_no_program(argv)
    opened = open_profile(root, profile, environ, host_of=partial(probe.host, run=runs))
    layout, choice, plan = opened.layout, opened.choice, opened.plan
    settings = opened.loaded.settings
    if _installs(argv):
        from tasks.stages.install.check import check as check_install  # noqa: PLC0415 - not to look

        with located(opened.loaded):
            check_install(settings, layout, choice, {sys.prefix, sys.base_prefix})
    console = Console(plan, notices=lambda: _notices(opened, environ))
    console.profile = profile

    subject = Subject(root, profile, opened)

    def gate() -> None:
        from tasks.cli.commands.doctor import gate  # noqa: PLC0415 - only where something is built

        gate(subject)

    def attempt(stage: Stage, run: Run) -> tuple[tuple[Any, ...], str]:
        from tasks.doctor.failures.healing import attempt  # noqa: PLC0415 - only where something is done

        return attempt(stage, run, opened)

    selected: set[str] = set()

    def head() -> Mapping[str, Json]:
        from tasks.cli.running.runhead import head  # noqa: PLC0415 - only where something is built

        return head(profile, opened, selected)

    yard = Yard(
        plan, layout, console, partial(_keep, opened, runs=runs), gate, attempt, selected=selected
    )
    yard.records, yard.head = layout.build / "records" / "runs", head
    yard.notify = settings.notify
    return yard, subject


def _keep(opened: Profile, *, runs: bool) -> None:
    """Pin the host facts and the sources of everything fetched, before the first stage begins."""
    if not runs:  # `doit -o --help build`
        raise BuildError(
            "--help was given, so nothing is built", todo="run the command without --help"
        )
    settings, host = opened.loaded.settings, opened.host
    if not host.pinned:
        probe.pin(opened.layout.build / "host.json", asked(settings), host)
    if opened.held:
        begin(settings, opened.layout, opened.held)


def _opens_when_broken(argv: Sequence[str]) -> bool:
    return not _OPEN_WHEN_BROKEN.isdisjoint(argv) or argv[:1] == ["help"]


def _runs_no_program(argv: Sequence[str]) -> bool:
    """Return True if the command only reads settings and task names: help, list without --status,
    and settings. Settings that the user has not read yet must not run a program then.
    """
    if not _HELP.isdisjoint(argv):
        return True
    words = _words(argv)
    if words[:1] == ["list"]:
        return not any(map(_STATUS.match, argv))
    if words[:1] == ["settings"]:
        return not words[1:] or (len(words) == 2 and argv[argv.index(words[1]) - 1] == "--json")
    return words[:1] == ["help"]


def _installs(argv: Sequence[str]) -> bool:
    """Whether install.into is meant: it may be gone, and the profile is open to the other tasks."""
    words = _words(argv)
    if _runs_no_program(argv) or (words and words[0] in _LOOKING):
        return False
    named = {word for word in words if word != "run" and not word.isdigit()}  # `-n 4`
    return not named or not named.isdisjoint(_INSTALLING)


def _words(argv: Sequence[str]) -> list[str]:
    """Without options and what is set."""
    return [one for one in argv if not one.startswith("-") and "=" not in one]


def _notices(opened: Profile, environ: Mapping[str, str]) -> Iterator[str]:
    """What is said under the head of a run that builds."""
    from tasks.planning.foreseen import capability_warnings, foreseen  # noqa: PLC0415 - only where something is built

    yield from unread(environ)
    yield from _drift(opened.loaded, opened.host)
    yield from capability_warnings(opened.loaded, opened.host, opened.knowledge)
    yield from foreseen(opened.knowledge, opened.host, opened.choice)


def _drift(loaded: Loaded, host: Host) -> Iterator[str]:
    """A card that came or went since the host was pinned: said, never acted on."""
    if not host.pinned or loaded.settings.target.gpus != "auto":
        return
    now = {gpu.capability for gpu in probe.cards()}
    then = {gpu.capability for gpu in host.gpus}
    if now == then:
        return
    yield (
        f"the cards here are now {_named(now)}, and this profile was planned for {_named(then)}; "
        "nothing is rebuilt for that. To accept what is here now: doit doctor --accept"
    )


def _named(capabilities: set[str]) -> str:
    return ", ".join(sorted(capabilities)) or "none"
