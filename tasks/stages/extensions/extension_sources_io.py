"""Fetch and patch the source of an extension, or the wheel of a companion, in its work folder.

The user's folder is copied and never built in.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from tasks.core.canonical_json import compute_text_sha256
from tasks.core.deps_model import DepsManifest
from tasks.core.errors import (
    BadArtifactError,
    CommandFailedError,
    MissingToolError,
    TorchyardError,
    redact_secrets,
)
from tasks.knowledge import Knowledge
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.stages.companions import find_companion_specifier
from tasks.stages.extensions.model import ExtensionJob
from tasks.stages.source.model import SourceTree
from tasks.system import files, git, manifests, package_installer, source_trees
from tasks.system.git.git_command import is_local_url
from tasks.system.network import archive
from tasks.system.package_installer import DownloadRequest
from tasks.wheels import wheelhouse_io
from tasks.wheels.build_inputs import SourceInfo

_RELEASE_VERSION = re.compile(r"\d+\.\d+\.\d+")


@dataclass(frozen=True)
class WheelRequirement:
    """A requirement and its index, "" for the default one."""

    requirement: str
    index: str


def resolve_wheel_requirement(job: ExtensionJob) -> WheelRequirement:
    """Return the requirement of a job of kind wheel.

    Raises `TorchyardError` if PyTorch's source tree does not pin the companion.
    """
    if job.pinned is None:
        return WheelRequirement(job.location, job.index)
    tree = Path(manifests.read_manifest(job.pinned, SourceTree).tree)
    knowledge = load_knowledge(Path(job.knowledge))
    pins = knowledge.companions[job.name].pins
    version = _read_pin(job, tree, pins["version"])
    if _is_released(tree, job.name, knowledge):
        return WheelRequirement(f"{job.location}=={version}", "")
    script = tree / pins["script"]
    script_text = script.read_text(encoding="utf-8") if script.is_file() else ""
    local = format_wheel_commit(script_text, _read_pin(job, tree, pins["commit"]))
    return WheelRequirement(
        f"{read_package_name(script_text, job.location)}=={version}+{local}", job.index
    )


def read_package_name(script: str, name: str) -> str:
    """Return the package name that the script of PyTorch's tree uses for the wheel of `name`."""
    former = f"pytorch-{name}"
    return former if f"{former}==" in script else name


def format_wheel_commit(script: str, commit: str) -> str:
    """Return the commit as in the wheel's local version: `git1a2b3c4d`."""
    plain = re.search(r"\+\$\(head -c (\d+) \S*triton\.txt", script)  # in older trees
    if plain:
        return commit[: int(plain[1])]
    digits = re.search(r"head -c (\d+) \S*triton\.txt", script)
    return f"git{commit[: int(digits[1]) if digits else 8]}"


def _is_released(tree: Path, name: str, knowledge: Knowledge) -> bool:
    """Return True if the tree is a published release, whose triton is on PyPI.

    Decided by the tree's version. The tree of a tag may still have an alpha version (2.6.0 did).
    """
    file = tree / "version.txt"
    version = file.read_text(encoding="utf-8").strip() if file.is_file() else ""
    return bool(
        _RELEASE_VERSION.fullmatch(version)
        or (version and find_companion_specifier(knowledge, version, name))
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


_REJECTED_HUNK = re.compile(r"patch failed: (?P<file>.+):(?P<line>\d+)\s*$")


def apply_patches(job: ExtensionJob, tree: Path) -> Mapping[str, str]:
    """Apply the patches to the fresh `tree` and return their digests, empty without patches."""
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
            f"{patch.name} does not fit the source of {job.name}: "
            f"{_describe_rejection(patch, error.message)}",
            location=where,
            hint=f"make it fit {job.ref if job.kind == 'git' else job.location}, or leave it out; "
            f"what git says is in {job.log}",
        ) from error


def _describe_rejection(patch: Path, said: str) -> str:
    """Return the file and hunk that git rejected, or git's message if it names none."""
    rejection = _REJECTED_HUNK.search(said)
    if not rejection:
        return said.partition("error: ")[2] or said
    file, line = rejection["file"], rejection["line"]
    hunk = _find_hunk(patch.read_text(encoding="utf-8", errors="replace"), file, line)
    return f"{file}, {hunk or f'line {line}'}"


