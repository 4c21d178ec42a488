"""A new clone begins with what another clone of the same URL on this machine holds, so that several
builds of one source fetch it once.

Objects become hard links: git never writes into one that is there, and either clone can go without
the other.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path, PurePath

from tasks.core.errors import CommandFailedError
from tasks.system import files, shell
from tasks.system.git.command import command
from tasks.system.git.state import ask, is_checkout

# A submodule's: its index and its logs are those of the other work tree
_LEFT = ("index", "logs", "hooks", "*.lock", "FETCH_HEAD", "ORIG_HEAD", "tmp_*")


def seed(dest: PurePath, url: str, others: Iterable[PurePath]) -> str:
    """Make `dest` a repository, without a checkout, that holds the objects of the first of `others`
    that is a finished clone of `url`, its submodules included. Which that was; "" where there is
    none, or `dest` is there already.
    """
    if Path(dest).exists():
        return ""
    near = next((Path(other) for other in others if _is_finished(other, url)), None)
    if near is None:
        return ""
    landing = Path(dest).with_name(f".{Path(dest).name}.seed")
    files.own(landing.parent)
    files.remove_owned(landing)  # of a run that was killed
    landing.mkdir()
    try:
        _fill(landing, near / ".git")
        files.move(landing, Path(dest))
    except (OSError, shutil.Error, CommandFailedError):  # it can all be fetched
        files.remove_owned(landing)
        return ""
    return str(near)


def _is_finished(other: PurePath, url: str) -> bool:
    return (
        (Path(other) / ".git").is_dir()
        and is_checkout(other)
        and _configured(other, "remote.origin.url") == url
        and _configured(other, "torchyard.checkout") != ""
    )


def _configured(tree: PurePath, key: str) -> str:
    return ask(tree, "config", "--default", "", "--get", key).strip()


def _fill(landing: Path, near: Path) -> None:
    """The commit that is checked out there goes into a ref: what it needs is not fetched again."""
    shell.run(command("init", "--quiet", what="make the clone", at=landing))
    for name in ("objects", "modules"):
        if (near / name).is_dir():
            shutil.copytree(
                near / name,
                landing / ".git" / name,
                copy_function=_link,
                ignore=shutil.ignore_patterns(*_LEFT),
                dirs_exist_ok=True,
            )
    if (near / "shallow").is_file():
        shutil.copyfile(near / "shallow", landing / ".git" / "shallow")
    head = ask(near.parent, "rev-parse", "HEAD").strip()
    shell.run(command("update-ref", "refs/torchyard/seed", head, what="make the clone", at=landing))


def _link(source: str, target: str) -> None:
    """Only what git never writes into."""
    if "objects" in Path(source).parts:
        try:
            Path(target).hardlink_to(source)
        except OSError:  # another disk, or one that knows no links
            shutil.copy2(source, target)
    else:
        shutil.copy2(source, target)
