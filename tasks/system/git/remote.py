"""What a ref of a repository stands for now."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.core.errors import CommandFailedError
from tasks.system import shell
from tasks.system.git.command import build_git_command, is_local_url
from tasks.system.network.mirrors import apply_mirror
from tasks.system.voice import print_line


def resolve_remote_commit(url: str, ref: str, mirrors: Mapping[str, str]) -> str:
    """The commit of a tag or branch, or HEAD; "" for what the repository has no name for, as a
    commit. Raises `CommandFailedError` where it does not answer.
    """
    asked = build_git_command(
        *("ls-remote", "--quiet", "--", url, ref, f"{ref}^{{}}"),
        what=f"ask {url} for {ref}",
        mirrors=mirrors,
        local=is_local_url(url),
    )
    lines = (line.split("\t") for line in shell.capture_output(asked).splitlines() if "\t" in line)
    found = {name: commit for commit, name in lines}
    tag = f"refs/tags/{ref}"
    names = (ref, f"{tag}^{{}}", tag, f"refs/heads/{ref}")
    return next((found[name] for name in names if name in found), "")


def report_newer_commit(url: str, ref: str, locked: str, mirrors: Mapping[str, str]) -> None:
    """Say that the ref has moved on from what torchyard.lock holds, where that is known without
    asking the network.
    """
    if not locked or locked.startswith(ref) or not is_local_url(apply_mirror(url, mirrors)):
        return
    try:
        now = resolve_remote_commit(url, ref, mirrors)
    except CommandFailedError:
        return  # the repository may be gone: what is locked is here perhaps
    if now not in ("", locked):
        print_line(f"torchyard.lock holds {ref} at {locked[:7]}; newer: doit lock --update")
