"""Layered settings: default.yaml, the profile, local.yaml, the environment; each leaf remembers its
layer and line.

YAML is read strictly: no tags, no duplicate keys, and a version that YAML would take for a number
(`python: 3.10` is 3.1) is named with its line instead of silently changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tasks.errors import SettingsError
from tasks.settings.explain import explain
from tasks.settings.schema import Settings
from tasks.settings.suggest import did_you_mean
from tasks.settings.yamltree import Leaf, Tree, read_tree, read_value

ENV_PREFIX = "TORCHYARD__"


@dataclass(frozen=True)
class Loaded:
    """The settings of a profile, and where each leaf (dotted key) is from."""

    profile: str
    settings: Settings
    origin: Mapping[str, str]


def profiles(config: Path) -> tuple[str, ...]:
    """The names under config/profiles."""
    return tuple(sorted(path.stem for path in (config / "profiles").glob("*.yaml")))


def load(config: Path, profile: str, environ: Mapping[str, str]) -> Loaded:
    """Read and validate. Raises `SettingsError` that names file, line, dotted key and what to
    do.
    """
    merged: Tree = {}
    for tree in (*_files(config, profile), _from_environment(environ)):
        merge(merged, tree)
    values, origin = _split(merged)
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        raise explain(error, merged) from error
    return Loaded(profile, settings, origin)


def _files(config: Path, profile: str) -> list[Tree]:
    chosen = config / "profiles" / f"{profile}.yaml"
    if not chosen.is_file() or chosen.parent != config / "profiles":
        known = profiles(config)
        raise SettingsError(
            f'there is no profile "{profile}"{did_you_mean(profile, known)}',
            where="config/profiles",
            todo=f"choose one of: {', '.join(known)}",
        )
    local = config / "local.yaml"
    paths = [config / "default.yaml", chosen, *([local] if local.is_file() else [])]
    return [read_tree(path, path.relative_to(config.parent).as_posix()) for path in paths]


def _from_environment(environ: Mapping[str, str]) -> Tree:
    tree: Tree = {}
    for name, text in sorted(environ.items()):
        if not name.upper().startswith(ENV_PREFIX):
            continue
        keys = [key.lower() for key in name[len(ENV_PREFIX) :].split("__")]
        branch = tree
        for key in keys[:-1]:
            step = branch.setdefault(key, {})
            if not isinstance(step, dict):
                raise SettingsError("this variable and another set the same key", where=name)
            branch = step
        branch[keys[-1]] = Leaf(read_value(text, name), name)
    return tree


def merge(into: Tree, tree: Tree) -> None:
    """Put `tree` over `into`: sections are merged, everything else is replaced."""
    for key, value in tree.items():
        present = into.get(key)
        if isinstance(value, dict) and isinstance(present, dict):
            merge(present, value)
        elif isinstance(value, dict) and not (
            isinstance(present, Leaf) and present.value not in ({}, None)
        ):
            into[key] = {}
            merge(into[key], value)  # type: ignore[arg-type]
        else:
            into[key] = value


def _split(tree: Tree, prefix: str = "") -> tuple[dict[str, Any], dict[str, str]]:
    values: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for key, node in tree.items():
        dotted = f"{prefix}.{key}" if prefix else key
        if isinstance(node, Leaf):
            values[key], origin[dotted] = node.value, node.where
        else:
            values[key], below = _split(node, dotted)
            origin.update(below)
    return values, origin
