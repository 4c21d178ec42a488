"""The release of a person's own tree, by which all is decided where nobody says which it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tasks.core.errors import SettingsError
from tasks.settings.load import DEFAULTS, Loaded
from tasks.settings.schema import Settings
from tasks.stages.source.shape import VERSION, other_release, release_of

_KEY = "torch.version"


def by_own_tree(loaded: Loaded, root: Path) -> Loaded:
    """The settings with the tree's own version as a layer over config/default.yaml. Raises
    `SettingsError` where it has none.
    """
    settings = loaded.settings
    if not _builds_own(settings) or not loaded.origin.get(_KEY, "").startswith(DEFAULTS):
        return loaded
    tree = _tree(settings, root)
    found = release_of(tree)
    if found is None and "<<<<<<< " in _text(tree / VERSION):
        raise SettingsError(
            f"{VERSION} has merge conflicts",
            where=str(tree / VERSION),
            todo=f'finish or abort the merge: git -C "{tree}" status shows how',
        )
    if found is None:
        raise SettingsError(
            "there is no version in it",
            where=str(tree / VERSION),
            todo="set torch.version: the release that this tree is of, or was forked from",
        )
    torch = settings.torch.model_copy(update={"version": found.public})
    return replace(
        loaded,
        settings=settings.model_copy(update={"torch": torch}),
        origin={**loaded.origin, _KEY: str(tree / VERSION)},
    )


def of_another(loaded: Loaded, root: Path) -> Iterator[str]:
    """A warning where the settings name another release than that of the tree."""
    settings = loaded.settings
    if not _builds_own(settings):
        return
    tree = _tree(settings, root)
    if found := other_release(tree, settings.torch.version):
        yield (
            f"{tree} is {found} by its {VERSION}, and {_KEY} says {settings.torch.version} "
            f"({loaded.origin.get(_KEY, '')}): facts are those of that release, and the wheel is "
            f"called so. Take {_KEY} out, and the tree decides"
        )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _builds_own(settings: Settings) -> bool:
    return bool(settings.source.path) and settings.torch.strategy in {"auto", "source"}


def _tree(settings: Settings, root: Path) -> Path:
    return root / (settings.source.path or "")
