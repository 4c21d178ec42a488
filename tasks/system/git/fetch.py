"""Fetching what a ref needs: that commit alone, or everything where it cannot be had alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from tasks.core.errors import CommandFailedError, FetchError
from tasks.system import shell
from tasks.system.git.command import command, insist, is_local, no_answer
from tasks.system.git.state import ask

_COMMIT = re.compile(r"[0-9a-f]{7,40}")


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
    def asked(self) -> str:
        """What is asked for, in one line."""
        return f"{self.url} {self.ref} submodules={self.submodules}"

    def git(self, *args: str, what: str) -> None:
        """Run a git command in the clone."""
        local = is_local(self.url)
        shell.run(
            command(*args, what=what, at=self.tree, mirrors=self.mirrors, log=self.log, local=local)
        )

    def note(self, key: str, value: str) -> None:
        """Remember something in the clone's configuration."""
        self.git("config", f"torchyard.{key}", value, what="note the checkout")

    def noted(self, key: str) -> str:
        """What was remembered, "" where nothing was."""
        return ask(self.tree, "config", "--default", "", "--get", f"torchyard.{key}").strip()

    def commit(self, name: str) -> str:
        """The commit that a name stands for here, "" where it stands for none."""
        try:
            found = ask(self.tree, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        except CommandFailedError:
            return ""
        return found.strip()


def fetch(clone: Clone) -> str:
    """Fetch the ref alone, or everything where the server or the kind of ref does not allow it."""
    if clone.ref.startswith("-"):
        raise FetchError(f'"{clone.ref}" is not a ref')
    whole = _COMMIT.fullmatch(clone.ref)
    if whole and clone.commit(clone.ref).startswith(clone.ref):
        return clone.commit(clone.ref)
    try:
        insist(clone.url, lambda: _fetch_ref(clone))
        return clone.commit("FETCH_HEAD")
    except CommandFailedError as error:
        if "remote ref" in error.said and not whole:
            raise _no_such_ref(clone, error.where) from error
    return _fetch_all(clone)


def _fetch_ref(clone: Clone) -> None:
    # a depth given to a clone that has its history would cut that history off
    depth = () if clone.commit("HEAD") and not _shallow(clone) else ("--depth", "1")
    argv = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", *depth, "--", "origin")
    clone.git(*argv, clone.ref, what=f"fetch {clone.ref}")


def _fetch_all(clone: Clone) -> str:
    unshallow = ("--unshallow",) if _shallow(clone) else ()
    argv = ("fetch", "--quiet", "--tags", "--no-recurse-submodules", *unshallow, "--", "origin")
    try:
        insist(clone.url, lambda: clone.git(*argv, what=f"fetch {clone.url}"))
    except CommandFailedError as error:
        raise no_answer(clone.url, error) from error
    found = clone.commit(f"origin/{clone.ref}") or clone.commit(clone.ref)
    if not found:
        raise _no_such_ref(clone, str(clone.log or ""))
    return found


def _shallow(clone: Clone) -> bool:
    return ask(clone.tree, "rev-parse", "--is-shallow-repository").strip() == "true"


def _no_such_ref(clone: Clone, where: str) -> FetchError:
    return FetchError(
        f'{clone.url} has no ref "{clone.ref}"',
        where=where,
        todo=f"correct ref in the settings; what there is tells: git ls-remote -- {clone.url}",
    )
