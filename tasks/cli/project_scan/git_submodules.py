"""Find the git submodules of a project, and which of them are not fetched."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from tasks.cli.project_scan.setup_files import read_small_file
from tasks.core.text_formatting import format_short_list

FETCH_COMMAND = "git submodule update --init --recursive"
_MAX_NESTING = 4
_SECTION = re.compile(r"\s*\[\s*submodule\s")
_PATH_LINE = re.compile(r"\s*path\s*=\s*(?P<path>.*?)\s*(?:[#;].*)?$")


@dataclass(frozen=True)
class Submodule:
    """A submodule. `path` is relative to the project; `is_fetched` is False for an empty folder."""

    path: PurePath
    is_fetched: bool


def find_submodules(root: Path, inside: str = "", depth: int = 0) -> Iterator[Submodule]:
    """Yield the submodules in .gitmodules, each followed by its own submodules."""
    text = read_small_file(root / inside / ".gitmodules")
    for path in parse_submodule_paths(text):
        place = PurePath(inside, path)
        is_fetched = _has_entries(root / place)
        yield Submodule(place, is_fetched)
        if is_fetched and depth < _MAX_NESTING:
            yield from find_submodules(root, place.as_posix(), depth + 1)


def parse_submodule_paths(text: str) -> tuple[PurePath, ...]:
    """Return the paths in the text of a .gitmodules file, without those outside of the folder."""
    paths: dict[PurePath, None] = {}
    in_submodule = False
    for line in text.splitlines():
        if line.lstrip().startswith("["):
            in_submodule = bool(_SECTION.match(line))
        elif in_submodule and (found := _PATH_LINE.match(line)):
            path = PurePath(found["path"].strip('"'))
            if path.parts and not path.is_absolute() and ".." not in path.parts:
                paths[path] = None
    return tuple(paths)


def _has_entries(folder: Path) -> bool:
    try:
        return any(folder.iterdir())
    except OSError:
        return False


def describe_missing_submodules(submodules: tuple[Submodule, ...], *, is_clone: bool) -> str:
    """Return which submodules are empty and the command that fetches them; "" if none is empty."""
    missing = [one.path.as_posix() for one in submodules if not one.is_fetched]
    if not missing:
        return ""
    verb, them = ("is", "it") if len(missing) == 1 else ("are", "them")
    fetch = f"to fetch {them}, run {FETCH_COMMAND}, then this command again"
    if not is_clone:
        fetch = "clone this repository with git to get submodules: an archive does not contain them"
    return f"{format_short_list(missing, 3)} {verb} empty: {fetch}"
