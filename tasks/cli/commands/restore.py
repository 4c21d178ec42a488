"""`doit restore`: put back what this profile replaced in a person's own environment.

It goes by what was kept in build/PROFILE/replaced, not by the settings: install.into may be gone
from them, or the profile be broken. No network is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from tasks.core.errors import BuildError, NotOwnedError
from tasks.lock.profile import Subject
from tasks.runlog import records
from tasks.stages.install.transaction import interrupted, journal
from tasks.system import files, manifests
from tasks.system.typed import for_profile, with_profile
from tasks.system.voice import show, warn


def run(subject: Subject, yes: bool = False) -> None:
    """Show what would be put back, and with `yes` do it."""
    build = subject.build
    stamps = [stamp for stamp in journal.stamps(build / "replaced") if journal.lies(stamp)]
    if not stamps:
        show("nothing of this profile lies in an environment of yours")
    elif not files.is_owned(build):
        raise NotOwnedError("torchyard did not make this", where=str(build))
    for stamp in stamps:
        _show(stamp)
    if yes:
        _restore_all(build, subject)
    elif stamps:
        show("nothing was changed; to do it: doit restore --yes" + with_profile(subject.name))


def _restore_all(build: Path, subject: Subject) -> None:
    if not (build / "replaced").is_dir():
        return
    with files.lock(build):  # nobody is at work in it
        manifests.withdraw(build / "install.json")
        records.note_removal(build / "install.json", "doit restore")
        problems = list(_restored(journal.stamps(build / "replaced")))
    if subject.opened and subject.opened.loaded.settings.install.into:
        again = "install.into still names it: the next doit build puts the wheels there again"
        show(for_profile(again, subject.name))
    for problem in problems[1:]:
        warn(str(problem))
    for problem in problems[:1]:
        raise problem


def _restored(stamps: Iterable[Path]) -> Iterator[BuildError]:
    """One that cannot be put back keeps no other from it."""
    for stamp in stamps:
        try:
            _restore(stamp)
        except BuildError as error:
            yield error


def _show(stamp: Path) -> None:
    held, change = journal.held(stamp), journal.change(stamp)
    if change and change.result:
        held, change = change.result, None  # only to be written down
    if held:
        show(f"in {held.prefix}:")
        for line in journal.told(held):
            show(f"  {line}")
    if change:
        show(f"in {change.exchange.prefix}: an install was cut off in the middle, and is undone")


def _restore(stamp: Path) -> None:
    one = journal.lies(stamp)
    interrupted.restore(stamp)
    if one:
        show(f"{one.prefix} has again what it had before; the files are the same, byte for byte")
