"""What can be seen of a bad source before anything runs: offline, from settings and files."""

from __future__ import annotations

from pathlib import Path

from tasks.core.errors import SettingsError
from tasks.settings.schema import Settings, Source
from tasks.stages.source.shape import TREE_DESCRIPTION, list_missing_files

_URL_SCHEMES = ("https://", "http://", "file://")
_ARCHIVE_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2", ".zip")


def check_source_settings(settings: Settings, root: Path) -> None:
    """Raise a `SettingsError` with the key of what cannot be meant; paths start at `root`. Of a
    torch that is not built nothing reads them, which a run says.
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
    if lacks := list_missing_files(path):
        near = next(
            (one for one in (path / "pytorch", *path.parents) if not list_missing_files(one)), None
        )
        raise SettingsError(
            f"{path} is not the source tree of PyTorch: it lacks {', '.join(lacks)}",
            location="source.path",
            hint=f"did you mean {near}?" if near else f"give {TREE_DESCRIPTION}",
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
