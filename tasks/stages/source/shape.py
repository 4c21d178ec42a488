"""What a folder is by its files: a tree of PyTorch or not, and of which release by its own word."""

from __future__ import annotations

import re
from pathlib import Path

from packaging.version import Version

VERSION_FILE = "version.txt"
TREE_DESCRIPTION = "the folder that PyTorch, or a fork of it, was cloned or unpacked into"

# In every tree of 2.0 to 2.15 and its forks; those beside it (vision, audio, executorch) have some
_REQUIRED_FILES = (VERSION_FILE, "CMakeLists.txt", "torch/__init__.py", "c10")


def list_missing_files(tree: Path) -> tuple[str, ...]:
    """What every tree of PyTorch has and this folder has not."""
    return tuple(name for name in _REQUIRED_FILES if not (tree / name).exists())


def read_tree_release(tree: Path) -> Version | None:
    """What version.txt says, `2.9.0a0+fork3`; None where that is no version, or is not there."""
    try:
        return Version((tree / VERSION_FILE).read_text(encoding="utf-8-sig").strip())
    except (OSError, ValueError):
        return None


def find_other_release(tree: Path, release: str) -> str:
    """The version of a tree that is of another release than that; "" where it is of the same.

    What comes before a release is that release: the tree of the tag v2.6.0 says 2.6.0a0. So may
    those of its patches, whose number nobody raised: that of v2.5.1 says 2.5.0a0 (pytorch#151425).
    """
    found, numbers = read_tree_release(tree), re.match(r"\d+(?:\.\d+)*", release)
    if found is None or numbers is None:
        return ""
    asked, said = Version(numbers[0]), Version(found.base_version)
    not_raised = found.pre and found.micro == 0 and asked.release[:2] == said.release[:2]
    return "" if asked == said or not_raised else found.public
