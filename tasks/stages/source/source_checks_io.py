"""Check the source settings, and detect if a folder is a PyTorch tree and of which release."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from msgspec import structs
from packaging.version import Version

from tasks.core.errors import SettingsError
from tasks.settings.loaded_settings import DEFAULTS_PREFIX, LoadedSettings
from tasks.settings.schema import Settings, Source

VERSION_FILE = "version.txt"
TREE_DESCRIPTION = "the folder that PyTorch, or a fork of it, was cloned or unpacked into"

# In every tree of 2.0 to 2.15 and its forks; vision, audio and executorch have only some of them
_REQUIRED_FILES = (VERSION_FILE, "CMakeLists.txt", "torch/__init__.py", "c10")


def list_missing_files(tree: Path) -> tuple[str, ...]:
    """Return the files that every PyTorch tree has and this folder does not."""
    return tuple(name for name in _REQUIRED_FILES if not (tree / name).exists())


def read_tree_release(tree: Path) -> Version | None:
    """Return the version in version.txt, such as `2.9.0a0+fork3`, or None if it has none."""
    try:
        return Version((tree / VERSION_FILE).read_text(encoding="utf-8-sig").strip())
    except (OSError, ValueError):
        return None


def find_other_release(tree: Path, release: str) -> str:
    """Return the version of the tree if it is of another release; "" if it is the same.

    A pre-release counts as its release: the tree of the tag v2.6.0 has 2.6.0a0. A patch release may
    have the version of the first one, because the file was not updated: v2.5.1 has 2.5.0a0
    (pytorch#151425).
    """
    tree_version, numbers = read_tree_release(tree), re.match(r"\d+(?:\.\d+)*", release)
    if tree_version is None or numbers is None:
        return ""
    requested, declared = Version(numbers[0]), Version(tree_version.base_version)
    not_raised = (
        tree_version.pre
        and tree_version.micro == 0
        and requested.release[:2] == declared.release[:2]
    )
    return "" if requested == declared or not_raised else tree_version.public


_URL_SCHEMES = ("https://", "http://", "file://")
_ARCHIVE_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2", ".zip")


def check_source_settings(settings: Settings, root: Path) -> None:
    """Raise `SettingsError`, with the key, for source settings that cannot work.

    Relative paths start at `root`. For a torch that is not built, these settings are not used, and
    the run reports that.
    """
    source = settings.source
    if settings.torch.strategy in {"prebuilt", "existing"}:
        return
    if source.path:
        _check_source_path(root / source.path)
    elif source.tarball:
        _check_tarball(source, root)
    elif settings.torch.strategy == "source" and not source.git:
        raise SettingsError(
            "there is no source to build from",
            location="source",
            hint="set one of git, path and tarball",
        )
    for patch in source.patches:
        if not (root / patch).is_file():
            raise SettingsError(
                f'there is no patch "{patch}"',
                location="source.patches",
                hint=f"looked at {root / patch}",
            )


def _check_source_path(path: Path) -> None:
    if not path.is_dir():
        raise SettingsError(
            f"{path} is not a folder",
            location="source.path",
            hint=f"give {TREE_DESCRIPTION}",
        )
    if missing := list_missing_files(path):
        suggestion = next(
            (
                folder
                for folder in (path / "pytorch", *path.parents)
                if not list_missing_files(folder)
            ),
            None,
        )
        raise SettingsError(
            f"{path} is not the source tree of PyTorch: it lacks {', '.join(missing)}",
            location="source.path",
            hint=f"did you mean {suggestion}?" if suggestion else f"give {TREE_DESCRIPTION}",
        )


def _check_tarball(source: Source, root: Path) -> None:
    tarball = source.tarball or ""
    if not tarball.lower().endswith(_ARCHIVE_SUFFIXES):
        raise SettingsError(
            f'"{tarball}" is no archive that can be unpacked',
            location="source.tarball",
            hint=f"give one of {' '.join(_ARCHIVE_SUFFIXES)}",
        )
    if "://" in tarball:
        _check_url(tarball, source.sha256)
    elif not (root / tarball).is_file():
        raise SettingsError(
            f'there is no archive "{tarball}"',
            location="source.tarball",
            hint=f"looked at {root / tarball}",
        )


def _check_url(url: str, sha256: str | None) -> None:
    if not url.startswith(_URL_SCHEMES):
        raise SettingsError(
            f'"{url}" cannot be fetched',
            location="source.tarball",
            hint="give an https URL or a path",
        )
    if not sha256:
        raise SettingsError(
            "an archive from a URL needs its sha256",
            location="source.sha256",
            hint="copy it from the page of the release",
        )


_VERSION_KEY = "torch.version"


def apply_tree_version(loaded: LoadedSettings, root: Path) -> LoadedSettings:
    """Return the settings with the version of a local tree as default of torch.version.

    Raises `SettingsError` if the tree has no version.
    """
    settings = loaded.settings
    if not _has_local_tree(settings) or not loaded.origin.get(_VERSION_KEY, "").startswith(
        DEFAULTS_PREFIX
    ):
        return loaded
    tree = _resolve_local_tree(settings, root)
    tree_version = read_tree_release(tree)
    if tree_version is None and "<<<<<<< " in _read_text_lenient(tree / VERSION_FILE):
        raise SettingsError(
            f"{VERSION_FILE} has merge conflicts",
            location=str(tree / VERSION_FILE),
            hint=f'finish or abort the merge: git -C "{tree}" status shows how',
        )
    if tree_version is None:
        raise SettingsError(
            "there is no version in it",
            location=str(tree / VERSION_FILE),
            hint="set torch.version: the release that this tree is of, or was forked from",
        )
    torch = structs.replace(settings.torch, version=tree_version.public)
    return replace(
        loaded,
        settings=structs.replace(settings, torch=torch),
        origin={**loaded.origin, _VERSION_KEY: str(tree / VERSION_FILE)},
    )


def list_release_warnings(loaded: LoadedSettings, root: Path) -> Iterator[str]:
    """Yield a warning if torch.version is another release than that of the local tree."""
    settings = loaded.settings
    if not _has_local_tree(settings):
        return
    tree = _resolve_local_tree(settings, root)
    if tree_version := find_other_release(tree, settings.torch.version):
        yield (
            f"{tree} is {tree_version} by its {VERSION_FILE}, and {_VERSION_KEY} says "
            f"{settings.torch.version} "
            f"({loaded.origin.get(_VERSION_KEY, '')}): facts are those of that release, and "
            f"the wheel is called so. Take {_VERSION_KEY} out, and the tree decides"
        )


def _read_text_lenient(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _has_local_tree(settings: Settings) -> bool:
    return bool(settings.source.path) and settings.torch.strategy in {"auto", "source"}


def _resolve_local_tree(settings: Settings, root: Path) -> Path:
    return root / (settings.source.path or "")
