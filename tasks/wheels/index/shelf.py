"""The wheels of an index, and the pages that name them: added, yanked, let go."""

from __future__ import annotations

import datetime
import difflib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from email.parser import HeaderParser
from hashlib import sha256
from pathlib import Path, PurePath

from tasks.core.errors import BadArtifactError, BuildError
from tasks.system import files
from tasks.system.voice import warn
from tasks.wheels.files import wheelfile
from tasks.wheels.index import pages
from tasks.wheels.index.pages import File
from tasks.wheels.index.rendered import rendered

_STAYS = datetime.timedelta(days=1)  # a reader of the last page may still be on its way
_LEAVING = "leaving.json"


def listed(index: PurePath) -> dict[str, File]:
    """The files that the pages name, by file name. Raises `BuildError` where a page is broken."""
    found: dict[str, File] = {}
    for page in sorted(Path(index).glob("simple/*/index.json")):
        try:
            found |= {file.filename: file for file in pages.read(page.read_text("utf-8"))}
        except ValueError as error:
            raise BuildError(
                f"a page of the index cannot be read: {error}",
                where=str(page),
                todo="remove it, and publish what it named again",
            ) from error
    return found


def add(index: PurePath, wheel: Path) -> File:
    """Put a wheel there, with its METADATA beside it; its entry, which no page has yet."""
    told = _metadata(wheel)
    known = files.artifact(wheel)
    place = Path(index) / "files" / wheel.name
    place.parent.mkdir(parents=True, exist_ok=True)
    _refuse_another(place, known.sha256)
    if not place.is_file() or place.samefile(wheel):
        _copy(wheel, place)
    files.write_atomic(_beside(place), told)
    return File(
        filename=wheel.name,
        sha256=known.sha256,
        size=known.size,
        metadata=sha256(told.encode()).hexdigest(),
        uploaded=_now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        requires_python=HeaderParser().parsestr(told).get("Requires-Python", ""),
    )


def _metadata(wheel: Path) -> str:
    with wheelfile.opened(wheel) as archive:
        return archive.read(wheelfile.described(archive, "METADATA")).decode("utf-8")


def _refuse_another(place: Path, digest: str) -> None:
    """Whoever has a lock file with its digest would be refused ever after."""
    if place.is_file() and files.artifact(place).sha256 != digest:
        raise BadArtifactError(
            f"the index has another {place.name} already, and a published file never changes",
            where=str(place),
            todo="build it under another version (wheel.local_version), or yank the old one and "
            "remove it by hand",
        )


def _copy(wheel: Path, place: Path) -> None:
    """Copy the wheel, never link it: a change to one file must not change the other."""
    arriving = place.with_name(f".{place.name}.part")
    arriving.unlink(missing_ok=True)
    files.copy_file(wheel, arriving)
    files.move(arriving, place)


def _beside(wheel: Path) -> Path:
    return wheel.with_name(f"{wheel.name}.metadata")


def yank(named: Mapping[str, File], filename: str, reason: str) -> dict[str, File]:
    """The same with one that is taken only by who asks for exactly it; "" takes that back."""
    if filename not in named:
        raise BuildError(f"{filename} is not on the index", todo=_meant(named, filename))
    return {**named, filename: replace(named[filename], yanked=reason)}


def _meant(named: Collection[str], filename: str) -> str:
    """The whole name of one that is there; the nearest, where several are."""
    near = difflib.get_close_matches(filename, named, n=3, cutoff=0.0)
    return f"name a wheel that is: {', '.join(near)}" if near else "doit publish puts it there"


def write(index: PurePath, templates: PurePath, named: Collection[File]) -> None:
    """The pages of these files, and the list of projects last; what they name no more leaves."""
    told = rendered(templates, named)
    for path, text in told.items():
        files.write_atomic(Path(index) / path, text)
    for page in sorted(Path(index).glob("simple/*/index.json")):
        if page.relative_to(index).as_posix() not in told:
            files.remove_owned(page.parent)
    _let_go(Path(index), {file.filename for file in named})


def _let_go(index: Path, named: set[str]) -> None:
    """Wheels that no page names: a day after the last one did."""
    noted = index / _LEAVING
    known = _known(noted)
    now = _now()
    unnamed = [path for path in (index / "files").glob("*.whl") if path.name not in named]
    since = {path.name: known.get(path.name, now.isoformat()) for path in unnamed}
    for path in unnamed:
        if now - datetime.datetime.fromisoformat(since[path.name]) > _STAYS:
            files.remove_owned(path)
            files.remove_owned(_beside(path))
            del since[path.name]
    files.write_atomic(noted, json.dumps(since, indent=1, sort_keys=True) + "\n")


def leaving(index: PurePath) -> Iterator[str]:
    """The wheels that are on no page and still there for who read an older one."""
    yield from _known(Path(index) / _LEAVING)


def _known(noted: Path) -> dict[str, str]:
    if not noted.is_file():
        return {}
    try:
        return {str(k): str(v) for k, v in json.loads(noted.read_text("utf-8")).items()}
    except (ValueError, AttributeError):
        warn(f"{noted} cannot be read; what leaves the index stays a day longer")
        return {}


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
