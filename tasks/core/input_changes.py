"""Describe the changed inputs of a stage in plain text.

A setting is named by its key in a profile, anything else by a description. The order of the labels
puts causes before their effects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tasks.core.canonical_json import ABSENT, ValueChange
from tasks.core.errors import redact_secrets

_MAX_VALUE_LENGTH = 60  # characters of a value
_SOURCE_TREE_LABELS = {
    "kind": "source",
    "location": "source",
    "ref": "ref",
    "sha256": "sha256",
    "submodules": "submodules",
    "patches": "patches",
}
# By stage kind, the labels of a stage's inputs; "" for those of any kind
INPUT_LABELS: Mapping[str, Mapping[str, str]] = {
    "": {"python": "Python", "cuda": "CUDA", "targets": "targets"},
    "deps": {
        "base": "Python",
        "existing": "an environment that is there already",
        "toolkit_provider": "where the CUDA toolkit is from",
        "toolkit_home": "folder of the CUDA toolkit",
        "toolkit_packages": "packages of the CUDA toolkit",
        "with_cuda": "a torch with CUDA",
        "compiles": "anything is compiled",
        "cc": "build.env.CC",
        "cxx": "build.env.CXX",
        "gcc_max": "newest GCC that is taken",
        "clang_max": "newest clang that is taken",
        "tools": "build tools",
        "cache": "build.cache",
        "cache_package": "compiler cache to fetch",
        "launchers": "build.env",
    },
    "source": {
        key: f"source.{key}" if word == key else word for key, word in _SOURCE_TREE_LABELS.items()
    },
    "env": {
        "strategy": "torch.strategy",
        "torch": "torch",
        "system": "system",
        "venv": "folder of the environment",
        "ptx": "target.ptx",
        "build_type": "build.type",
        "blas": "build.blas",
        "flags": "build.flags",
        "variables": "build.env",
        "runtime": "variables of programs",
        "cache": "build.cache, build.cache_size",
        "distribute": "script of build.distribute",
        "arch_lists": "targets for",
    },
    "compile": {
        "archs": "targets",
        "type": "build.type",
        "flags": "build.flags",
        "env": "build.env",
        "target": "build.target",
        "backend": "build.backend",
    },
    "wheel": {
        "kind": "torch",
        "requirement": "torch",
        "release": "torch",
        "version": "torch",
        "local": "local version",
        "local_is_whole": "wheel.local_version alone",
        "index": "index",
        "sha256": "torch.sha256",
        "by_packages": "CUDA's libraries from packages",
        "folder": "folder of torch",
        "wheelhouse": "wheelhouse",
    },
    "extensions": {
        **_SOURCE_TREE_LABELS,
        "index": "index",
        "subdirectory": "subdirectory",
        "imports": "imports",
        "env": "env",
        "includes": "includes",
        "nvcc": "options of nvcc",
        "requires": "requires",
        "label": "CUDA and targets",
    },
    "install": {"into": "install.into", "index": "index", "partial": "install.partial"},
    "validate": {"checks": "checks"},
}
_KIND_LABELS = {
    "git": "a git address",
    "path": "a folder",
    "tarball": "an archive",
    "sdist": "a package's sources",
    "wheel": "a wheel from an index",
    "PrebuiltJob": "an official wheel",
    "BuiltJob": "built here",
    "ExistingJob": "one that is there already",
}
_DERIVED_FROM = {"arch_lists": {"targets", "ptx"}}  # not reported if one of these also changed


def describe_input_changes(room: str, changes: Iterable[ValueChange]) -> Iterator[str]:
    """Yield a line for each changed input of a stage of the kind `room`.

    If the kind of the input's object changed, most inputs differ; only those that exist before and
    after are reported.
    """
    items = list(changes)
    names = {change.path[0] for change in items}
    if "kind" in names:
        items = [item for item in items if ABSENT not in (item.before, item.after)]
    described = [item for item in items if not _DERIVED_FROM.get(item.path[0], set()) & names]
    yield from describe_changes(described, {**INPUT_LABELS[""], **INPUT_LABELS.get(room, {})})


def describe_changes(changes: Iterable[ValueChange], words: Mapping[str, str]) -> Iterator[str]:
    """Return a line for each change, in the order of `words`.

    Example: `build.type: now Debug, was Release`.
    """
    order = {key: position for position, key in enumerate(words)}
    ordered = sorted(changes, key=lambda one: order.get(one.path[0], len(order)))
    return (_format_change(change, words) for change in ordered)


def _format_change(change: ValueChange, words: Mapping[str, str]) -> str:
    root, *subkeys = change.path
    if root == "recipe":
        return "this version of torchyard does it in another way"
    label = words.get(root, root)
    name = (" " if " " in label else ".").join((label, *subkeys))
    if isinstance(change.before, list) and isinstance(change.after, list):
        return redact_secrets(f"{name}: {_format_list_change(change.before, change.after)}")
    before, after = (_format_value(value, root) for value in (change.before, change.after))
    return redact_secrets(f"{name}: now {_truncate_value(after)}, was {_truncate_value(before)}")


def _format_list_change(before: list[Any], after: list[Any]) -> str:
    """Return short lists as they are, and only the difference of long ones."""
    old, new = _format_value(before), _format_value(after)
    additions = [f"with {_format_value(item)}" for item in after if item not in before]
    removals = [f"without {_format_value(item)}" for item in before if item not in after]
    if max(len(old), len(new)) <= _MAX_VALUE_LENGTH or not (additions or removals):
        return f"now {_truncate_value(new)}, was {_truncate_value(old)}"
    return f"now {_truncate_value(', '.join((*additions, *removals)))}"


def _format_value(value: Any, key: str = "") -> str:
    if value is None or value is ABSENT:
        return "not set"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        value = [f"{name}={_format_value(item)}" for name, item in value.items()]
    if isinstance(value, list):
        return ", ".join(_format_value(item) for item in value if item not in ({}, "")) or "none"
    return (_KIND_LABELS.get(value, value) if key == "kind" else str(value)) or "none"


def _truncate_value(text: str) -> str:
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[: _MAX_VALUE_LENGTH - 1]}…"
