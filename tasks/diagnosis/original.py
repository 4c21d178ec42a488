"""An error in a copy, told of the file that it is a copy of: there a person mends it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

from tasks.diagnosis.decide import Diagnosis


def of_original(found: Diagnosis, copy: PurePath, original: PurePath) -> Diagnosis:
    """The diagnosis with `original` wherever its first error has the folder `copy`."""
    error = found.first_error
    if error is None:
        return found
    file = error.file and _moved(error.file, copy, original)
    moved = replace(error, text=_moved(error.text, copy, original), file=file)
    return replace(found, first_error=moved)


def _moved(text: str, copy: PurePath, original: PurePath) -> str:
    """On Windows a compiler has / where another has \\ between folders."""
    for written in (str(copy), copy.as_posix()):
        for separator in ("/", "\\"):
            text = text.replace(written + separator, f"{original}{separator}")
    return text
