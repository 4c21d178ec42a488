"""What a git that was killed, or that a full disk ended, leaves behind: locks which every later git
refuses, and submodules half there, which git takes for whole because their HEAD says so.

A note in the repository says that a git of ours is under way, and what it may change. Whoever comes
next and finds it removes dead locks, clones anew what was cloned, and puts in order what was clean.
A person's own git, and what was edited before or since, is left alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath

from tasks.core.errors import BuildError
from tasks.system import removal
from tasks.system.git.halfdone import changed, put_in_order
from tasks.system.git.locks import unlock
from tasks.system.git.note import UnderWay, alive, cut_off, last_sign, note, write
from tasks.system.git.standing import is_whole, moved, stands, stored
from tasks.system.git.state import is_checkout, submodule_lines
from tasks.system.voice import say, warn


@contextmanager
def under_way(tree: PurePath, paths: Sequence[str] = ()) -> Iterator[None]:
    """Mend what was cut off, and say that the submodules `paths` are being changed now."""
    mend(tree)
    top, began = Path(tree), time.time()
    there = tuple(_there(top, paths))
    clean = tuple(path for path in there if is_whole(top / path) and not changed(top / path))
    heads = {path: stands(top / path) for path in there}
    now = UnderWay(paths, tuple(_fresh(top, paths)), clean, None, heads, began)
    write(tree, now)
    try:
        with alive(tree):
            yield
    except BuildError:
        write(tree, UnderWay(now.paths, now.fresh, now.clean, time.time(), heads, began))
        raise
    note(tree).unlink(missing_ok=True)


def unfinished(tree: PurePath) -> tuple[str, ...]:
    """The submodules that were being brought along when that was cut off, without those that a
    person moved since.
    """
    last = cut_off(tree)
    return not_moved(tree, last.paths) if last else ()


def not_moved(tree: PurePath, paths: Sequence[str]) -> tuple[str, ...]:
    """Of `paths` those where, after a git of ours was cut off, a person moved nothing."""
    last = cut_off(tree)
    if last is None:
        return tuple(paths)
    off = moved(Path(tree), last)
    known = {path for _, path, _ in submodule_lines(tree)}
    within = {path for path in known for one in off if f"{one}/".startswith(f"{path}/")}
    return tuple(path for path in paths if path in known - within)


def mend(tree: PurePath) -> None:
    """Leave the repository so that git can go on.

    Raises `LostEditsError` where only a person can say whose a file is.
    """
    last = cut_off(tree)
    if last is None:
        return
    unlock(tree, last)
    until = last_sign(tree, last)
    for path in last.fresh:
        _finish(Path(tree), path, until)
    off = moved(Path(tree), last)
    for path in last.clean:
        if path not in off:
            put_in_order(Path(tree), path, until)


def _there(tree: Path, paths: Sequence[str]) -> Iterator[str]:
    """Those that are there, and what they hold in turn."""
    for path in paths:
        inner = tree / path
        if is_checkout(inner):
            yield path
            yield from (f"{path}/{one}" for one in _there(inner, tuple(stored(inner))))


def _fresh(tree: Path, paths: Sequence[str]) -> Iterator[str]:
    for path, place in stored(tree).items():
        inner = tree / path
        is_empty = not inner.is_dir() or not any(inner.iterdir())
        if path in paths and is_empty and not place.exists():
            yield path


def _finish(tree: Path, path: str, until: float) -> None:
    """Nothing was there before it: what is not whole gives way, and is cloned anew."""
    inner, place = tree / path, stored(tree).get(path)
    if is_checkout(inner) and is_whole(inner):
        put_in_order(tree, path, until)
        for one in stored(inner):
            _finish(inner, one, until)
    elif place and (place.exists() or is_checkout(inner)):
        say(f"{path} had been cloned in part: it is cloned anew")
        ours = is_checkout(inner) and not _is_newer(inner, until)
        _clear(inner, ".git", ours=ours)
        _clear(place, "HEAD", ours=not _is_newer(place, until))


def _clear(place: Path, last: str, *, ours: bool) -> None:
    """Make room: what may be a person's keeps all that it is, under another name."""
    if not place.is_dir() or not any(place.iterdir()):
        return
    if ours:
        removal.remove_tree(place, last=last)
        return
    number = 1
    while (aside := place.with_name(f"{place.name}.{number}")).exists():
        number += 1
    place.rename(aside)
    warn(f"what was in {place} is now {aside}; remove it when nothing in it is needed")


def _is_newer(place: Path, until: float) -> bool:
    """Whether anything below changed after our git's end."""
    return any(path.lstat().st_mtime > until for path in place.rglob("*"))
