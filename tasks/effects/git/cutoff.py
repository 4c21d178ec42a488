"""What a git that was killed, or that a full disk ended, leaves behind: locks which every later git
refuses, and submodules half there, which git takes for whole because their HEAD says so.

A note in the repository says that a git of ours is under way, and what it may change. Whoever comes
next and finds it removes dead locks, clones anew what was cloned, and puts in order what was clean.
A person's own git, and what was edited before, is left alone.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath

from tasks.effects import files, removal, shell
from tasks.effects.git.command import command
from tasks.effects.git.state import ask, is_checkout, place_of
from tasks.effects.voice import say
from tasks.errors import BuildError, CommandFailedError

_NOTE = "torchyard-under-way.json"


@dataclass(frozen=True)
class UnderWay:
    """Submodules by their paths: those that were asked for, those that were not there at all, and
    those that had no edits. `ended` is when it failed, in seconds; None where nobody could say.
    """

    paths: Sequence[str] = ()
    fresh: Sequence[str] = ()
    clean: Sequence[str] = ()
    ended: float | None = None


def cut_off(tree: PurePath) -> UnderWay | None:
    """What was under way here, None where all of it came to its end."""
    try:
        return UnderWay(**json.loads(_note(tree).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):
        return UnderWay()


@contextmanager
def under_way(tree: PurePath, paths: Sequence[str] = ()) -> Iterator[None]:
    """Mend what was cut off, and say that the submodules `paths` are being changed now."""
    mend(tree)
    now = UnderWay(paths, tuple(_fresh(Path(tree), paths)), tuple(_clean(Path(tree), paths)))
    _write(tree, now)
    try:
        yield
    except BuildError:
        _write(tree, UnderWay(now.paths, now.fresh, now.clean, time.time()))
        raise
    _note(tree).unlink(missing_ok=True)


def mend(tree: PurePath) -> None:
    """Leave the repository so that git can go on."""
    last = cut_off(tree)
    if last is None:
        return
    _unlock(tree)
    for path in last.fresh:
        _finish(Path(tree), path, last)
    for path in last.clean:
        _put_in_order(Path(tree) / path, last)


def _note(tree: PurePath) -> Path:
    return place_of(Path(tree)) / _NOTE


def _write(tree: PurePath, now: UnderWay) -> None:
    files.write_atomic(_note(tree), json.dumps(asdict(now)))


def _unlock(tree: PurePath) -> None:
    """Only locks that are younger than the note: an older one is not ours."""
    note = _note(tree)
    for lock in note.parent.rglob("*.lock"):
        with contextlib.suppress(FileNotFoundError):
            if lock.stat().st_mtime >= note.stat().st_mtime - 1:
                lock.unlink()


def _fresh(tree: Path, paths: Sequence[str]) -> Iterator[str]:
    for path, stored in _stored(tree).items():
        inner = tree / path
        is_empty = not inner.is_dir() or not any(inner.iterdir())
        if path in paths and is_empty and not stored.exists():
            yield path


def _clean(tree: Path, paths: Sequence[str]) -> Iterator[str]:
    """Those that are there, and what they hold in turn."""
    for path in paths:
        inner = tree / path
        if is_checkout(inner):
            if _is_whole(inner) and not _changed(inner):
                yield path
            within = tuple(_stored(inner))
            yield from (f"{path}/{one}" for one in _clean(inner, within))


def _stored(tree: Path) -> dict[str, Path]:
    """Path → where git keeps the repository of each submodule."""
    if not (tree / ".gitmodules").exists():
        return {}
    listed = ask(tree, "config", "-z", "--file", ".gitmodules", "--get-regexp", r"\.path$")
    pairs = (entry.partition("\n") for entry in listed.split("\0") if entry)
    modules = place_of(tree) / "modules"
    return {
        path: modules / key.removeprefix("submodule.").removesuffix(".path")
        for key, _, path in pairs
    }


def _finish(tree: Path, path: str, last: UnderWay) -> None:
    """Nothing was there before it: what is not whole is removed, and cloned anew."""
    inner, stored = tree / path, _stored(tree).get(path)
    if is_checkout(inner) and _is_whole(inner):
        _put_in_order(inner, last)
        for one in _stored(inner):
            _finish(inner, one, last)
    elif stored and (stored.exists() or is_checkout(inner)):
        say(f"{path} had been cloned in part: it is cloned anew")
        for place in (inner, stored):
            if place.is_dir():
                removal.remove_tree(place, last="HEAD")


def _is_whole(inner: Path) -> bool:
    """Whether it has a commit, and an index, which git writes after all of its files."""
    try:
        ask(inner, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return (place_of(inner) / "index").is_file()
    except (CommandFailedError, OSError):
        return False


def _put_in_order(inner: Path, last: UnderWay) -> None:
    """What a checkout left half done there, unless a person was at work since."""
    if not is_checkout(inner):
        return
    changed = _changed(inner)
    if not changed or any(_is_since(inner / name, last) for name in changed):
        return
    kept = command("stash", "create", what="keep the interrupted checkout", at=inner)
    if commit := shell.capture(kept).strip():
        ask(inner, "update-ref", "refs/torchyard/interrupted", commit)
        say(f"{inner}: what the interrupted checkout held is in refs/torchyard/interrupted")
    ask(inner, "reset", "--quiet", "--hard", what="put in order")


def _changed(inner: Path) -> tuple[str, ...]:
    """Tracked files that are not as committed."""
    listed = ask(inner, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=no",
                 "--ignore-submodules=all")  # fmt: skip
    return tuple(entry[3:] for entry in listed.split("\0") if entry)


def _is_since(path: Path, last: UnderWay) -> bool:
    return last.ended is not None and path.exists() and path.stat().st_mtime > last.ended
