"""What a torch that is built here is made from, out of the manifests."""

from __future__ import annotations

from pathlib import Path

from tasks.core.deps_model import DepsManifest
from tasks.core.digest import compute_text_sha256, convert_to_json
from tasks.core.errors import redact_secrets
from tasks.stages.compile.job import CompileResult
from tasks.stages.env.job import Environment
from tasks.stages.source.job import SourceTree
from tasks.stages.wheel.job import BuiltJob
from tasks.system import manifests
from tasks.system.clock import format_current_time
from tasks.system.git.command import is_local_url
from tasks.wheels.files import requirements
from tasks.wheels.provenance.made import (
    EARLIEST_TIMESTAMP,
    BuildInputs,
    Invocation,
    SourceInfo,
    describe_tool,
)
from tasks.wheels.provenance.shown import redact_json


def read_build_inputs(job: BuiltJob, deps: DepsManifest) -> BuildInputs:
    """All but how: that is known when it is made."""
    tree = manifests.read_manifest(job.source, SourceTree)
    return BuildInputs(
        name="torch",
        version=format_wheel_version(job, tree),
        tree=SourceInfo(
            url=_find_source_url(job),
            commit=tree.commit,
            digest=tree.digest,
            edits=tree.edits,
            submodules=tree.submodules,
            patches=tree.patches,
        ),
        epoch=_find_source_epoch(job, tree),
        compilers=tuple(describe_tool(one.path, one.version, one.digest) for one in deps.compilers),
        cuda=deps.toolkit.version if deps.toolkit else "",
        packages=deps.toolkit.pins if deps.toolkit else (),
    )


def build_invocation(job: BuiltJob, deps: DepsManifest, began: str) -> Invocation:
    """What was asked, and what it came to."""
    compiled = manifests.read_manifest(job.compiled, CompileResult)
    folders = {
        str(job.wheelhouse): "{wheelhouse}",
        compiled.tree: "{source}",
        str(job.build): "{build}",
        str(job.build.parent.parent): "{checkout}",
        str(Path.home()): "~",
    }
    decided = {
        "backend": compiled.backend,
        "archs": [str(arch) for arch in job.targets],
        "cuda": job.cuda,
        "environment": manifests.read_manifest(job.env, Environment).set,
    }
    installed = requirements.list_installed_packages(deps.python)
    asked = redact_json(convert_to_json(job.settings), folders)
    return Invocation(
        "torch",
        asked,
        redact_json(convert_to_json(decided), folders),
        installed,
        began,
        format_current_time(),
    )


def format_wheel_version(job: BuiltJob, tree: SourceTree) -> str:
    """`2.6.0+cu130.sm120.g1a2b3c4`, with `.d` and six digits of the edits where the tree is
    dirty.
    """
    if job.local is None:
        return job.release
    if job.local_is_whole:
        return f"{job.release}+{job.local}"
    source = f"g{tree.commit[:7]}" if tree.commit else f"t{tree.digest[:7]}"
    dirty = f".d{compute_text_sha256(tree.edits)[:6]}" if tree.edits else ""
    return f"{job.release}+{job.local}.{source}{dirty}"


def _find_source_url(job: BuiltJob) -> str:
    """Where the tree was cloned from; a folder of this machine is nobody else's."""
    source = job.settings.get("source")
    asked = source if isinstance(source, dict) else {}
    url = str(asked.get("git") or "")
    fetched = not asked.get("path") and not asked.get("tarball")
    return redact_secrets(url) if fetched and url and not is_local_url(url) else ""


def _find_source_epoch(job: BuiltJob, tree: SourceTree) -> int:
    """What the build takes for now."""
    asked = manifests.read_manifest(job.env, Environment).set.get("SOURCE_DATE_EPOCH", "")
    return int(asked) if asked.isdecimal() else max(tree.date, EARLIEST_TIMESTAMP)
