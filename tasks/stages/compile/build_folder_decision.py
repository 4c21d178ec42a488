"""Decide whether a build folder is reused, reconfigured or wiped, from each key that changed.

The rules are in config/knowledge/buildfolder.yaml. The most severe effect of all changes decides.
Without a change, only Ninja runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from tasks.core.text_formatting import format_short_reasons
from tasks.knowledge.facts import Effect, FolderRule
from tasks.stages.compile.configure_fingerprint import (
    TOOL_PREFIX,
    ConfigureFingerprint,
    find_folder_rule,
    format_cmake_paths,
    format_setting_name,
    is_same_value,
    list_cache_entries,
    list_expected_entries,
)

_EFFECT_SEVERITY: tuple[Effect, ...] = ("reuse", "reconfigure", "wipe")
_MAX_SHOWN = 3  # changes in one line
_ACTION_TEXTS = {
    "configure": "configure a new build folder",
    "reuse": "reuse the build folder: no CMake setting changed",
    "reconfigure": "reconfigure the build folder",
    "wipe": "wipe the build folder",
}


@dataclass(frozen=True)
class FolderChange:
    """A key that changed: its values ("" if not set), the effect on the folder, and the reason."""

    name: str
    before: str
    after: str
    effect: Effect
    why: str

    def __str__(self) -> str:
        before, after = self.before or "nothing", self.after or "nothing"
        return f"{format_setting_name(self.name)} {before} → {after}"


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
    """Return the action that the folder needs.

    `cache` are the entries of its CMakeCache.txt; empty if no configure has finished.
    """
    if not cache:
        return FolderDecision("configure")
    candidates = (
        *_list_requested_changes(rules, cache, before, requested),
        *_list_cache_edits(rules, cache, before, requested),
    )
    changes = tuple(change for change in candidates if change.effect != "reuse")
    if before.pending is not None:
        reason = "some of its values may be in the folder"
        unfinished = FolderChange("unfinished", "did not finish", "again", "reconfigure", reason)
        changes = (*changes, unfinished)
    severity = max((_EFFECT_SEVERITY.index(change.effect) for change in changes), default=0)
    return FolderDecision(_EFFECT_SEVERITY[severity], changes)


def _list_requested_changes(
    rules: tuple[FolderRule, ...],
    cache: Mapping[str, str],
    before: ConfigureFingerprint,
    requested: ConfigureFingerprint,
) -> Iterator[FolderChange]:
    """Yield the settings that were added, removed or changed since the last configure.

    A configure that did not finish counts as well: its values may be in the folder or not.
    """
    old, new = ({**one.variables, **one.toolchain} for one in (before, requested))
    pending = {**old, **(before.pending or {})}
    for name in sorted({*old, *new, *pending}):
        if name.startswith(TOOL_PREFIX) and not (name in old and name in new):
            continue  # unknown on one side
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
        yield FolderChange(name, value, new_value, rule.effect, rule.why)


def _list_cache_edits(
    rules: tuple[FolderRule, ...],
    cache: Mapping[str, str],
    before: ConfigureFingerprint,
    requested: ConfigureFingerprint,
) -> Iterator[FolderChange]:
    """Yield entries of CMakeCache.txt that were changed later, by hand or a failed reconfigure."""
    for name, entry, value in list_expected_entries(rules, requested):
        configured, current = before.held.get(entry), cache.get(entry, "")
        previous_request = {**before.variables, **before.toolchain}.get(name, "")
        if (
            configured is not None
            and not is_same_value(configured, current)
            and is_same_value(previous_request, value)
        ):
            reason = "CMakeCache.txt changed after the last configure"
            yield FolderChange(name, current, value, "reconfigure", reason)


def build_reconfigure_arguments(
    rules: tuple[FolderRule, ...],
    decision: FolderDecision,
    requested: ConfigureFingerprint,
) -> tuple[str, ...]:
    """Return the `cmake` arguments: -U for each obsolete cache entry and -D for every value."""
    obsolete: dict[str, None] = {}
    for change in decision.changes:
        rule = find_folder_rule(rules, change.name)
        obsolete |= dict.fromkeys(rule.forget)
        if not rule.defines or not change.after:
            obsolete |= dict.fromkeys(list_cache_entries(rule, change.name))
    definitions = {
        entry: format_cmake_paths(value)
        for name, entry, value in list_expected_entries(rules, requested)
        if find_folder_rule(rules, name).defines
    }
    return (
        *(f"-U{entry}" for entry in obsolete),
        *(f"-D{entry}={value}" for entry, value in sorted(definitions.items())),
    )


def list_missing_values(
    rules: tuple[FolderRule, ...], cache: Mapping[str, str], requested: ConfigureFingerprint
) -> list[FolderChange]:
    """Return the requested values that are not in the cache after CMake has run."""
    return [
        FolderChange(name, value, cached, "reconfigure", entry)
        for name, entry, value in list_expected_entries(rules, requested)
        if not name.startswith(TOOL_PREFIX)
        and not is_same_value(value, cached := cache.get(entry, ""))
        # CMake may add options to values from the environment (`/EHsc`)
        and (find_folder_rule(rules, name).defines or value.strip() not in cached)
    ]
