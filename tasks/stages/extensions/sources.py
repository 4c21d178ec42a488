"""An extension's source, brought into its work folder and patched there; a person's own folder is
copied and never built in. A companion's wheel comes the same way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path, PurePath

from tasks.core.deps_model import Deps
from tasks.core.digest import sha256_text
from tasks.core.errors import BadArtifactError, CommandFailedError, MissingToolError, redact
from tasks.stages.extensions import patching, pins
from tasks.stages.extensions.job import ExtensionJob
from tasks.system import files, git, trees
from tasks.system.git.command import is_local
from tasks.system.network import archive
from tasks.system.python import packages
from tasks.system.python.packages import Download
from tasks.wheels.files import wheelhouse
from tasks.wheels.provenance.made import Tree


def fetch(job: ExtensionJob, deps: Deps) -> tuple[Path, Mapping[str, str]]:
    """A fresh tree to build in, or the wheel, and what it is: commit, digest of files, or digest of
    the sdist or wheel; and the digests of its patches. `BuildError` where one does not fit.
    """
    work = files.own(job.work)
    tree = Path(job.tree)
    files.remove_owned(tree)
    match job.kind:
        case "wheel":
            return _wheel(job, deps, work / "wheel")
        case "git":
            found = _clone(job, Path(job.clone), tree)
        case "path":
            with contextlib.suppress(CommandFailedError, MissingToolError):  # a copy needs no git
                git.require_merged(Path(job.location), f"extensions ({job.name}).path")
            trees.copy(Path(job.location), tree)
            found = {"path": job.location, "digest": trees.digest(tree)}
        case "sdist":
            found = _sdist(job, deps, work / "sdist", tree)
    return tree, {**found, **patching.apply(job, tree)}


def tree_of(job: ExtensionJob, found: Mapping[str, str]) -> Tree:
    """What was `found` in `fetch`, as another may be told."""
    patches = tuple(filter(None, found.get("patches", "").split(", ")))
    if job.kind == "sdist":
        return Tree(digest=found["sha256"], patches=patches)
    if job.kind == "path":
        return Tree(digest=found["digest"], patches=patches)
    return Tree(
        url="" if is_local(found["git"]) else found["git"],
        commit=found["commit"],
        edits=found["edits"],
        submodules=git.state(job.clone).submodules,
        patches=patches,
    )


def edits_suffix(job: ExtensionJob, found: Mapping[str, str]) -> str:
    """Return `.d` and six hex digits of a digest of the edits and patches of a source, "" for an
    unchanged commit or archive. A folder that is not a checkout counts as edited.
    """
    edits = found.get("edits", "")
    if job.kind == "path" and not git.is_clean(PurePath(job.location)):
        edits = found["digest"]
    changed = edits + found.get("patches", "")
    return f".d{sha256_text(changed)[:6]}" if changed else ""


def date(job: ExtensionJob) -> int:
    """When its commit was made, 0 where it is no checkout of ours."""
    return git.date(job.clone) if job.kind == "git" else 0


def path_digest(job: ExtensionJob) -> str:
    """What a person's folder holds now."""
    return trees.digest(Path(job.location))


def _wheel(job: ExtensionJob, deps: Deps, landing: Path) -> tuple[Path, Mapping[str, str]]:
    wanted = pins.wanted(job)
    found = packages.download(
        Download(deps.python, wanted.requirement, wanted.index, landing, job.log)
    )
    artifact = files.artifact(found)
    wheelhouse.require_locked(artifact, job.locked_sha256, job.name)
    return found, {"wheel": found.name, "sha256": artifact.sha256}


def _clone(job: ExtensionJob, clone: Path, tree: Path) -> dict[str, str]:
    git.tell_of_newer(job.location, job.ref, job.commit, job.mirrors)
    at = job.commit or job.ref
    git.clone_at(job.location, at, clone, job.submodules, job.mirrors, job.log)
    trees.copy(clone, tree)
    state = git.state(clone)
    return {
        "git": redact(job.location),
        "ref": job.ref,
        "commit": state.commit,
        "edits": state.edits,
    }


def _sdist(job: ExtensionJob, deps: Deps, landing: Path, tree: Path) -> dict[str, str]:
    """Fetch and unpack an sdist. None of its code runs before it is patched."""
    found = packages.download(Download(deps.python, job.location, "", landing, job.log, sdist=True))
    artifact = files.artifact(found)
    if job.sha256 and artifact.sha256 != job.sha256:
        raise BadArtifactError(
            f"{artifact.name} has sha256 {artifact.sha256}, and {job.sha256} was asked for",
            where=f"extensions ({job.name}).sha256",
            todo="correct the digest, or find out who changed the file",
        )
    wheelhouse.require_locked(artifact, job.locked_sha256, job.name)
    archive.extract(found, tree)
    return {"sdist": artifact.name, "sha256": artifact.sha256}
