"""Store downloaded source archives in the user's cache, so that other projects need no download."""

import contextlib
from pathlib import Path, PurePath
from urllib.parse import urlsplit

from tasks.system import files, user_cache
from tasks.system.network import network_access
from tasks.system.network.download import download_file
from tasks.system.output import print_line


def download_shared_file(
    source: str, dest: PurePath, sha256: str, log: PurePath | None, cache: PurePath | None
) -> Path:
    """Download a file like `download_file`, unless the folder `cache` has it.

    A new download is stored there. Local files are neither looked up nor stored.
    """
    target, is_remote = Path(dest), urlsplit(source).scheme in ("http", "https")
    if cache is None or not is_remote or network_access.is_offline():
        return download_file(source, target, sha256, log)
    name = user_cache.build_entry_name(target.name, sha256)
    entry = Path(cache, user_cache.ARCHIVE_STORE, name)
    with contextlib.suppress(*user_cache.STORE_ERRORS):
        if not target.exists() and _link_stored_file(entry, target):
            print_line(f"{target.name} was downloaded for another project already")
    download_file(source, target, sha256, log)  # does nothing if the file has this sha256
    with contextlib.suppress(OSError):
        if (entry / target.name).samefile(target):
            return target
    with user_cache.warn_if_not_stored(target.name):
        user_cache.write_entry(
            entry,
            target.name,
            lambda folder: files.link_or_copy(target, folder / target.name),
            sha256,
        )
    return target


def _link_stored_file(entry: Path, target: Path) -> bool:
    """Create `target` as a link to the stored file, or a copy; return False if none is stored."""
    with user_cache.open_entry(entry) as record:
        if record is None:
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".{target.name}.shared")
        partial.unlink(missing_ok=True)
        files.link_or_copy(entry / record.subject, partial)
        files.replace_path(partial, target)
        return True
