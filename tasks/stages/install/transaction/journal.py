"""What an exchange is, as the files that outlive a KILL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal, TypeVar

from tasks.core.errors import BuildError
from tasks.system import manifests

T = TypeVar("T")
HELD, CHANGE, RESTORING, FILES, ASIDE = "replaced.json", "change", "restoring", "files", "aside"


@dataclass(frozen=True)
class Kept:
    """A file that was there: the sha256 of its bytes, or what it leads to where it is a `link`.
    `owner` is the distribution that took its place.
    """

    owner: str
    sha256: str
    link: str = ""


@dataclass(frozen=True)
class Placed:
    """A file that was put there, and for which distribution."""

    owner: str
    sha256: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Part:
    """One distribution: the version `before`, "" where it was not there, and `after`.

    `record_before` and `record` are the sha256 of its RECORD then and now, `path` that of RECORD
    now, `wheel` the sha256 of its wheel in the wheelhouse, "" for one that came from an index.
    """

    before: str
    record_before: str
    after: str
    record: str
    path: str
    wheel: str = ""


@dataclass(frozen=True)
class Exchange:
    """What was put into the environment `prefix` for what. Paths are below it, as on POSIX; `sites`
    are its folders of packages, `folders` those that were there before, with their modes.
    """

    python: str
    prefix: str
    sites: tuple[str, ...]
    when: str
    parts: Mapping[str, Part]
    kept: Mapping[str, Kept]
    placed: Mapping[str, Placed]
    folders: Mapping[str, int]


@dataclass(frozen=True)
class Change:
    """An exchange at work: `installing` until what was installed has been imported, then
    `settling`: `moves` (from, to; in the folder of the stamp) have to be made, and `result` is to
    be replaced.json.
    """

    state: Literal["installing", "settling"]
    exchange: Exchange
    result: Exchange | None = None
    moves: tuple[tuple[str, str], ...] = ()


def stamps(replaced: PurePath) -> Iterator[Path]:
    """The folders of all environments, the oldest first."""
    folder = Path(replaced)
    if folder.is_dir():
        yield from sorted(path for path in folder.iterdir() if path.is_dir())


def held(stamp: Path) -> Exchange | None:
    """What lies there now; None where nothing does. A journal that cannot be read is an error."""
    return _read(stamp / HELD, Exchange)


def change(stamp: Path) -> Change | None:
    """The install at work, None where there is none, or where it had changed nothing yet."""
    return _read(stamp / CHANGE / "change.json", Change)


def write_held(stamp: Path, exchange: Exchange) -> None:
    """All or nothing."""
    manifests.publish(stamp / HELD, exchange)


def write_change(stamp: Path, at_work: Change) -> None:
    """All or nothing."""
    manifests.publish(stamp / CHANGE / "change.json", at_work)


def is_restoring(stamp: Path) -> bool:
    """Whether a way back was begun."""
    return (stamp / RESTORING).is_file()


def _read(path: Path, kind: type[T]) -> T | None:
    if not path.is_file():
        return None
    try:
        return manifests.read(path, kind)
    except BuildError as error:
        error.todo = "it says what was replaced in your environment: do not remove it, report this"
        raise


def lies(stamp: Path) -> Exchange | None:
    """What was exchanged there, be it not to the end; None where nothing is."""
    at_work = change(stamp)
    return held(stamp) or (at_work.exchange if at_work else None)


def is_gone(exchange: Exchange) -> bool:
    """Whether the environment is not there any more, or was made anew for another Python."""
    return not all(Path(exchange.prefix, site).is_dir() for site in exchange.sites)


def stamp_of(replaced: PurePath, prefix: PurePath, sites: tuple[str, ...]) -> Path | None:
    """The folder of an environment that something was put into, be it not to the end, or None."""
    for stamp in stamps(replaced):
        one = lies(stamp)
        if one and (one.prefix, one.sites) == (str(prefix), sites):
            return stamp
    return None


def told(exchange: Exchange) -> Iterator[str]:
    """What the way back does, a line for each distribution."""
    for name, part in sorted(exchange.parts.items()):
        if part.before:
            yield f"{name} {part.after} → {part.before}"
        else:
            yield f"{name} {part.after} → taken out: it was not there before"
