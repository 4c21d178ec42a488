"""Fetching what a ref needs: that commit alone, or everything where it cannot be had alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from tasks.core.errors import CommandFailedError, FetchError
from tasks.system import shell
from tasks.system.git.command import (
    build_fetch_error,
    build_git_command,
    is_local_url,
    retry_git_action,
)
from tasks.system.git.state import capture_git_output

_COMMIT_HASH = re.compile(r"[0-9a-f]{7,40}")


@dataclass(frozen=True)
class Clone:
    """A clone of ours: where it is, of what, and at which ref it is wanted."""

    tree: Path
    url: str
    ref: str
    submodules: bool
    log: PurePath | None
    mirrors: Mapping[str, str] = field(default_factory=dict)

    @property
    def request_line(self) -> str:
        """What is asked for, in one line."""
        return f"{self.url} {self.ref} submodules={self.submodules}"

    def run_git(self, *args: str, what: str) -> None:
        """Run a git command in the clone."""
        local = is_local_url(self.url)
        shell.run_command(
            build_git_command(
                *args, what=what, at=self.tree, mirrors=self.mirrors, log=self.log, local=local
            )
        )

    def write_config(self, key: str, value: str) -> None:
        """Remember something in the clone's configuration."""
        self.run_git("config", f"torchyard.{key}", value, what="note the checkout")

    def read_config(self, key: str) -> str:
        """What was remembered, "" where nothing was."""
        return capture_git_output(
            self.tree, "config", "--default", "", "--get", f"torchyard.{key}"
        ).strip()

    def resolve_commit(self, name: str) -> str:
        """The commit that a name stands for here, "" where it stands for none."""
        try:
            found = capture_git_output(
                self.tree, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"
            )
        except CommandFailedError:
            return ""
        return found.strip()


def fetch_ref(clone: Clone) -> str:
    """Fetch the ref alone, or everything where the server or the kind of ref does not allow it."""
    if clone.ref.startswith("-"):
        raise FetchError(f'"{clone.ref}" is not a ref')
    whole = _COMMIT_HASH.fullmatch(clone.ref)
    if whole and clone.resolve_commit(clone.ref).startswith(clone.ref):
        return clone.resolve_commit(clone.ref)
    try:
        retry_git_action(clone.url, lambda: _fetch_single_ref(clone))
        return clone.resolve_commit("FETCH_HEAD")
    except CommandFailedError as error:
        if "remote ref" in error.output and not whole:
            raise _build_missing_ref_error(clone, error.location) from error
    return _fetch_all_refs(clone)


def _fetch_single_ref(clone: Clone) -> None:
    # a depth given to a clone that has its history would cut that history off
    depth = () if clone.resolve_commit("HEAD") and not _is_shallow(clone) else ("--depth", "1")
    argv = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", *depth, "--", "origin")
    clone.run_git(*argv, clone.ref, what=f"fetch {clone.ref}")


def _fetch_all_refs(clone: Clone) -> str:
    unshallow = ("--unshallow",) if _is_shallow(clone) else ()
    argv = ("fetch", "--quiet", "--tags", "--no-recurse-submodules", *unshallow, "--", "origin")
    try:
        retry_git_action(clone.url, lambda: clone.run_git(*argv, what=f"fetch {clone.url}"))
    except CommandFailedError as error:
        raise build_fetch_error(clone.url, error) from error
    found = clone.resolve_commit(f"origin/{clone.ref}") or clone.resolve_commit(clone.ref)
    if not found:
        raise _build_missing_ref_error(clone, str(clone.log or ""))
    return found


def _is_shallow(clone: Clone) -> bool:
    return capture_git_output(clone.tree, "rev-parse", "--is-shallow-repository").strip() == "true"


def _build_missing_ref_error(clone: Clone, where: str) -> FetchError:
    return FetchError(
        f'{clone.url} has no ref "{clone.ref}"',
        location=where,
        hint=f"correct ref in the settings; what there is tells: git ls-remote -- {clone.url}",
    )
