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

from tasks.core.errors import BuildError
from tasks.knowledge import Knowledge, load
from tasks.stages.companions import pair
from tasks.stages.extensions.job import ExtensionJob
from tasks.stages.source.job import SourceTree
from tasks.system import manifests

_RELEASE = re.compile(r"\d+\.\d+\.\d+")


@dataclass(frozen=True)
class Wanted:
    """A requirement, and where to look: "" is the default index."""

    requirement: str
    index: str


def wanted(job: ExtensionJob) -> Wanted:
    """What a job of kind wheel is to fetch. `BuildError` where the tree has no such pin."""
    if job.pinned is None:
        return Wanted(job.location, job.index)
    tree = Path(manifests.read(job.pinned, SourceTree).tree)
    knowledge = load(Path(job.knowledge))
    pins = knowledge.companions[job.name].pins
    version = _pin(job, tree, pins["version"])
    if _is_out(tree, job.name, knowledge):
        return Wanted(f"{job.location}=={version}", "")
    script = tree / pins["script"]
    said = script.read_text(encoding="utf-8") if script.is_file() else ""
    local = commit_in_wheel(said, _pin(job, tree, pins["commit"]))
    return Wanted(f"{package(said, job.location)}=={version}+{local}", job.index)


def package(script: str, name: str) -> str:
    """What the wheel of `name` is called by the tree's script. Pure."""
    former = f"pytorch-{name}"
    return former if f"{former}==" in script else name


def commit_in_wheel(script: str, commit: str) -> str:
    """How the commit stands in the wheel's local version: `git1a2b3c4d`. Pure."""
    plain = re.search(r"\+\$\(head -c (\d+) \S*triton\.txt", script)  # of earlier trees
    if plain:
        return commit[: int(plain[1])]
    digits = re.search(r"head -c (\d+) \S*triton\.txt", script)
    return f"git{commit[: int(digits[1]) if digits else 8]}"


def _is_out(tree: Path, name: str, knowledge: Knowledge) -> bool:
    """Whether the tree is of a release that is out, whose triton is on PyPI: by its own version, or
    as the alpha that the tree of a tag may still call itself (2.6.0 did).
    """
    file = tree / "version.txt"
    said = file.read_text(encoding="utf-8").strip() if file.is_file() else ""
    return bool(_RELEASE.fullmatch(said) or (said and pair(knowledge, said, name)))


def _pin(job: ExtensionJob, tree: Path, name: str) -> str:
    file = tree / name
    if not file.is_file():
        raise BuildError(
            f"this tree does not say which {job.name} it is for",
            where=str(file),
            todo=f"take {job.name} out of companions, and install the one that you know to fit",
        )
    return file.read_text(encoding="utf-8").strip()
