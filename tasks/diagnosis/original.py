"""An error in a copy, told of the file that it is a copy of: there a person mends it. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePath

from tasks.diagnosis.decide import Diagnosis

_PATH_START = r"""(?:^|(?<=[\s"'`‘“(\[{<=:,;|]))"""  # a path: no other path may go on into it
_PATH_REST = r"""[/\\](?P<below>[^\s"'`’”()\[\]{}<>:,;|]+)"""


def map_to_original(
    found: Diagnosis, copy: PurePath, original: PurePath, is_there: Callable[[str], bool]
) -> Diagnosis:
    """The diagnosis with `original` for the folder `copy` in its first error, of each file that
    `is_there`: what the build itself made is in the copy alone.
    """
    error = found.first_error
    if error is None:
        return found
    text, file = error.text, error.file
    if file and (moved := _map_path(file, copy, original)) and is_there(moved):
        text, file = text.replace(file, moved, 1), moved
    told = replace(error, text=_map_paths_in_text(text, copy, original, is_there), file=file)
    return replace(found, first_error=told)


def _map_path(file: str, copy: PurePath, original: PurePath) -> str:
    """The path of the original, "" of what is not in the copy. On Windows a compiler has / where
    another has \\ between folders.
    """
    for written in (str(copy), copy.as_posix()):
        for separator in ("/", "\\"):
            if file.startswith(written + separator):
                return f"{original}{file.removeprefix(written)}"
    return ""


def _map_paths_in_text(
    text: str, copy: PurePath, original: PurePath, is_there: Callable[[str], bool]
) -> str:
    """Every path of the text; of one with spaces in it only the first error's file is known."""
    written = "|".join(map(re.escape, {str(copy), copy.as_posix()}))

    def map_match(found: re.Match[str]) -> str:
        moved = _map_path(found[0], copy, original)
        return moved if is_there(moved) else found[0]

    return re.sub(f"{_PATH_START}(?:{written}){_PATH_REST}", map_match, text)
