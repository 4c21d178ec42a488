"""What cmd's `set` printed, before a script ran and after: read, and the difference. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from ntpath import normcase, normpath

MARK = "#torchyard#"  # the line between the two
# cmd's own, and what vcvarsall remembers of the prompt that it was called in. VSCMD_VER is the
# release of Visual Studio, which moves where no compiler does; without the other two it would
# only have a later vcvarsall believe that it can take them back.
_VOLATILE = ("__VSCMD_PREINIT_", "VSCMD_VER", "VSCMD_START_DIR", "PROMPT", "ERRORLEVEL")


def read(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """The variables before and after the line `MARK`; both empty where there is no such line.

    Names that begin with `=` are cmd's notes of the folder on each drive.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if MARK not in lines:
        return {}, {}
    middle = lines.index(MARK)
    return _variables(lines[:middle]), _variables(lines[middle + 1 :])


def _variables(lines: list[str]) -> dict[str, str]:
    pairs = (line.partition("=") for line in lines if not line.startswith("="))
    return {name: value for name, equals, value in pairs if equals}


def difference(
    before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The variables that are new or have another value, without PATH; and the folders that were
    put in front of PATH. Windows knows a name in any case.
    """
    old = {name.upper(): value for name, value in before.items()}
    moved = {name: value for name, value in after.items() if old.get(name.upper()) != value}
    path = {name.upper(): value for name, value in moved.items()}.get("PATH", "")
    kept = {name: value for name, value in moved.items() if _lasts(name.upper())}
    return dict(sorted(kept.items())), _in_front(old.get("PATH", ""), path)


def _lasts(name: str) -> bool:
    return name != "PATH" and not name.startswith(_VOLATILE)


def _in_front(before: str, after: str) -> tuple[str, ...]:
    """A folder that comes twice counts where it is first; empty ones are none."""
    known = {place(folder) for folder in before.split(";") if folder}
    found: dict[str, str] = {}
    for folder in filter(None, after.split(";")):
        if place(folder) in known:
            break
        found.setdefault(place(folder), folder)
    return tuple(found.values())


def place(folder: str) -> str:
    """The same text for each spelling of a folder: `C:\\VS\\VC\\..\\` and `c:/vs`."""
    return normcase(normpath(folder))
