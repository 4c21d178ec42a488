"""The release of a person's own tree, by which all is decided where nobody says which it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tasks.core.errors import SettingsError
from tasks.settings.load import DEFAULTS_PREFIX, LoadedSettings
from tasks.settings.schema import Settings
from tasks.stages.source.shape import VERSION_FILE, find_other_release, read_tree_release

_VERSION_KEY = "torch.version"


def apply_tree_version(loaded: LoadedSettings, root: Path) -> LoadedSettings:
    """The settings with the tree's own version as a layer over config/default.yaml. Raises
    `SettingsError` where it has none.
    """
    settings = loaded.settings
    if not _has_local_tree(settings) or not loaded.origin.get(_VERSION_KEY, "").startswith(
        DEFAULTS_PREFIX
    ):
        return loaded
    tree = _resolve_local_tree(settings, root)
    found = read_tree_release(tree)
    if found is None and "<<<<<<< " in _read_text_lenient(tree / VERSION_FILE):
        raise SettingsError(
            f"{VERSION_FILE} has merge conflicts",
            location=str(tree / VERSION_FILE),
            hint=f'finish or abort the merge: git -C "{tree}" status shows how',
        )
    if found is None:
        raise SettingsError(
            "there is no version in it",
            location=str(tree / VERSION_FILE),
            hint="set torch.version: the release that this tree is of, or was forked from",
        )
    torch = settings.torch.model_copy(update={"version": found.public})
    return replace(
        loaded,
        settings=settings.model_copy(update={"torch": torch}),
        origin={**loaded.origin, _VERSION_KEY: str(tree / VERSION_FILE)},
    )


def list_release_warnings(loaded: LoadedSettings, root: Path) -> Iterator[str]:
    """A warning where the settings name another release than that of the tree."""
    settings = loaded.settings
    if not _has_local_tree(settings):
        return
    tree = _resolve_local_tree(settings, root)
    if found := find_other_release(tree, settings.torch.version):
        yield (
            f"{tree} is {found} by its {VERSION_FILE}, and {_VERSION_KEY} says {settings.torch.version} "
            f"({loaded.origin.get(_VERSION_KEY, '')}): facts are those of that release, and the wheel is "
            f"called so. Take {_VERSION_KEY} out, and the tree decides"
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
