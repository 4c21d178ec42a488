"""Write the steps of a remedy for the system of the log: Windows has other commands than Linux."""

import re
from collections.abc import Sequence

_LINUX_ONLY = re.compile(
    r"\b(?:apt|dnf|yum) install\b|-ccbin g\+\+|\bg\+\+-\d|\bCC=|\bsudo\b|\bulimit\b|\bldd\b|"
    r"\bLD_(?:LIBRARY_PATH|PRELOAD)\b|\bLIBRARY_PATH=|(?<![\w-])find / "
)
_LINUX_FOLDER = re.compile(r"\bLIBRARY_PATH=|/usr/lib|linux-gnu|linux-64")
_ANY_SYSTEM = re.compile(r"Windows|Visual (?:C\+\+|Studio)|\bconda\b|\bWSL\b|\bvcvars|\bcl\.exe")
_NOT_ON_MACOS = re.compile(
    r"\b(?:apt(?:-get)?|dnf|yum) install\b|\bldd\b|\bldconfig\b|\bLD_(?:LIBRARY_PATH|PRELOAD)\b|"
    r"linux-gnu|linux-64|\bnvidia-\w+-cu1\d\b|\bvcvars|\bcl\.exe|\bwsl\b|\bdmesg\b"
)
_MACOS = re.compile(r"macOS|\bbrew\b|\bDYLD_|\bXcode\b|\bconda\b", re.IGNORECASE)
_FOR_LINUX = re.compile(r"\(on Linux\)\W*$|^on (?:Linux|CentOS)\b", re.IGNORECASE)
_FOR_MACOS = re.compile(r"\(on macOS\)\W*$|^on macOS\b", re.IGNORECASE)
_FOR_WINDOWS = re.compile(r"\(on Windows\)\W*$|^on Windows\b", re.IGNORECASE)
_ASSIGNMENTS = re.compile(
    r"(?:(?P<export>\bexport )|(?<![\w$%\"'=-]))"
    r"(?P<all>[A-Z][A-Z_0-9]*=(?:'[^']*'|\"[^\"]*\"|[^\s,;:()]*[^\s,;:().])"
    r"(?: [A-Z][A-Z_0-9]*=(?:'[^']*'|\"[^\"]*\"|[^\s,;:()]*[^\s,;:().]))*)"
    r"(?P<command> (?:pip|python|cmake)\b)?"
)
_ASSIGNMENT = re.compile(r"([A-Z][A-Z_0-9]*)=('[^']*'|\"[^\"]*\"|[^\s,;:()]*[^\s,;:().])")
_VARIABLE = re.compile(r"\$([A-Z_]+)")
_TOOLKIT = re.compile(r"/usr/local/cuda-(\d+\.\d+)")
_TOOLKITS = r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v"


def write_for_system(steps: Sequence[str], system: str) -> tuple[str, ...]:
    """Return the steps without those for other systems, with the commands of `system`.

    All steps remain if the system is unknown, or if none would remain.
    """
    if not system:
        return tuple(steps)
    kept = [one for one in steps if not _is_for_other_system(one, system)] or steps
    return tuple(map(_write_for_windows, kept)) if system == "Windows" else tuple(kept)


def _is_for_other_system(step: str, system: str) -> bool:
    if system == "macOS":
        is_foreign = _NOT_ON_MACOS.search(step) and not _MACOS.search(step)
        return bool(_FOR_WINDOWS.search(step) or _FOR_LINUX.search(step) or is_foreign)
    if system != "Windows":
        return bool(_FOR_WINDOWS.search(step) or _FOR_MACOS.search(step))
    if _FOR_LINUX.search(step) or _FOR_MACOS.search(step):
        return True
    if _LINUX_FOLDER.search(step) and "Windows" not in step:
        return True
    return bool(_LINUX_ONLY.search(step)) and not _ANY_SYSTEM.search(step)


def _write_for_windows(step: str) -> str:
    """Return a step with `set` instead of the assignments of a Unix shell."""
    return _ASSIGNMENTS.sub(_write_set, step)


def _write_set(found: re.Match[str]) -> str:
    if not found["export"] and not found["command"]:
        return found[0]
    parts = []
    for name, value in _ASSIGNMENT.findall(found["all"]):
        text = _VARIABLE.sub(r"%\1%", value.strip("'\""))
        if name.endswith("PATH") or text.startswith("$("):
            return found[0]
        folder = _TOOLKIT.sub(lambda one: _TOOLKITS + one[1], text)
        has_blank = re.search(r"[ ;&]", folder)
        parts.append(f'set "{name}={folder}"' if has_blank else f"set {name}={text}")
    return ", ".join(parts) + (f", then{found['command']}" if found["command"] else "")
