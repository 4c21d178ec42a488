"""Fetch and patch the source of an extension, or fetch the wheel of a companion package."""

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path, PurePath

from tasks.core import errors
from tasks.core.canonical_json import compute_text_sha256
from tasks.core.deps_model import DepsManifest
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.stages.companions import find_companion_specifier
from tasks.stages.extensions.model import ExtensionJob
from tasks.stages.source.model import SourceTree
from tasks.system import files, manifests, package_installer, source_trees
from tasks.system.git import checkout_state, clones, local_changes, shared_clones
from tasks.system.git.git_command import is_local_url
from tasks.system.network import archive
from tasks.system.package_installer import DownloadRequest
from tasks.wheels import wheelhouse_io
from tasks.wheels.build_inputs import SourceInfo


def resolve_wheel_requirement(job: ExtensionJob) -> tuple[str, str]:
    """Return the requirement of a job of kind `wheel`, and the index ("" is the default index)."""
    if job.pinned is None:
        return job.location, job.index
    tree = Path(manifests.read_manifest(job.pinned, SourceTree).tree)
    knowledge = load_knowledge(Path(job.knowledge))
    pins = knowledge.companions[job.name].pins
    version = _read_pin(job, tree / pins["version"])
    version_file = tree / "version.txt"
    release = version_file.read_text(encoding="utf-8").strip() if version_file.is_file() else ""
    # PyPI has triton for a torch release; the tree of a release tag may name an alpha (2.6.0's did)
    if re.fullmatch(r"\d+\.\d+\.\d+", release) or (
        release and find_companion_specifier(knowledge, release, job.name)
    ):
        return f"{job.location}=={version}", ""
    file = tree / pins["script"]
    script = file.read_text(encoding="utf-8") if file.is_file() else ""
    older_name = f"pytorch-{job.location}"
    package = older_name if f"{older_name}==" in script else job.location
    # older trees have no `git` before the commit in the local version
    plain = re.search(r"\+\$\(head -c (\d+) \S*triton\.txt", script)
    digits = plain or re.search(r"head -c (\d+) \S*triton\.txt", script)
    commit = _read_pin(job, tree / pins["commit"])[: int(digits[1]) if digits else 8]
    return f"{package}=={version}+{'' if plain else 'git'}{commit}", job.index


def _read_pin(job: ExtensionJob, file: Path) -> str:
    if file.is_file():
        return file.read_text(encoding="utf-8").strip()
    raise errors.TorchyardError(
        f"PyTorch's source tree does not state which {job.name} it needs",
        location=str(file),
        hint=f"remove {job.name} from companions, and install a version that fits this tree",
    )


_REJECTED_HUNK = re.compile(r"patch failed: (?P<file>.+):(?P<line>\d+)\s*$")


def apply_patches(job: ExtensionJob, tree: Path) -> Mapping[str, str]:
    """Apply the patches to the fresh `tree`. Return their digests, or {} if there are none."""
    for patch in map(Path, job.patches):
        place = f"extensions ({job.name}).patches: {patch}"
        if not patch.is_file():
            raise errors.TorchyardError(
                "the patch does not exist", location=place, hint="correct the path in the settings"
            )
        try:
            local_changes.apply_patch(tree, patch, log=job.log)
        except errors.CommandFailedError as error:
            rejection = _describe_rejection(patch, error.message)
            revision = job.ref if job.kind == "git" else job.location
            raise errors.TorchyardError(
                f"{patch.name} does not apply to the source of {job.name}: {rejection}",
                location=place,
                hint=f"adapt the patch to {revision}, or remove it from patches; see git's output "
                f"in {job.log}",
            ) from error
    digests = [files.read_artifact(patch).sha256 for patch in job.patches]
    return {"patches": ", ".join(digests)} if digests else {}


