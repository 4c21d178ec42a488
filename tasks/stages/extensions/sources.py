"""An extension's source, brought into its work folder and patched there; a person's own folder is
copied and never built in. A companion's wheel comes the same way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path, PurePath

from tasks.core.deps_model import DepsManifest
from tasks.core.digest import compute_text_sha256
from tasks.core.errors import BadArtifactError, CommandFailedError, MissingToolError, redact_secrets
from tasks.stages.extensions import patching, pins
from tasks.stages.extensions.job import ExtensionJob
from tasks.system import files, git, trees
from tasks.system.git.command import is_local_url
from tasks.system.network import archive
from tasks.system.python import packages
from tasks.system.python.packages import DownloadRequest
from tasks.wheels.files import wheelhouse
from tasks.wheels.provenance.made import SourceInfo


def fetch_source(job: ExtensionJob, deps: DepsManifest) -> tuple[Path, Mapping[str, str]]:
    """A fresh tree to build in, or the wheel, and what it is: commit, digest of files, or digest of
    the sdist or wheel; and the digests of its patches. `BuildError` where one does not fit.
    """
    work = files.create_owned_folder(job.work)
    tree = Path(job.tree)
    files.remove_owned(tree)
    match job.kind:
        case "wheel":
            return _fetch_wheel(job, deps, work / "wheel")
        case "git":
            found = _clone_source(job, Path(job.clone), tree)
        case "path":
            with contextlib.suppress(CommandFailedError, MissingToolError):  # a copy needs no git
                git.require_merged(Path(job.location), f"extensions ({job.name}).path")
            trees.copy_source_tree(Path(job.location), tree)
            found = {"path": job.location, "digest": trees.hash_source_tree(tree)}
        case "sdist":
            found = _fetch_sdist(job, deps, work / "sdist", tree)
    return tree, {**found, **patching.apply_patches(job, tree)}


def describe_source(job: ExtensionJob, found: Mapping[str, str]) -> SourceInfo:
    """What was `found` in `fetch`, as another may be told."""
    patches = tuple(filter(None, found.get("patches", "").split(", ")))
    if job.kind == "sdist":
        return SourceInfo(digest=found["sha256"], patches=patches)
    if job.kind == "path":
        return SourceInfo(digest=found["digest"], patches=patches)
    return SourceInfo(
        url="" if is_local_url(found["git"]) else found["git"],
        commit=found["commit"],
        edits=found["edits"],
        submodules=git.read_git_state(job.clone).submodules,
        patches=patches,
    )


def format_edits_suffix(job: ExtensionJob, found: Mapping[str, str]) -> str:
    """Return `.d` and six hex digits of a digest of the edits and patches of a source, "" for an
    unchanged commit or archive. A folder that is not a checkout counts as edited.
    """
    edits = found.get("edits", "")
    if job.kind == "path" and not git.is_clean(PurePath(job.location)):
        edits = found["digest"]
    changed = edits + found.get("patches", "")
    return f".d{compute_text_sha256(changed)[:6]}" if changed else ""


def read_commit_date(job: ExtensionJob) -> int:
    """When its commit was made, 0 where it is no checkout of ours."""
    return git.read_commit_time(job.clone) if job.kind == "git" else 0


def compute_folder_digest(job: ExtensionJob) -> str:
    """What a person's folder holds now."""
    return trees.hash_source_tree(Path(job.location))


def _fetch_wheel(
    job: ExtensionJob, deps: DepsManifest, landing: Path
) -> tuple[Path, Mapping[str, str]]:
    wanted = pins.resolve_wheel_requirement(job)
    found = packages.download_distribution(
        DownloadRequest(deps.python, wanted.requirement, wanted.index, landing, job.log)
    )
    artifact = files.read_artifact(found)
    wheelhouse.require_locked_digest(artifact, job.locked_sha256, job.name)
    return found, {"wheel": found.name, "sha256": artifact.sha256}


def _clone_source(job: ExtensionJob, clone: Path, tree: Path) -> dict[str, str]:
    git.report_newer_commit(job.location, job.ref, job.commit, job.mirrors)
    at = job.commit or job.ref
    git.clone_at_ref(job.location, at, clone, job.submodules, job.mirrors, job.log)
    trees.copy_source_tree(clone, tree)
    state = git.read_git_state(clone)
    return {
        "git": redact_secrets(job.location),
        "ref": job.ref,
        "commit": state.commit,
        "edits": state.edits,
    }


def _fetch_sdist(
    job: ExtensionJob, deps: DepsManifest, landing: Path, tree: Path
) -> dict[str, str]:
    """Fetch and unpack an sdist. None of its code runs before it is patched."""
    found = packages.download_distribution(
        DownloadRequest(deps.python, job.location, "", landing, job.log, sdist=True)
    )
    artifact = files.read_artifact(found)
    if job.sha256 and artifact.sha256 != job.sha256:
        raise BadArtifactError(
            f"{artifact.name} has sha256 {artifact.sha256}, and {job.sha256} was asked for",
            location=f"extensions ({job.name}).sha256",
            hint="correct the digest, or find out who changed the file",
        )
    wheelhouse.require_locked_digest(artifact, job.locked_sha256, job.name)
    archive.extract_archive(found, tree)
    return {"sdist": artifact.name, "sha256": artifact.sha256}
