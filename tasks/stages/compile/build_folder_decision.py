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
from tasks.stages.compile import configure_fingerprint

_EFFECT_SEVERITY: tuple[Effect, ...] = ("reuse", "reconfigure", "wipe")
_MAX_SHOWN = 3  # changes in one line
_ACTION_TEXTS = {
    "configure": "configure a new build folder",
    "reuse": "reuse the build folder: nothing changed that CMake has to know",
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
        return (
            f"{configure_fingerprint.format_setting_name(self.name)} {self.before or 'nothing'} → "
            f"{self.after or 'nothing'}"
        )


@dataclass(frozen=True)
class FolderDecision:
    """The action for a build folder, and the changes that require it."""

    action: Literal["configure", "reuse", "reconfigure", "wipe"]
    changes: tuple[FolderChange, ...] = ()

    def __str__(self) -> str:
        asking = [str(change) for change in self.changes if change.effect == self.action]
        return ": ".join(
            filter(None, (_ACTION_TEXTS[self.action], format_short_reasons(asking, _MAX_SHOWN)))
        )


def choose_folder_action(
    rules: tuple[FolderRule, ...],
    cache: Mapping[str, str],
    before: configure_fingerprint.ConfigureFingerprint,
    wanted: configure_fingerprint.ConfigureFingerprint,
) -> FolderDecision:
    """Return the action that the folder needs.

    `cache` are the entries of its CMakeCache.txt; empty if no configure has finished.
    """
    if not cache:
        return FolderDecision("configure")
    candidates = (
        *_list_requested_changes(rules, cache, before, wanted),
        *_list_cache_edits(rules, cache, before, wanted),
        *_list_unfinished_configure(before),
    )
    changes = tuple(change for change in candidates if change.effect != "reuse")
    severity = max((_EFFECT_SEVERITY.index(change.effect) for change in changes), default=0)
    return FolderDecision(_EFFECT_SEVERITY[severity], changes)


def _list_requested_changes(
    rules: tuple[FolderRule, ...],
    cache: Mapping[str, str],
    before: configure_fingerprint.ConfigureFingerprint,
    wanted: configure_fingerprint.ConfigureFingerprint,
) -> Iterator[FolderChange]:
    """Yield the settings that were added, removed or changed since the last configure.

    A configure that did not finish counts as well: its values may be in the folder or not.
    """
    old, new = (
        {**fingerprint.variables, **fingerprint.toolchain} for fingerprint in (before, wanted)
    )
    pending = {**old, **(before.pending or {})} if before.pending is not None else old
    for name in sorted({*old, *new, *pending}):
        if name.startswith(configure_fingerprint.TOOL_PREFIX) and not (name in old and name in new):
            continue  # unknown on one side
        rule = configure_fingerprint.find_folder_rule(rules, name)
        old_value, new_value, pending_value = (
            fingerprint.get(name, "") for fingerprint in (old, new, pending)
        )
        if configure_fingerprint.is_same_value(
            old_value, new_value
        ) and configure_fingerprint.is_same_value(pending_value, new_value):
            continue
        if configure_fingerprint.is_same_value(pending_value, old_value) and _is_default_value(
            rule, cache, name, old_value, new_value
        ):
            continue
        yield FolderChange(
            name,
            old_value
            if not configure_fingerprint.is_same_value(old_value, new_value)
            else pending_value,
            new_value,
            rule.effect,
            rule.why,
        )


def _list_unfinished_configure(
    before: configure_fingerprint.ConfigureFingerprint,
) -> Iterator[FolderChange]:
    if before.pending is not None:
        reason = "its values may have come to the folder, or some of them"
        yield FolderChange("unfinished", "did not end", "again", "reconfigure", reason)


def _is_default_value(
    rule: FolderRule, cache: Mapping[str, str], name: str, was: str, now: str
) -> bool:
    """Return True if a newly set value equals the folder's value from CMake's default."""
    cached = [cache.get(entry) for entry in configure_fingerprint.list_cache_entries(rule, name)]
    return bool(cached and now and not was) and all(
        cached_value and configure_fingerprint.is_same_value(cached_value, now)
        for cached_value in cached
    )


def _list_cache_edits(
    rules: tuple[FolderRule, ...],
    cache: Mapping[str, str],
    before: configure_fingerprint.ConfigureFingerprint,
    wanted: configure_fingerprint.ConfigureFingerprint,
) -> Iterator[FolderChange]:
    """Yield entries of CMakeCache.txt that were changed later, by hand or a failed reconfigure."""
    for name, entry, value in configure_fingerprint.list_expected_entries(rules, wanted):
        configured_value, current_value = before.held.get(entry), cache.get(entry, "")
        previous_request = {**before.variables, **before.toolchain}.get(name, "")
        if (
            configured_value is not None
            and not configure_fingerprint.is_same_value(configured_value, current_value)
            and configure_fingerprint.is_same_value(previous_request, value)
        ):
            yield FolderChange(
                name, current_value, value, "reconfigure", "CMakeCache.txt was changed since"
            )


def build_reconfigure_arguments(
    rules: tuple[FolderRule, ...],
    decision: FolderDecision,
    wanted: configure_fingerprint.ConfigureFingerprint,
) -> tuple[str, ...]:
    """Return the `cmake` arguments that update a folder's cache.

    They are -U for each obsolete entry and -D for every value.
    """
    obsolete = dict.fromkeys(
        entry for change in decision.changes for entry in _list_obsolete_entries(rules, change)
    )
    again = configure_fingerprint.list_expected_entries(rules, wanted)
    definitions = {
        entry: configure_fingerprint.format_cmake_paths(value)
        for name, entry, value in again
        if configure_fingerprint.find_folder_rule(rules, name).defines
    }
    return (
        *(f"-U{entry}" for entry in obsolete),
        *(f"-D{entry}={value}" for entry, value in sorted(definitions.items())),
    )


def _list_obsolete_entries(rules: tuple[FolderRule, ...], change: FolderChange) -> tuple[str, ...]:
    rule = configure_fingerprint.find_folder_rule(rules, change.name)
    entries = (
        configure_fingerprint.list_cache_entries(rule, change.name)
        if not rule.defines or not change.after
        else ()
    )
    return (*rule.forget, *entries)


def list_missing_values(
    rules: tuple[FolderRule, ...],
    cache: Mapping[str, str],
    wanted: configure_fingerprint.ConfigureFingerprint,
) -> tuple[FolderChange, ...]:
    """Return the requested values that are not in the cache after CMake has run."""
    return tuple(
        FolderChange(name, value, cache.get(entry, ""), "reconfigure", entry)
        for name, entry, value in configure_fingerprint.list_expected_entries(rules, wanted)
        if not name.startswith(configure_fingerprint.TOOL_PREFIX)
        and not _is_accepted_value(rules, name, value, cache.get(entry, ""))
    )


def _is_accepted_value(rules: tuple[FolderRule, ...], name: str, value: str, held: str) -> bool:
    """Return True if the cached value matches.

    CMake may add options to values from the environment (`/EHsc`).
    """
    return configure_fingerprint.is_same_value(value, held) or (
        not configure_fingerprint.find_folder_rule(rules, name).defines and value.strip() in held
    )
