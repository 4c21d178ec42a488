"""Decide whether a build folder must be reconfigured or wiped after changes.

The rules in config/knowledge/buildfolder.yaml map each change to an effect on the folder: reuse,
reconfigure or wipe. The most severe effect decides.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from posixpath import normpath
from typing import Literal

from tasks.core.text_formatting import format_short_reasons
from tasks.knowledge.facts import Effect, FolderRule

TOOL_PREFIX = "toolchain."  # a name with this prefix is a tool, any other name a variable
_SETTING_NAMES = {
    "CMAKE_BUILD_TYPE": "build.type",
    "BLAS": "build.blas",
    "TORCH_CUDA_ARCH_LIST": "target.gpus",
    "toolchain.cc": "the C compiler",
    "toolchain.cxx": "the C++ compiler",
    "toolchain.nvcc": "the CUDA compiler",
    "toolchain.cudahost": "the host compiler of CUDA",
    "toolchain.cmake": "the major version of CMake",
    "toolchain.python": "the interpreter",
    "toolchain.python_version": "the version of Python",
    "toolchain.tree": "the source tree",
    "toolchain.ninja": "the Ninja of the build folder",
    "toolchain.release": "the release of the source tree",
    "unfinished": "the last configure",
}
_ABSOLUTE_PATH = re.compile(r"/|[A-Za-z]:[\\/]")
_DRIVE_PATH = re.compile(r"[A-Za-z]:[\\/]")
_SWITCHES = {
    **dict.fromkeys(("1", "ON", "YES", "TRUE", "Y"), "ON"),
    **dict.fromkeys(("0", "OFF", "NO", "FALSE", "N"), "OFF"),
}
_EFFECT_SEVERITY: tuple[Effect, ...] = ("reuse", "reconfigure", "wipe")
_MAX_SHOWN = 3  # changes in one line
_ACTION_TEXTS = {
    "configure": "configure a new build folder",
    "reuse": "reuse the build folder: no CMake setting changed",
    "reconfigure": "reconfigure the build folder",
    "wipe": "wipe the build folder",
}


@dataclass(frozen=True)
class ConfigureFingerprint:
    """The variables and tools with which a build folder is configured.

    `toolchain` has the version and path of each known tool, by names such as `toolchain.cxx`.
    `held` are values in CMakeCache.txt after the configure. `pending` are the variables of a
    later configure that did not finish, if any.
    """

    variables: Mapping[str, str]
    toolchain: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)
    pending: Mapping[str, str] | None = None


@dataclass(frozen=True)
class FolderChange:
    """A changed variable or tool: both values ("" if not set), and the action that it requires."""

    name: str
    before: str
    after: str
    effect: Effect

    def __str__(self) -> str:
        name = format_setting_name(self.name)
        return f"{name} {self.before or 'nothing'} → {self.after or 'nothing'}"


@dataclass(frozen=True)
class FolderDecision:
    """The action for a build folder, and the changes that require it."""

    action: Literal["configure", "reuse", "reconfigure", "wipe"]
    changes: tuple[FolderChange, ...] = ()

    def __str__(self) -> str:
        reasons = [str(change) for change in self.changes if change.effect == self.action]
        parts = (_ACTION_TEXTS[self.action], format_short_reasons(reasons, _MAX_SHOWN))
        return ": ".join(filter(None, parts))


def choose_folder_action(
    rules: tuple[FolderRule, ...],
    cache: Mapping[str, str],
    before: ConfigureFingerprint,
    requested: ConfigureFingerprint,
) -> FolderDecision:
    """Return the action for a build folder with the CMake cache entries `cache`."""
    if not cache:
        return FolderDecision("configure")
    changes = list(_list_requested_changes(rules, cache, before, requested))
    previous_requests = {**before.variables, **before.toolchain}
    for _, name, entry, value in list_expected_entries(rules, requested):
        # a user or a failed reconfigure changed this entry after the configure
        configured, current = before.held.get(entry), cache.get(entry, "")
        is_edited = configured is not None and not is_same_value(configured, current)
        if is_edited and is_same_value(previous_requests.get(name, ""), value):
            changes.append(FolderChange(name, current, value, "reconfigure"))
    if before.pending is not None:  # the folder may be partly configured
        changes.append(FolderChange("unfinished", "did not finish", "again", "reconfigure"))
    severity = max((_EFFECT_SEVERITY.index(change.effect) for change in changes), default=0)
    changes = [change for change in changes if change.effect != "reuse"]
    return FolderDecision(_EFFECT_SEVERITY[severity], tuple(changes))


def _list_requested_changes(
    rules: tuple[FolderRule, ...],
    cache: Mapping[str, str],
    before: ConfigureFingerprint,
    requested: ConfigureFingerprint,
) -> Iterator[FolderChange]:
    """Yield each variable or tool that changed since the last configure."""
    old, new = ({**one.variables, **one.toolchain} for one in (before, requested))
    pending = {**old, **(before.pending or {})}
    for name in sorted({*old, *new, *pending}):
        if name.startswith(TOOL_PREFIX) and not (name in old and name in new):
            continue  # the tool is unknown before or after the change
        rule = find_folder_rule(rules, name)
        old_value, new_value, pending_value = (one.get(name, "") for one in (old, new, pending))
        is_requested_again = is_same_value(old_value, new_value)
        if is_requested_again and is_same_value(pending_value, new_value):
            continue
        if is_same_value(pending_value, old_value) and new_value and not old_value:
            cached = [cache.get(entry) for entry in list_cache_entries(rule, name)]
            if cached and all(value and is_same_value(value, new_value) for value in cached):
                continue  # the new value is the one that CMake chose by default
        value = pending_value if is_requested_again else old_value
        yield FolderChange(name, value, new_value, rule.effect)


def build_reconfigure_arguments(
    rules: tuple[FolderRule, ...], decision: FolderDecision, requested: ConfigureFingerprint
) -> tuple[str, ...]:
    """Return the arguments for CMake: -U for obsolete cache entries, -D for requested values."""
    obsolete: dict[str, None] = {}
    for change in decision.changes:
        rule = find_folder_rule(rules, change.name)
        obsolete |= dict.fromkeys(rule.forget)
        if not rule.defines or not change.after:
            obsolete |= dict.fromkeys(list_cache_entries(rule, change.name))
    definitions = build_cmake_definitions(rules, requested, ("reconfigure",))
    return (
        *(f"-U{entry}" for entry in obsolete),
        *(f"-D{entry}={value}" for entry, value in sorted(definitions.items())),
    )


def list_missing_values(
    rules: tuple[FolderRule, ...], cache: Mapping[str, str], requested: ConfigureFingerprint
) -> list[FolderChange]:
    """Return the requested values that the CMake cache lacks after CMake has run."""
    return [
        FolderChange(name, value, cached, "reconfigure")
        for rule, name, entry, value in list_expected_entries(rules, requested)
        if not name.startswith(TOOL_PREFIX)
        and not is_same_value(value, cached := cache.get(entry, ""))
        # CMake may add options to values from the environment (`/EHsc`)
        and (rule.defines or value.strip() not in cached)
    ]


def find_folder_rule(rules: Iterable[FolderRule], name: str) -> FolderRule:
    """Return the first rule that matches a variable or tool; the last rule matches every name."""
    return next(rule for rule in rules if any(fnmatchcase(name, key) for key in rule.keys))


def list_cache_entries(rule: FolderRule, name: str) -> tuple[str, ...]:
    """Return the names of the CMake cache entries that hold the value of a variable or tool."""
    return tuple(name if entry == "=" else entry for entry in rule.entries)


def list_expected_entries(
    rules: tuple[FolderRule, ...],
    requested: ConfigureFingerprint,
    effects: tuple[Effect, ...] = ("reconfigure",),
) -> Iterator[tuple[FolderRule, str, str, str]]:
    """Yield (rule, name, cache entry, value) for the values with a rule of one of the `effects`."""
    for name, value in sorted({**requested.toolchain, **requested.variables}.items()):
        rule = find_folder_rule(rules, name)
        if rule.effect in effects:
            yield from ((rule, name, entry, value) for entry in list_cache_entries(rule, name))


def build_cmake_definitions(
    rules: tuple[FolderRule, ...],
    requested: ConfigureFingerprint,
    effects: tuple[Effect, ...] = _EFFECT_SEVERITY,
) -> dict[str, str]:
    """Return the CMake cache entries to set with -D, for rules with one of the `effects`."""
    entries = list_expected_entries(rules, requested, effects)
    return {entry: format_cmake_paths(value) for rule, _, entry, value in entries if rule.defines}


def format_cmake_paths(value: str) -> str:
    """Return the value with forward slashes in absolute Windows paths.

    CMake writes values into generated files, where a backslash would escape the next character.
    """
    parts = value.split(";")
    return ";".join(part.replace("\\", "/") if _DRIVE_PATH.match(part) else part for part in parts)


def format_setting_name(name: str) -> str:
    """Return the name of a variable or tool for messages, such as `build.flags.USE_CUDA`."""
    if name in _SETTING_NAMES:
        return _SETTING_NAMES[name]
    return f"build.{'flags' if name.startswith(('USE_', 'BUILD_')) else 'env'}.{name}"


def is_same_value(one: str, other: str) -> bool:
    """Return True if CMake treats both values as equal, such as ON, 1 and True."""
    return _normalize_value(one) == _normalize_value(other)


def _normalize_value(value: str) -> str:
    """Return ON or OFF for a truth value, and other values with normalized paths."""
    text = value.strip()
    if switch := _SWITCHES.get(text.upper()):
        return switch
    return ";".join(
        normpath(part.replace("\\", "/")) if _ABSOLUTE_PATH.match(part) else part
        for part in text.split(";")
    )
