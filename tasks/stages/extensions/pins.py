"""Which wheel a companion is: the one of its requirement, or the one that PyTorch's tree is pinned
to.

A tree says it in two files, which `make triton` reads by a script of its own: the version, and on a
branch of development the commit, whose wheels are on the index of the nightlies. The script tells
what the package was called then, and how many digits of the commit its wheels have.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tasks.core.errors import TorchyardError
from tasks.knowledge import Knowledge, load_knowledge
from tasks.stages.companions import find_companion_specifier
from tasks.stages.extensions.job import ExtensionJob
from tasks.stages.source.job import SourceTree
from tasks.system import manifests

_RELEASE_VERSION = re.compile(r"\d+\.\d+\.\d+")


@dataclass(frozen=True)
class WheelRequirement:
    """A requirement, and where to look: "" is the default index."""

    requirement: str
    index: str


def resolve_wheel_requirement(job: ExtensionJob) -> WheelRequirement:
    """What a job of kind wheel is to fetch. `BuildError` where the tree has no such pin."""
    if job.pinned is None:
        return WheelRequirement(job.location, job.index)
    tree = Path(manifests.read_manifest(job.pinned, SourceTree).tree)
    knowledge = load_knowledge(Path(job.knowledge))
    pins = knowledge.companions[job.name].pins
    version = _read_pin(job, tree, pins["version"])
    if _is_released(tree, job.name, knowledge):
        return WheelRequirement(f"{job.location}=={version}", "")
    script = tree / pins["script"]
    said = script.read_text(encoding="utf-8") if script.is_file() else ""
    local = format_wheel_commit(said, _read_pin(job, tree, pins["commit"]))
    return WheelRequirement(
        f"{read_package_name(said, job.location)}=={version}+{local}", job.index
    )


def read_package_name(script: str, name: str) -> str:
    """What the wheel of `name` is called by the tree's script. Pure."""
    former = f"pytorch-{name}"
    return former if f"{former}==" in script else name


def format_wheel_commit(script: str, commit: str) -> str:
    """How the commit stands in the wheel's local version: `git1a2b3c4d`. Pure."""
    plain = re.search(r"\+\$\(head -c (\d+) \S*triton\.txt", script)  # of earlier trees
    if plain:
        return commit[: int(plain[1])]
    digits = re.search(r"head -c (\d+) \S*triton\.txt", script)
    return f"git{commit[: int(digits[1]) if digits else 8]}"


def _is_released(tree: Path, name: str, knowledge: Knowledge) -> bool:
    """Whether the tree is of a release that is out, whose triton is on PyPI: by its own version, or
    as the alpha that the tree of a tag may still call itself (2.6.0 did).
    """
    file = tree / "version.txt"
    said = file.read_text(encoding="utf-8").strip() if file.is_file() else ""
    return bool(
        _RELEASE_VERSION.fullmatch(said)
        or (said and find_companion_specifier(knowledge, said, name))
    )


def _read_pin(job: ExtensionJob, tree: Path, name: str) -> str:
    file = tree / name
    if not file.is_file():
        raise TorchyardError(
            f"this tree does not say which {job.name} it is for",
            location=str(file),
            hint=f"take {job.name} out of companions, and install the one that you know to fit",
        )
    return file.read_text(encoding="utf-8").strip()
