"""Describe in plain text which inputs of a stage changed."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tasks.core.canonical_json import ABSENT, ValueChange
from tasks.core.errors import redact_secrets

_MAX_VALUE_LENGTH = 60  # characters of a value
_SOURCE_KEYS = ("ref", "sha256", "submodules", "patches")
_EXTENSION_KEYS = (*_SOURCE_KEYS, "index", "subdirectory", "imports", "env", "includes")
# The labels of a stage's inputs, by stage kind; "" has the labels for every kind. A setting has its
# key in a profile as label, any other input a description. Changes are reported in this order
INPUT_LABELS: Mapping[str, Mapping[str, str]] = {
    "": {"python": "Python", "cuda": "CUDA", "targets": "targets"},
    "deps": {
        "base": "Python",
        "existing": "existing environment",
        "toolkit_provider": "source of the CUDA toolkit",
        "toolkit_home": "folder of the CUDA toolkit",
        "toolkit_packages": "packages of the CUDA toolkit",
        "with_cuda": "torch with CUDA",
        "compiles": "needs a compiler",
        "cc": "build.env.CC",
        "cxx": "build.env.CXX",
        "gcc_max": "newest accepted GCC",
        "clang_max": "newest accepted clang",
        "tools": "build tools",
        "cache": "build.cache",
        "cache_package": "compiler cache to download",
        "launchers": "build.env",
    },
    "source": {
        **dict.fromkeys(("kind", "location"), "source"),
        **{key: f"source.{key}" for key in _SOURCE_KEYS},
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
        "runtime": "environment of programs:",
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
        **dict.fromkeys(("kind", "requirement", "release", "version"), "torch"),
        "local": "local version",
        "local_is_whole": "wheel.local_version only",
        "index": "index",
        "sha256": "torch.sha256",
        "by_packages": "CUDA's libraries from packages",
        "folder": "folder of torch",
        "wheelhouse": "wheelhouse",
    },
    "extensions": {
        **dict.fromkeys(("kind", "location"), "source"),
        **{key: key for key in _EXTENSION_KEYS},
        "nvcc": "nvcc options",
        "requires": "requires",
        "label": "CUDA and targets",
    },
    "install": {"into": "install.into", "index": "index", "partial": "install.partial"},
    "validate": {"checks": "checks"},
}
_KIND_LABELS = {
    "git": "a git URL",
    "path": "a folder",
    "tarball": "an archive",
    "sdist": "an sdist",
    "wheel": "a wheel from an index",
    "PrebuiltJob": "an official wheel",
    "BuiltJob": "built here",
    "ExistingJob": "an existing torch",
}
_DERIVED_FROM = {"arch_lists": {"targets", "ptx"}}  # not reported if one of these also changed


def describe_input_changes(kind: str, changes: Iterable[ValueChange]) -> Iterator[str]:
    """Return a line for each changed input of a stage of this `kind`."""
    items = list(changes)
    names = {change.path[0] for change in items}
    if "kind" in names:  # a folder became an archive: nearly all inputs were added or removed
        items = [item for item in items if ABSENT not in (item.before, item.after)]
    described = [item for item in items if not _DERIVED_FROM.get(item.path[0], set()) & names]
    return describe_changes(described, {**INPUT_LABELS[""], **INPUT_LABELS.get(kind, {})})


def describe_changes(changes: Iterable[ValueChange], words: Mapping[str, str]) -> Iterator[str]:
    """Yield `LABEL: now NEW, was OLD` for each change; `words` has the labels, in output order."""
    for change in sorted(changes, key=lambda one: (*words, one.path[0]).index(one.path[0])):
        yield redact_secrets(_format_change(change, words))


def _format_change(change: ValueChange, words: Mapping[str, str]) -> str:
    root, *subkeys = change.path
    if root == "recipe":
        return "this version of torchyard runs the stage differently"
    label = words.get(root, root)
    name = (" " if " " in label else ".").join((label, *subkeys))
    old, new = (_format_value(value, root) for value in (change.before, change.after))
    if isinstance(change.before, list) and isinstance(change.after, list):
        added = [f"with {_format_value(x)}" for x in change.after if x not in change.before]
        removed = [f"without {_format_value(x)}" for x in change.before if x not in change.after]
        # Report only the difference of long lists
        if max(len(old), len(new)) > _MAX_VALUE_LENGTH and (added or removed):
            return f"{name}: now {_truncate_value(', '.join(added + removed))}"
    return f"{name}: now {_truncate_value(new)}, was {_truncate_value(old)}"


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
