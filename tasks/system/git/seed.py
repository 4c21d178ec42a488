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
from tasks.system.git.command import build_git_command
from tasks.system.git.state import capture_git_output, is_checkout

# A submodule's: its index and its logs are those of the other work tree
_EXCLUDED_FILES = ("index", "logs", "hooks", "*.lock", "FETCH_HEAD", "ORIG_HEAD", "tmp_*")


def copy_reference_clone(dest: PurePath, url: str, others: Iterable[PurePath]) -> str:
    """Make `dest` a repository, without a checkout, that holds the objects of the first of `others`
    that is a finished clone of `url`, its submodules included. Which that was; "" where there is
    none, or `dest` is there already.
    """
    if Path(dest).exists():
        return ""
    near = next((Path(other) for other in others if _is_finished_clone(other, url)), None)
    if near is None:
        return ""
    landing = Path(dest).with_name(f".{Path(dest).name}.seed")
    files.create_owned_folder(landing.parent)
    files.remove_owned(landing)  # of a run that was killed
    landing.mkdir()
    try:
        _copy_repository(landing, near / ".git")
        files.replace_path(landing, Path(dest))
    except (OSError, shutil.Error, CommandFailedError):  # it can all be fetched
        files.remove_owned(landing)
        return ""
    return str(near)


def _is_finished_clone(other: PurePath, url: str) -> bool:
    return (
        (Path(other) / ".git").is_dir()
        and is_checkout(other)
        and _read_git_config(other, "remote.origin.url") == url
        and _read_git_config(other, "torchyard.checkout") != ""
    )


def _read_git_config(tree: PurePath, key: str) -> str:
    return capture_git_output(tree, "config", "--default", "", "--get", key).strip()


def _copy_repository(landing: Path, near: Path) -> None:
    """The commit that is checked out there goes into a ref: what it needs is not fetched again."""
    shell.run_command(build_git_command("init", "--quiet", what="make the clone", at=landing))
    for name in ("objects", "modules"):
        if (near / name).is_dir():
            shutil.copytree(
                near / name,
                landing / ".git" / name,
                copy_function=_link_or_copy_object,
                ignore=shutil.ignore_patterns(*_EXCLUDED_FILES),
                dirs_exist_ok=True,
            )
    if (near / "shallow").is_file():
        shutil.copyfile(near / "shallow", landing / ".git" / "shallow")
    head = capture_git_output(near.parent, "rev-parse", "HEAD").strip()
    shell.run_command(
        build_git_command(
            "update-ref", "refs/torchyard/seed", head, what="make the clone", at=landing
        )
    )


def _link_or_copy_object(source: str, target: str) -> None:
    """Only what git never writes into."""
    if "objects" in Path(source).parts:
        try:
            Path(target).hardlink_to(source)
        except OSError:  # another disk, or one that knows no links
            shutil.copy2(source, target)
    else:
        shutil.copy2(source, target)
