"""What a torch that is built here is made from, out of the manifests."""

from __future__ import annotations

from pathlib import Path

from tasks.core.deps_model import Deps
from tasks.core.digest import plain, sha256_text
from tasks.core.errors import redact
from tasks.stages.compile.job import Compiled
from tasks.stages.env.job import Environment
from tasks.stages.source.job import SourceTree
from tasks.stages.wheel.job import BuiltJob
from tasks.system import manifests
from tasks.system.clock import now
from tasks.system.git.command import is_local
from tasks.wheels.files import requirements
from tasks.wheels.provenance.made import EARLIEST, Invocation, Made, Tree, tool
from tasks.wheels.provenance.shown import shown


def made_of(job: BuiltJob, deps: Deps) -> Made:
    """All but how: that is known when it is made."""
    tree = manifests.read(job.source, SourceTree)
    return Made(
        name="torch",
        version=version_of(job, tree),
        tree=Tree(
            url=_url(job),
            commit=tree.commit,
            digest=tree.digest,
            edits=tree.edits,
            submodules=tree.submodules,
            patches=tree.patches,
        ),
        epoch=_epoch(job, tree),
        compilers=tuple(tool(one.path, one.version, one.digest) for one in deps.compilers),
        cuda=deps.toolkit.version if deps.toolkit else "",
        packages=deps.toolkit.pins if deps.toolkit else (),
    )


def invocation(job: BuiltJob, deps: Deps, began: str) -> Invocation:
    """What was asked, and what it came to."""
    compiled = manifests.read(job.compiled, Compiled)
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
        "environment": manifests.read(job.env, Environment).set,
    }
    installed = requirements.installed(deps.python)
    asked = shown(plain(job.asked), folders)
    return Invocation("torch", asked, shown(plain(decided), folders), installed, began, now())


def version_of(job: BuiltJob, tree: SourceTree) -> str:
    """`2.6.0+cu130.sm120.g1a2b3c4`, with `.d` and six digits of the edits where the tree is
    dirty.
    """
    if job.local is None:
        return job.release
    if job.local_is_whole:
        return f"{job.release}+{job.local}"
    source = f"g{tree.commit[:7]}" if tree.commit else f"t{tree.digest[:7]}"
    dirty = f".d{sha256_text(tree.edits)[:6]}" if tree.edits else ""
    return f"{job.release}+{job.local}.{source}{dirty}"


def _url(job: BuiltJob) -> str:
    """Where the tree was cloned from; a folder of this machine is nobody else's."""
    source = job.asked.get("source")
    asked = source if isinstance(source, dict) else {}
    url = str(asked.get("git") or "")
    fetched = not asked.get("path") and not asked.get("tarball")
    return redact(url) if fetched and url and not is_local(url) else ""


def _epoch(job: BuiltJob, tree: SourceTree) -> int:
    """What the build takes for now."""
    asked = manifests.read(job.env, Environment).set.get("SOURCE_DATE_EPOCH", "")
    return int(asked) if asked.isdecimal() else max(tree.date, EARLIEST)
