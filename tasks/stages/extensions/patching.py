"""A person's patches on the copy of an extension's source: all of them, in order, or an error that
says which one, in which file, at which lines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tasks.core.errors import CommandFailedError, TorchyardError
from tasks.stages.extensions.job import ExtensionJob
from tasks.system import files, git

_REJECTED_HUNK = re.compile(r"patch failed: (?P<file>.+):(?P<line>\d+)\s*$")


def apply_patches(job: ExtensionJob, tree: Path) -> Mapping[str, str]:
    """The digests of what was applied to the fresh `tree`, nothing where there are no patches."""
    for patch in job.patches:
        _apply_patch(job, Path(patch), tree)
    digests = [files.read_artifact(patch).sha256 for patch in job.patches]
    return {"patches": ", ".join(digests)} if digests else {}


def _apply_patch(job: ExtensionJob, patch: Path, tree: Path) -> None:
    where = f"extensions ({job.name}).patches: {patch}"
    if not patch.is_file():
        raise TorchyardError("there is no such patch", location=where, hint="correct the path")
    try:
        git.apply_patch(tree, patch, log=job.log)
    except CommandFailedError as error:
        raise TorchyardError(
            f"{patch.name} does not fit the source of {job.name}: {_describe_rejection(patch, error.message)}",
            location=where,
            hint=f"make it fit {job.ref if job.kind == 'git' else job.location}, or leave it out; "
            f"what git says is in {job.log}",
        ) from error


def _describe_rejection(patch: Path, said: str) -> str:
    """The file and the hunk that git refused, or its own words where it names none."""
    refused = _REJECTED_HUNK.search(said)
    if not refused:
        return said.partition("error: ")[2] or said
    file, line = refused["file"], refused["line"]
    hunk = _find_hunk(patch.read_text(encoding="utf-8", errors="replace"), file, line)
    return f"{file}, {hunk or f'line {line}'}"


def _find_hunk(text: str, file: str, line: str) -> str:
    """The header of the hunk of `file` that begins at `line` of the source, and its number."""
    number, inside = 0, False
    for each in text.splitlines():
        if each.startswith("--- "):
            number, inside = 0, each.rstrip().endswith(f"/{file}") or each[4:].strip() == file
        elif inside and (found := re.match(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@", each)):
            number += 1
            if found[1] == line:
                return f"hunk {number} ({found[0]})"
    return ""
