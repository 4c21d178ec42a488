"""Store finished clones in the user's cache, and create clones of other projects from them.

Only clones of network URLs are stored, and none is used or stored in offline mode. Secrets are
not stored: an entry has no remote, and omits submodules whose git configuration has secrets.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath, PurePosixPath
from urllib.parse import urlsplit

from tasks.core.errors import CommandFailedError, FetchError, redact_secrets
from tasks.knowledge.mirrors import apply_mirror
from tasks.system import files, user_cache
from tasks.system.git import checkout_state, clones, git_command
from tasks.system.network import network_access
from tasks.system.output import print_line, print_warning

_USER_NAME = re.compile(r"(?<=ssh://)[^/:@\s]+@")  # git@, which is no secret
_SECRET_SECTION = re.compile(r"^\s*\[\s*(http|credential|url|include)", re.MULTILINE | re.I)


def fetch_clone(
    clone: clones.Clone, cache: PurePath | None, others: Iterable[PurePath] = ()
) -> None:
    """Check out a clone like `clones.clone_at_ref`, with the git objects that are already here.

    A new clone gets the objects of the first finished clone in `others`, else those of another
    project in the folder `cache`. The finished clone is stored there. A damaged entry is removed,
    and its content is fetched instead.
    """
    if clones.is_at_ref(clone.tree, clone.url, clone.ref, clone.submodules):
        return
    entry = _locate_entry(clone, cache)
    is_shared = False
    if reference := clones.copy_reference_clone(clone.tree, clone.url, others):
        print_line(f"reused the git objects of {reference}: git fetches only the missing ones")
    elif entry and (is_shared := _copy_entry(entry, clone.tree)):
        print_line(f"reused the git objects of {entry}: git fetches only the missing ones")
    try:
        _check_out(clone)
    except (FetchError, CommandFailedError):
        if entry is None or not is_shared or not _is_damaged(clone.tree):
            raise
        print_warning(
            f"the stored clone {entry} is damaged: torchyard removes it and fetches again"
        )
        _remove_entry(entry)
        files.remove_owned(clone.tree)
        _check_out(clone)
    if entry:
        _store_clone(entry, clone)


def _check_out(clone: clones.Clone) -> None:
    clones.clone_at_ref(
        clone.url, clone.ref, clone.tree, clone.submodules, clone.mirrors, clone.log
    )


def _locate_entry(clone: clones.Clone, cache: PurePath | None) -> Path | None:
    """Return the folder of the entry for a clone, or None if the clone is not to be shared."""
    is_local = git_command.is_local_url(apply_mirror(clone.url, clone.mirrors))
    if cache is None or is_local or network_access.is_offline():
        return None
    url = redact_secrets(clone.url)
    path = urlsplit(url).path or url
    name = PurePosixPath(path.rpartition(":")[2]).name.removesuffix(".git")
    return Path(cache, user_cache.GIT_STORE, user_cache.build_entry_name(name or "clone", url))


def _copy_entry(entry: Path, tree: Path) -> bool:
    """Create the repository `tree` from an entry. Return False if either is not suitable."""
    if tree.exists():
        return False
    with user_cache.open_entry(entry) as record:
        return record is not None and clones.copy_repository(tree, entry)


def _is_damaged(tree: Path) -> bool:
    """Return True if an object of the repository or of a submodule is damaged or missing."""
    argv = ("--work-tree=.", "fsck", "--full", "--no-dangling", "--no-progress")
    try:
        for folder in (tree / ".git", *_list_module_folders(tree / ".git")):
            checkout_state.capture_git_output(tree, f"--git-dir={folder}", *argv)
    except CommandFailedError as error:
        return bool(error.output.strip())  # a killed fsck prints nothing
    return False


def _remove_entry(entry: Path) -> None:
    with contextlib.suppress(*user_cache.STORE_ERRORS):
        user_cache.remove_entry(user_cache.CacheEntry(entry, "", 0.0))


def _store_clone(entry: Path, clone: clones.Clone) -> None:
    """Store a finished clone, unless the entry has its commit. A failure is only a warning."""
    if (clone.tree / ".git" / "objects" / "info" / "alternates").exists():
        return  # its objects are elsewhere
    with user_cache.warn_if_not_stored("the clone"):
        if _has_commit(entry, clone):
            return

        def fill_entry(folder: Path) -> None:
            clones.copy_repository_files(folder, clone.tree / ".git")
            head = ("update-ref", "--no-deref", "HEAD", "refs/torchyard/seed")
            checkout_state.capture_git_output(folder, *head, what="store the clone")
            for module in _list_module_folders(folder / ".git"):
                if module.exists() and _has_secrets(module):
                    files.remove_owned(module)

        user_cache.write_entry(entry, redact_secrets(clone.url), fill_entry)


def _has_commit(entry: Path, clone: clones.Clone) -> bool:
    """Return True if a complete entry has the commit of the clone, and submodules if it has."""
    commit = clone.resolve_commit("HEAD")
    with user_cache.open_entry(entry) as record:
        if record is None or not commit:
            return False
        if (clone.tree / ".git" / "modules").exists() > (entry / ".git" / "modules").exists():
            return False
        try:
            checkout_state.capture_git_output(entry, "cat-file", "-e", f"{commit}^{{commit}}")
        except CommandFailedError:
            return False
        return True


def _list_module_folders(git_folder: Path) -> Iterator[Path]:
    """Yield the git folders of the submodules, outer ones before those inside them."""
    modules = git_folder / "modules"
    yield from sorted(path.parent for path in modules.rglob("HEAD") if _is_git_folder(path.parent))


def _is_git_folder(folder: Path) -> bool:
    return (folder / "config").is_file() and (folder / "objects").is_dir()


def _has_secrets(git_folder: Path) -> bool:
    """Return True if a git configuration has a login, a token, or a section that may hold one."""
    content = (git_folder / "config").read_text(encoding="utf-8", errors="replace")
    text = _USER_NAME.sub("", content)
    return redact_secrets(text) != text or bool(_SECRET_SECTION.search(text))
