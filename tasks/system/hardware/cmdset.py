"""What cmd's `set` printed, before a script ran and after: read, and the difference. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from ntpath import normcase, normpath

OUTPUT_SEPARATOR = "#torchyard#"  # the line between the two
# cmd's own, and what vcvarsall remembers of the prompt that it was called in. VSCMD_VER is the
# release of Visual Studio, which moves where no compiler does; without the other two it would
# only have a later vcvarsall believe that it can take them back.
_VOLATILE_VARIABLES = ("__VSCMD_PREINIT_", "VSCMD_VER", "VSCMD_START_DIR", "PROMPT", "ERRORLEVEL")


def parse_set_output(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """The variables before and after the line `MARK`; both empty where there is no such line.

    Names that begin with `=` are cmd's notes of the folder on each drive.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if OUTPUT_SEPARATOR not in lines:
        return {}, {}
    middle = lines.index(OUTPUT_SEPARATOR)
    return _parse_variables(lines[:middle]), _parse_variables(lines[middle + 1 :])


def _parse_variables(lines: list[str]) -> dict[str, str]:
    pairs = (line.partition("=") for line in lines if not line.startswith("="))
    return {name: value for name, equals, value in pairs if equals}


def compare_environments(
    before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The variables that are new or have another value, without PATH; and the folders that were
    put in front of PATH. Windows knows a name in any case.
    """
    old = {name.upper(): value for name, value in before.items()}
    moved = {name: value for name, value in after.items() if old.get(name.upper()) != value}
    path = {name.upper(): value for name, value in moved.items()}.get("PATH", "")
    kept = {name: value for name, value in moved.items() if _is_stable_variable(name.upper())}
    return dict(sorted(kept.items())), _find_prepended_folders(old.get("PATH", ""), path)


def _is_stable_variable(name: str) -> bool:
    return name != "PATH" and not name.startswith(_VOLATILE_VARIABLES)


def _find_prepended_folders(before: str, after: str) -> tuple[str, ...]:
    """A folder that comes twice counts where it is first; empty ones are none."""
    known = {normalize_folder(folder) for folder in before.split(";") if folder}
    found: dict[str, str] = {}
    for folder in filter(None, after.split(";")):
        if normalize_folder(folder) in known:
            break
        found.setdefault(normalize_folder(folder), folder)
    return tuple(found.values())


def normalize_folder(folder: str) -> str:
    """The same text for each spelling of a folder: `C:\\VS\\VC\\..\\` and `c:/vs`."""
    return normcase(normpath(folder))
