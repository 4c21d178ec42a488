"""Packages into the folder of a bundle: those that are here by copying, the others by pip, which
asks the index and takes the locked files alone. What arrived before a connection broke stays.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from tasks.core.errors import BadArtifactError, redact_secrets
from tasks.core.model import LockedPackages
from tasks.system import files, git, shell
from tasks.system.git.checkout_state import capture_git_output
from tasks.system.git.git_command import build_git_command
from tasks.system.network import index_client, package_indexes
from tasks.system.package_installer import format_hashed_requirements


@dataclass(frozen=True)
class PackageCollector:
    """The folder of wheels and sdists, filled for the interpreter `python`."""

    folder: Path
    python: str
    scratch: PurePath
    log: PurePath

    def copy_file(self, file: Path, sha256: str) -> None:
        """A file that is here. `BadArtifactError` where it is not that any more."""
        target = self.folder / file.name
        if target.is_file() and files.read_artifact(target).sha256 == sha256:
            return
        if not file.is_file() or files.read_artifact(file).sha256 != sha256:
            raise BadArtifactError(
                f"{file.name} is not here any more as it was built with",
                location=str(file),
                hint="doit clean, doit build, and the same command again",
            )
        arriving = target.with_name(f"{target.name}.part")
        shutil.copyfile(file, arriving)
        files.replace_path(arriving, target)

    def download_packages(self, locked: LockedPackages, index: str = "") -> None:
        """Those of an index; pip fetches no file that is here."""
        if not locked:
            return
        listed = self.scratch / "bundle.txt"
        files.write_atomic(listed, format_hashed_requirements(locked))
        argv = (self.python, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps")
        options = ("--require-hashes", "--progress-bar", "off", "-d", str(self.folder))
        command = (
            *argv,
            *options,
            *package_indexes.build_extra_index_options(index),
            "-r",
            str(listed),
        )
        index_client.run_index_client(command, "fetch the packages", self.log)

    def remove_unlisted(self, digests: set[str]) -> None:
        """What an earlier attempt left goes."""
        for path in self.folder.iterdir():
            if files.read_artifact(path).sha256 not in digests:
                path.unlink()


_UNNEEDED_FILES = ("hooks", "info", "description", "FETCH_HEAD", "branches", "logs", "ORIG_HEAD")


@dataclass(frozen=True)
class BundledCommit:
    """A commit that is checked out in `tree`, a clone of `url` or a submodule of one. `ref` is by
    what it was asked for, "" by the commit.
    """

    url: str
    tree: Path
    commit: str
    ref: str = ""


def list_commits(url: str, tree: Path, ref: str) -> Iterator[BundledCommit]:
    """The commit of a clone, and those of its submodules."""
    state = git.read_git_state(tree)
    yield BundledCommit(url, tree, state.commit, ref)
    for path, commit in state.submodules.items():
        inner = tree / path
        origin = capture_git_output(inner, "config", "--get", "remote.origin.url").strip()
        yield BundledCommit(origin, inner, commit)


def build_repository_name(url: str) -> str:
    """A folder's name: what the repository is called, and a digest of its URL."""
    called = re.sub(r"[^A-Za-z0-9.-]+", "-", url.rstrip("/").rpartition("/")[2]).strip("-.")
    digest = hashlib.sha256(redact_secrets(url).encode()).hexdigest()[:10]
    return f"{called.removesuffix('.git') or 'repository'}-{digest}.git"


def store_commit(one: BundledCommit, bare: Path, log: PurePath) -> None:
    """Have the commit in the repository `bare`, which is made where it is missing."""

    def run_git(*argv: str) -> None:
        shell.run_command(
            build_git_command(
                *argv, what=f"bundle {redact_secrets(one.url)}", at=bare, log=log, local=True
            )
        )

    bare.mkdir(parents=True, exist_ok=True)
    run_git("init", "--quiet", "--bare")
    run_git("config", "uploadpack.allowAnySHA1InWant", "true")
    allowed = ("-c", "fetch.unpackLimit=1", "-c", "uploadpack.allowAnySHA1InWant=true")
    source = one.tree.absolute().as_uri()
    run_git(*allowed, "fetch", "--quiet", "--no-tags", "--depth", "1", "--", source, one.commit)
    run_git("update-ref", f"refs/heads/torchyard/{one.commit}", one.commit)
    if one.ref and one.ref != "HEAD" and not one.commit.startswith(one.ref):
        for kind in ("heads", "tags"):  # which of the two it was is not known here
            run_git("update-ref", f"refs/{kind}/{one.ref}", one.commit)
    run_git("symbolic-ref", "HEAD", f"refs/heads/torchyard/{one.commit}")
    for name in _UNNEEDED_FILES:
        files.remove_owned(bare / name)