def _describe_rejection(patch: Path, message: str) -> str:
    """Return the file and hunk that git rejected, or git's message if git names no file."""
    if not (rejection := _REJECTED_HUNK.search(message)):
        return message.partition("error: ")[2] or message
    file, line = rejection["file"], rejection["line"]
    number, in_file = 0, False  # the hunk's number in the file
    for each in patch.read_text(encoding="utf-8", errors="replace").splitlines():
        if each.startswith("--- "):
            number, in_file = 0, each.rstrip().endswith(f"/{file}") or each[4:].strip() == file
        elif in_file and (header := re.match(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@", each)):
            number += 1
            if header[1] == line:
                return f"{file}, hunk {number} ({header[0]})"
    return f"{file}, line {line}"


def fetch_source(job: ExtensionJob, deps: DepsManifest) -> tuple[Path, Mapping[str, str]]:
    """Fetch the source or the wheel. Return the path, and the facts that identify the content."""
    work, tree = files.create_owned_folder(job.work), Path(job.tree)
    files.remove_owned(tree)
    match job.kind:
        case "wheel":
            requirement, index = resolve_wheel_requirement(job)
            request = DownloadRequest(deps.python, requirement, index, work / "wheel", job.log)
            wheel = package_installer.download_distribution(request)
            artifact = files.read_artifact(wheel)
            wheelhouse_io.require_locked_digest(artifact, job.locked_sha256, job.name)
            return wheel, {"wheel": wheel.name, "sha256": artifact.sha256}
        case "git":
            clones.report_newer_commit(job.location, job.ref, job.commit, job.mirrors)
            revision, folder = job.commit or job.ref, Path(job.clone)
            clone = clones.Clone(
                folder, job.location, revision, job.submodules, job.log, job.mirrors
            )
            shared_clones.fetch_clone(clone, job.layout.project.cache)
            source_trees.copy_source_tree(folder, tree)
            state = checkout_state.read_git_state(folder)
            source = {"git": errors.redact_secrets(job.location), "ref": job.ref}
            source |= {"commit": state.commit, "edits": state.edits}
        case "path":
            with contextlib.suppress(
                errors.CommandFailedError, errors.MissingToolError
            ):  # git is not required here
                local_changes.require_merged(Path(job.location), f"extensions ({job.name}).path")
            source_trees.copy_source_tree(Path(job.location), tree)
            source = {"path": job.location, "digest": source_trees.hash_source_tree(tree)}
        case "sdist":
            source = _fetch_sdist(job, deps, work / "sdist", tree)
    return tree, {**source, **apply_patches(job, tree)}


def describe_source(job: ExtensionJob, source: Mapping[str, str]) -> SourceInfo:
    """Return the provenance data for a result of `fetch_source`, without local URLs and paths."""
    patches = tuple(filter(None, source.get("patches", "").split(", ")))
    if job.kind != "git":
        digest = source["sha256" if job.kind == "sdist" else "digest"]
        return SourceInfo(digest=digest, patches=patches)
    return SourceInfo(
        url="" if is_local_url(source["git"]) else source["git"],
        commit=source["commit"],
        edits=source["edits"],
        submodules=checkout_state.read_git_state(job.clone).submodules,
        patches=patches,
    )


def format_edits_suffix(job: ExtensionJob, source: Mapping[str, str]) -> str:
    """Return `.d` and six hex digits of a digest of edits and patches, or "" if there are none."""
    edits = source.get("edits", "")
    if job.kind == "path" and not checkout_state.is_clean(PurePath(job.location)):
        edits = source["digest"]
    changed = edits + source.get("patches", "")
    return f".d{compute_text_sha256(changed)[:6]}" if changed else ""


def read_commit_date(job: ExtensionJob) -> int:
    """Return the commit time of a source of kind git, or 0 for any other kind."""
    return checkout_state.read_commit_time(job.clone) if job.kind == "git" else 0


def _fetch_sdist(
    job: ExtensionJob, deps: DepsManifest, landing: Path, tree: Path
) -> dict[str, str]:
    """Download an sdist to `landing` and unpack it to `tree`, without running code of the sdist."""
    request = DownloadRequest(deps.python, job.location, "", landing, job.log, sdist=True)
    sdist = package_installer.download_distribution(request)
    artifact = files.read_artifact(sdist)
    if job.sha256 and artifact.sha256 != job.sha256:
        raise errors.BadArtifactError(
            f"{artifact.name} has sha256 {artifact.sha256}, but the settings require {job.sha256}",
            location=f"extensions ({job.name}).sha256",
            hint=f"if this file is the right one, set sha256: {artifact.sha256}; otherwise find "
            "out why it changed",
        )
    wheelhouse_io.require_locked_digest(artifact, job.locked_sha256, job.name)
    archive.extract_archive(sdist, tree)
    return {"sdist": artifact.name, "sha256": artifact.sha256}
