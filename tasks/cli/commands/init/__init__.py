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
from tasks.cli.commands.init.answers import Answers, format_local_yaml
from tasks.cli.commands.init.here import InitFacts, build_default_answers, gather_init_facts
from tasks.cli.commands.init.questions import GivenOptions, collect_answers, is_interactive
from tasks.cli.decisions import DepsResults, list_decisions
from tasks.cli.opening import open_profile
from tasks.core.errors import TorchyardError
from tasks.knowledge import Knowledge
from tasks.lock.profile import Profile, SelectedProfile
from tasks.settings.told import mask_settings_text
from tasks.settings.yamltree import read_yaml_text
from tasks.stages.install.check import check_install_target as check_install
from tasks.system import tty
from tasks.system.files import write_atomic
from tasks.system.typed import format_profile_argument
from tasks.system.voice import print_report, print_warning

LOCAL_SETTINGS_PATH = "config/local.yaml"


def run(  # noqa: PLR0913, PLR0917 - an option each
    subject: SelectedProfile,
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
    path = subject.root / LOCAL_SETTINGS_PATH
    ask = is_interactive() and not yes
    if ask and not force:
        _require_absent(path, format_profile_argument(subject.name))
    known = gather_init_facts(subject)
    given = GivenOptions(card, way, extensions, into)
    got = collect_answers(
        given, known, build_default_answers(known), ask=ask, room=tty.read_terminal_width()
    )
    text = format_local_yaml(got if known.companions.set else _add_companions(subject, got, known))
    planned, problem = _plan_with_answers(subject, text, known.knowledge)
    _write_local_settings(path, text, force=force)
    if planned:
        print_report("")
        show_decisions(list_decisions(planned, DepsResults()))
    if problem:
        print_warning("the profile itself cannot be opened, with this file and without it")
        raise problem
    print_report(f"next: doit build{format_profile_argument(subject.name)}")


def _require_absent(path: Path, profile: str) -> None:
    if path.exists():
        raise TorchyardError(
            "this file is there already, and nothing was asked or written",
            location=LOCAL_SETTINGS_PATH,
            hint=f"edit it; or doit init --force{profile}, which keeps it as {_choose_backup_path(path).name}",
        )


def _add_companions(subject: SelectedProfile, got: Answers, known: InitFacts) -> Answers:
    """With those that were found and can be planned: nobody asked for them, and none may stop what
    somebody did ask for. Raises `BuildError` where that cannot be planned.
    """
    if not got.companions:
        return got
    taken: tuple[str, ...] = ()
    _plan_with_answers(subject, format_local_yaml(replace(got, companions=None)), known.knowledge)
    for name in got.companions:
        tried = replace(got, companions=(*taken, name))
        try:
            _plan_with_answers(subject, format_local_yaml(tried), known.knowledge)
        except TorchyardError as error:
            print_warning(
                f"{got.into} has {name}, which may not work with another torch: {error.message}"
            )
        else:
            taken = tried.companions or ()
    if taken:
        why = f"found in {got.into}; each belongs to one torch, and moves with it"
        print_report(f"companions: {', '.join(taken)} ({why})")
    return replace(got, companions=taken or None)


def _plan_with_answers(
    subject: SelectedProfile, text: str, knowledge: Knowledge
) -> tuple[Profile | None, TorchyardError | None]:
    """The profile with the new file; or its problem, where that is not of the new file's making.
    Raises `BuildError` where it is.
    """
    try:
        return _open_with_answers(subject, text, knowledge), None
    except TorchyardError as error:
        try:
            _open_with_answers(subject, "", knowledge)
        except TorchyardError as own:
            if str(own) == str(error):
                return None, own
        todo = "; ".join(filter(None, (error.hint, f"{LOCAL_SETTINGS_PATH} was not written")))
        raise TorchyardError(error.message, location=error.location, hint=todo) from error


def _open_with_answers(subject: SelectedProfile, text: str, knowledge: Knowledge) -> Profile:
    opened = open_profile(subject.root, subject.name, os.environ, knowledge, local=text)
    ours = {sys.prefix, sys.base_prefix}
    check_install(opened.loaded.settings, opened.layout, opened.choice, ours)
    return opened


def _write_local_settings(path: Path, text: str, *, force: bool) -> None:
    """Raises `BuildError` where another file is there and nobody said that it may be replaced."""
    before = read_yaml_text(path, LOCAL_SETTINGS_PATH) if path.is_file() else None
    if before == text:
        print_report(f"{LOCAL_SETTINGS_PATH} says that already")
        return
    if before is not None:
        for line in _format_difference(before, text):
            print_report(line)
        kept = _choose_backup_path(path)
        if not force:
            raise TorchyardError(
                "this file is there already, and was not changed",
                location=LOCAL_SETTINGS_PATH,
                hint=f"doit init --force puts the new one there, and keeps this as {kept.name}",
            )
        write_atomic(kept, path.read_bytes(), _read_file_mode(path))
        print_report(
            f"what {LOCAL_SETTINGS_PATH} held is in {kept.relative_to(path.parents[1]).as_posix()}"
        )
    write_atomic(
        path.resolve(), text, _read_file_mode(path)
    )  # a link stays, and leads to the new one
    print_report(f"wrote {LOCAL_SETTINGS_PATH}, which counts in every profile")


def _read_file_mode(path: Path) -> int:
    """Who may read the file that is there may read the next one; nobody else."""
    return stat.S_IMODE(path.stat().st_mode) if path.is_file() else 0o644


def _choose_backup_path(path: Path) -> Path:
    """A name that no earlier one has: local.yaml.bak, local.yaml.bak2, …"""
    names = (path.with_name(f"{path.name}.bak{number or ''}") for number in (0, *range(2, 10_000)))
    return next(name for name in names if not name.exists())


def _format_difference(before: str, after: str) -> Iterator[str]:
    """In lines, without what either holds of secrets."""
    yield from unified_diff(
        mask_settings_text(before),
        mask_settings_text(after),
        LOCAL_SETTINGS_PATH,
        "new",
        lineterm="",
        n=1,
    )