def _find_hunk(text: str, file: str, line: str) -> str:
    """Return the number and header of the hunk of `file` that begins at `line` of the source."""
    number, in_file = 0, False
    for each in text.splitlines():
        if each.startswith("--- "):
            number, in_file = 0, each.rstrip().endswith(f"/{file}") or each[4:].strip() == file
        elif in_file and (header := re.match(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@", each)):
            number += 1
            if header[1] == line:
                return f"hunk {number} ({header[0]})"
    return ""


def fetch_source(job: ExtensionJob, deps: DepsManifest) -> tuple[Path, Mapping[str, str]]:
    """Return a fresh source tree or the wheel, and a description of it.

    The description has the commit, the digest of the files, or the digest of the sdist or wheel,
    and the digests of the patches. Raises `TorchyardError` if a patch does not apply.
    """
    work = files.create_owned_folder(job.work)
    tree = Path(job.tree)
    files.remove_owned(tree)
    match job.kind:
        case "wheel":
            return _fetch_wheel(job, deps, work / "wheel")
        case "git":
            source = _clone_source(job, Path(job.clone), tree)
        case "path":
            with contextlib.suppress(CommandFailedError, MissingToolError):  # git is optional here
                git.require_merged(Path(job.location), f"extensions ({job.name}).path")
            source_trees.copy_source_tree(Path(job.location), tree)
            source = {"path": job.location, "digest": source_trees.hash_source_tree(tree)}
        case "sdist":
            source = _fetch_sdist(job, deps, work / "sdist", tree)
    return tree, {**source, **apply_patches(job, tree)}


def describe_source(job: ExtensionJob, found: Mapping[str, str]) -> SourceInfo:
    """Return the result of `fetch_source` for the provenance, without local URLs and paths."""
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
    """Return `.d` and six hex digits of a digest of the source's edits and patches.

    Returns "" for an unchanged commit or archive. A folder that is not a checkout counts as edited.
    """
    edits = found.get("edits", "")
    if job.kind == "path" and not git.is_clean(PurePath(job.location)):
        edits = found["digest"]
    changed = edits + found.get("patches", "")
    return f".d{compute_text_sha256(changed)[:6]}" if changed else ""


def read_commit_date(job: ExtensionJob) -> int:
    """Return the time of the source's commit, 0 if the source is not a managed clone."""
    return git.read_commit_time(job.clone) if job.kind == "git" else 0


def compute_folder_digest(job: ExtensionJob) -> str:
    """Return the digest of the current files in the user's folder."""
    return source_trees.hash_source_tree(Path(job.location))


def _fetch_wheel(
    job: ExtensionJob, deps: DepsManifest, landing: Path
) -> tuple[Path, Mapping[str, str]]:
    requirement = resolve_wheel_requirement(job)
    wheel = package_installer.download_distribution(
        DownloadRequest(deps.python, requirement.requirement, requirement.index, landing, job.log)
    )
    artifact = files.read_artifact(wheel)
    wheelhouse_io.require_locked_digest(artifact, job.locked_sha256, job.name)
    return wheel, {"wheel": wheel.name, "sha256": artifact.sha256}


def _clone_source(job: ExtensionJob, clone: Path, tree: Path) -> dict[str, str]:
    git.report_newer_commit(job.location, job.ref, job.commit, job.mirrors)
    revision = job.commit or job.ref
    git.clone_at_ref(job.location, revision, clone, job.submodules, job.mirrors, job.log)
    source_trees.copy_source_tree(clone, tree)
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
    sdist = package_installer.download_distribution(
        DownloadRequest(deps.python, job.location, "", landing, job.log, sdist=True)
    )
    artifact = files.read_artifact(sdist)
    if job.sha256 and artifact.sha256 != job.sha256:
        raise BadArtifactError(
            f"{artifact.name} has sha256 {artifact.sha256}, and {job.sha256} was asked for",
            location=f"extensions ({job.name}).sha256",
            hint="correct the digest, or find out who changed the file",
        )
    wheelhouse_io.require_locked_digest(artifact, job.locked_sha256, job.name)
    archive.extract_archive(sdist, tree)
    return {"sdist": artifact.name, "sha256": artifact.sha256}
