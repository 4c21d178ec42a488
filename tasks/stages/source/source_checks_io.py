"""Check the source settings, recognize a PyTorch tree, and read the release of the tree."""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from msgspec import structs
from packaging.version import Version

from tasks.core.errors import SettingsError
from tasks.settings.loaded_settings import LoadedSettings
from tasks.settings.schema import Settings

VERSION_FILE = "version.txt"
TREE_DESCRIPTION = "the folder that PyTorch, or a fork of it, was cloned or unpacked into"

# Files in every PyTorch tree from 2.0 to 2.15 and in every fork; torchvision, torchaudio and
# executorch have only some of these files
_REQUIRED_FILES = (VERSION_FILE, "CMakeLists.txt", "torch/__init__.py", "c10")


def list_missing_files(tree: Path) -> tuple[str, ...]:
    """Return the required files of a PyTorch tree that are missing in the folder `tree`."""
    return tuple(name for name in _REQUIRED_FILES if not (tree / name).exists())


def read_tree_release(tree: Path) -> Version | None:
    """Return the version in version.txt, such as `2.9.0a0+fork3`, or None if it is not valid."""
    try:
        return Version((tree / VERSION_FILE).read_text(encoding="utf-8-sig").strip())
    except (OSError, ValueError):
        return None


def find_other_release(tree: Path, release: str) -> str:
    """Return the version of the tree if it does not match `release`, else "".

    The tree of v2.6.0 has the version 2.6.0a0. That of a patch release may have the version of the
    minor release: v2.5.1 has 2.5.0a0 (pytorch#151425).
    """
    tree_version, numbers = read_tree_release(tree), re.match(r"\d+(?:\.\d+)*", release)
    if tree_version is None or numbers is None:
        return ""
    requested, declared = Version(numbers[0]), Version(tree_version.base_version)
    is_same_minor = requested.release[:2] == declared.release[:2]
    not_raised = tree_version.pre and tree_version.micro == 0 and is_same_minor
    return "" if requested == declared or not_raised else tree_version.public


_URL_SCHEMES = ("https://", "http://", "file://")
_ARCHIVE_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2", ".zip")


def check_source_settings(settings: Settings, root: Path) -> None:
    """Raise `SettingsError` for the first invalid source setting. Paths are relative to `root`."""
    source = settings.source
    if settings.torch.strategy in {"prebuilt", "existing"}:
        return
    if source.path:
        _check_source_path(root / source.path)
    elif source.tarball:
        _check_tarball(source.tarball, source.sha256, root)
    elif settings.torch.strategy == "source" and not source.git:
        hint = "set source.git, source.path or source.tarball"
        raise SettingsError("the source tree to build is not set", location="source", hint=hint)
    if missing := next((one for one in source.patches if not (root / one).is_file()), None):
        message, key = f"this patch does not exist: {root / missing}", "source.patches"
        raise SettingsError(message, location=key, hint=f"correct the path in {key}")


def _check_source_path(path: Path) -> None:
    if not (missing := list_missing_files(path)):
        return
    message, suggestion = f"{path} is not a folder", TREE_DESCRIPTION
    if path.is_dir():
        message = f"{path} is not the source tree of PyTorch: it lacks {', '.join(missing)}"
        folders = (path / "pytorch", *path.parents)
        trees = (str(one) for one in folders if not list_missing_files(one))
        suggestion = next(trees, TREE_DESCRIPTION)
    raise SettingsError(message, location="source.path", hint=f"set source.path to {suggestion}")


def _check_tarball(tarball: str, sha256: str | None, root: Path) -> None:
    key, is_url = "source.tarball", "://" in tarball
    if not tarball.lower().endswith(_ARCHIVE_SUFFIXES):
        message = f'torchyard cannot unpack "{tarball}": its suffix is unknown'
        hint = f"use an archive with one of these suffixes: {' '.join(_ARCHIVE_SUFFIXES)}"
    elif is_url and not tarball.startswith(_URL_SCHEMES):
        message = f'torchyard cannot fetch "{tarball}"'
        hint = "set source.tarball to an https URL or a path"
    elif is_url and not sha256:
        message, key = "an archive from a URL requires source.sha256", "source.sha256"
        hint = "copy the sha256 from the page of the release"
    elif not is_url and not (root / tarball).is_file():
        message = f"this archive does not exist: {root / tarball}"
        hint = "correct the path in source.tarball"
    else:
        return
    raise SettingsError(message, location=key, hint=hint)


_VERSION_KEY = "torch.version"


def apply_tree_version(loaded: LoadedSettings, root: Path) -> LoadedSettings:
    """Return the settings with torch.version from the local tree, unless the user set a version."""
    settings, tree = loaded.settings, _find_local_tree(loaded.settings, root)
    if not tree or settings.torch.version != "auto":
        return loaded
    file, text = tree / VERSION_FILE, ""
    tree_version = read_tree_release(tree)
    if tree_version is None:
        with contextlib.suppress(OSError):
            text = file.read_text(encoding="utf-8", errors="replace")
        message = "this file does not contain the version of the tree"
        hint = "set torch.version to the release that this tree is based on"
        if "<<<<<<< " in text:
            message = f"{VERSION_FILE} has merge conflicts"
            hint = f'finish or abort the merge: git -C "{tree}" status shows how'
        raise SettingsError(message, location=str(file), hint=hint)
    torch = structs.replace(settings.torch, version=tree_version.public)
    origin = {**loaded.origin, _VERSION_KEY: str(file)}
    return replace(loaded, settings=structs.replace(settings, torch=torch), origin=origin)


def list_release_warnings(loaded: LoadedSettings, root: Path) -> Iterator[str]:
    """Yield a warning if torch.version differs from the release of the local tree."""
    tree, version = _find_local_tree(loaded.settings, root), loaded.settings.torch.version
    if tree and (tree_version := find_other_release(tree, version)):
        yield (
            f"{tree / VERSION_FILE} says {tree_version}, but {_VERSION_KEY} is {version} "
            f"({loaded.origin.get(_VERSION_KEY, '')}): the wheel gets the version "
            f"{version}. Remove {_VERSION_KEY} to use the version of the tree"
        )


def _find_local_tree(settings: Settings, root: Path) -> Path | None:
    is_built = settings.torch.strategy in {"auto", "source"}
    return root / settings.source.path if settings.source.path and is_built else None
