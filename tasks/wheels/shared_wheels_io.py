"""Store the official torch wheel in the user's cache, so that it is downloaded and unpacked once.

Neither uv nor pip does this: pip keeps only what an index marks as cacheable, and uv unpacks a
wheel file once for each path (measured in docs/cache.md). uv also unpacks a file again after its
status change time (ctime) has changed, as each new hard link does. An entry therefore has the wheel
twice: a hard link for the wheelhouses, and a copy that is only installed from.
"""

import contextlib
import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path, PurePath

from tasks.core.errors import redact_secrets
from tasks.core.model import Artifact
from tasks.system import files, user_cache
from tasks.system.network import network_access, package_indexes

# Variables of pip with which another file may be chosen
_SOURCE_VARIABLES = ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX")
_INSTALL_FOLDER = "install"  # of the copy


def locate_shared_wheel(cache: PurePath, requirement: str, index: str) -> Path | None:
    """Return the folder of the entry for a requirement from an index.

    `requirement` names the Python version, too. `index` is "" for the default index. Returns None
    in offline mode and for an index in a local folder, whose wheels may change.
    """
    place = redact_secrets(index or package_indexes.find_default_index())
    if network_access.is_offline() or place.startswith("file:") or "://" not in place:
        return None
    sources = [redact_secrets(os.environ.get(name, "")) for name in _SOURCE_VARIABLES]
    key = " ".join((requirement, place, sysconfig.get_platform(), *sources))
    label = requirement.partition(" ")[0].replace("==", "-")
    return Path(cache, user_cache.WHEEL_STORE, user_cache.build_entry_name(label, key))


def copy_shared_wheel(entry: Path | None, landing: PurePath, sha256: str) -> Path | None:
    """Create the stored wheel in the new folder `landing`, as a hard link if possible.

    Returns its path, or None if no undamaged wheel is stored. `sha256` is required unless it is "".
    """
    if entry is None:
        return None
    try:
        with user_cache.open_entry(entry) as record:
            if record is None or sha256 not in ("", record.sha256):
                return None
            files.remove_owned(landing)
            wheel = files.create_owned_folder(landing) / record.subject
            files.link_or_copy(entry / record.subject, wheel)
        return wheel if files.read_artifact(wheel).sha256 == record.sha256 else None
    except user_cache.STORE_ERRORS:
        return None


@contextlib.contextmanager
def share_wheel(entry: Path | None, wheel: Path, artifact: Artifact) -> Iterator[Path]:
    """Store a wheel, and yield the path to install it from while no other run can remove it.

    The path is that of the stored wheel, or `wheel` itself if it cannot be stored.
    """
    if entry is None:
        yield wheel
        return
    stored = entry / _INSTALL_FOLDER / artifact.name

    def fill_entry(folder: Path) -> None:
        files.link_or_copy(wheel, folder / artifact.name)
        copy = folder / stored.relative_to(entry)
        copy.parent.mkdir()
        files.copy_file(wheel, copy)

    with user_cache.warn_if_not_stored(artifact.name):
        with user_cache.open_entry(entry) as record:
            is_stored = record is not None and _is_undamaged(stored, artifact)
        if not is_stored:
            user_cache.write_entry(entry, artifact.name, fill_entry, artifact.sha256)
    with user_cache.open_entry(entry) as record:
        yield stored if record and record.sha256 == artifact.sha256 else wheel


def _is_undamaged(stored: Path, artifact: Artifact) -> bool:
    with contextlib.suppress(OSError):
        return files.read_artifact(stored) == artifact
    return False
