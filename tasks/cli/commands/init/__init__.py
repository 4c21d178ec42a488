"""`doit init`: at most four questions (card, way, extensions, where), and config/local.yaml of the
answers. What is given as an option is not asked; without a terminal, or with `--yes`, nothing is.

What comes of the answers is planned before the file is written. One that is there already is
replaced with `--force` alone, and kept beside it.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import replace
from difflib import unified_diff
from pathlib import Path

from tasks.cli.commands.explain import show_decisions
from tasks.cli.commands.init.answers import Answers, local_yaml
from tasks.cli.commands.init.here import Here, look, usual
from tasks.cli.commands.init.questions import Given, answered, is_asked
from tasks.cli.decisions import Found, decisions
from tasks.cli.opening import open_profile
from tasks.core.errors import BuildError
from tasks.knowledge import Knowledge
from tasks.lock.profile import Profile, Subject
from tasks.settings.told import masked
from tasks.settings.yamltree import text_of
from tasks.stages.install.check import check as check_install
from tasks.system import tty
from tasks.system.files import write_atomic
from tasks.system.typed import with_profile
from tasks.system.voice import show, warn

LOCAL = "config/local.yaml"


def run(  # noqa: PLR0913, PLR0917 - an option each
    subject: Subject,
    card: str = "",
    way: str = "",
    extensions: str = "",
    into: str = "",
    yes: bool = False,
    force: bool = False,
) -> None:
    """Ask, plan, write. Raises `BuildError` where an answer cannot be meant or the file is there
    already; nothing is written then.
    """
    path = subject.root / LOCAL
    ask = is_asked() and not yes
    if ask and not force:
        _require_absent(path, with_profile(subject.name))
    known = look(subject)
    given = Given(card, way, extensions, into)
    got = answered(given, known, usual(known), ask=ask, room=tty.width())
    text = local_yaml(got if known.companions.set else _with_companions(subject, got, known))
    planned, problem = _planned(subject, text, known.knowledge)
    _write(path, text, force=force)
    if planned:
        show("")
        show_decisions(decisions(planned, Found()))
    if problem:
        warn("the profile itself cannot be opened, with this file and without it")
        raise problem
    show(f"next: doit build{with_profile(subject.name)}")


def _require_absent(path: Path, profile: str) -> None:
    if path.exists():
        raise BuildError(
            "this file is there already, and nothing was asked or written",
            where=LOCAL,
            todo=f"edit it; or doit init --force{profile}, which keeps it as {_kept(path).name}",
        )


def _with_companions(subject: Subject, got: Answers, known: Here) -> Answers:
    """With those that were found and can be planned: nobody asked for them, and none may stop what
    somebody did ask for. Raises `BuildError` where that cannot be planned.
    """
    if not got.companions:
        return got
    taken: tuple[str, ...] = ()
    _planned(subject, local_yaml(replace(got, companions=None)), known.knowledge)
    for name in got.companions:
        tried = replace(got, companions=(*taken, name))
        try:
            _planned(subject, local_yaml(tried), known.knowledge)
        except BuildError as error:
            warn(f"{got.into} has {name}, which may not work with another torch: {error.what}")
        else:
            taken = tried.companions or ()
    if taken:
        why = f"found in {got.into}; each belongs to one torch, and moves with it"
        show(f"companions: {', '.join(taken)} ({why})")
    return replace(got, companions=taken or None)


def _planned(
    subject: Subject, text: str, knowledge: Knowledge
) -> tuple[Profile | None, BuildError | None]:
    """The profile with the new file; or its problem, where that is not of the new file's making.
    Raises `BuildError` where it is.
    """
    try:
        return _opened(subject, text, knowledge), None
    except BuildError as error:
        try:
            _opened(subject, "", knowledge)
        except BuildError as own:
            if str(own) == str(error):
                return None, own
        todo = "; ".join(filter(None, (error.todo, f"{LOCAL} was not written")))
        raise BuildError(error.what, where=error.where, todo=todo) from error


def _opened(subject: Subject, text: str, knowledge: Knowledge) -> Profile:
    opened = open_profile(subject.root, subject.name, os.environ, knowledge, local=text)
    ours = {sys.prefix, sys.base_prefix}
    check_install(opened.loaded.settings, opened.layout, opened.choice, ours)
    return opened


def _write(path: Path, text: str, *, force: bool) -> None:
    """Raises `BuildError` where another file is there and nobody said that it may be replaced."""
    before = text_of(path, LOCAL) if path.is_file() else None
    if before == text:
        show(f"{LOCAL} says that already")
        return
    if before is not None:
        for line in _difference(before, text):
            show(line)
        kept = _kept(path)
        if not force:
            raise BuildError(
                "this file is there already, and was not changed",
                where=LOCAL,
                todo=f"doit init --force puts the new one there, and keeps this as {kept.name}",
            )
        write_atomic(kept, path.read_bytes(), _mode(path))
        show(f"what {LOCAL} held is in {kept.relative_to(path.parents[1]).as_posix()}")
    write_atomic(path.resolve(), text, _mode(path))  # a link stays, and leads to the new one
    show(f"wrote {LOCAL}, which counts in every profile")


def _mode(path: Path) -> int:
    """Who may read the file that is there may read the next one; nobody else."""
    return stat.S_IMODE(path.stat().st_mode) if path.is_file() else 0o644


def _kept(path: Path) -> Path:
    """A name that no earlier one has: local.yaml.bak, local.yaml.bak2, …"""
    names = (path.with_name(f"{path.name}.bak{number or ''}") for number in (0, *range(2, 10_000)))
    return next(name for name in names if not name.exists())


def _difference(before: str, after: str) -> Iterator[str]:
    """In lines, without what either holds of secrets."""
    yield from unified_diff(masked(before), masked(after), LOCAL, "new", lineterm="", n=1)
