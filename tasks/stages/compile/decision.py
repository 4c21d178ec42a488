"""Reuse, reconfigure or wipe a build folder: decided key by key from what it was made of. Pure.

The rules are data, config/knowledge/buildfolder.yaml. The gravest effect of all that changed is
what is done; nothing that changed means that Ninja runs alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from tasks.core.formatting.few import shortened
from tasks.knowledge.facts import Effect, FolderRule
from tasks.stages.compile.fingerprint import (
    TOOLS,
    Fingerprint,
    entries,
    expected,
    for_cmake,
    rule_for,
    same,
    setting,
)

_GRAVITY: tuple[Effect, ...] = ("reuse", "reconfigure", "wipe")
_SHOWN = 3  # changes that are named in a line
_WORDS = {
    "configure": "configure a new build folder",
    "reuse": "reuse the build folder: nothing changed that CMake has to know",
    "reconfigure": "reconfigure the build folder",
    "wipe": "wipe the build folder",
}


@dataclass(frozen=True)
class Change:
    """One key that moved: its values, "" for none, what that means for the folder, and why."""

    name: str
    before: str
    after: str
    effect: Effect
    why: str

    def __str__(self) -> str:
        return f"{setting(self.name)} {self.before or 'nothing'} → {self.after or 'nothing'}"


@dataclass(frozen=True)
class Decision:
    """What is done with a build folder, and the changes that ask for it."""

    do: Literal["configure", "reuse", "reconfigure", "wipe"]
    changes: tuple[Change, ...] = ()

    def __str__(self) -> str:
        asking = [str(change) for change in self.changes if change.effect == self.do]
        return ": ".join(filter(None, (_WORDS[self.do], shortened(asking, _SHOWN))))


def decide(
    rules: tuple[FolderRule, ...],
    cache: Mapping[str, str],
    before: Fingerprint,
    wanted: Fingerprint,
) -> Decision:
    """What the folder needs; `cache` are the entries of its CMakeCache.txt, none where it was never
    configured to the end.
    """
    if not cache:
        return Decision("configure")
    moved = (
        *_asked(rules, cache, before, wanted),
        *_drifted(rules, cache, before, wanted),
        *_unfinished(before),
    )
    changes = tuple(change for change in moved if change.effect != "reuse")
    gravest = max((_GRAVITY.index(change.effect) for change in changes), default=0)
    return Decision(_GRAVITY[gravest], changes)


def _asked(
    rules: tuple[FolderRule, ...],
    cache: Mapping[str, str],
    before: Fingerprint,
    wanted: Fingerprint,
) -> Iterator[Change]:
    """What is asked for now and was not, or the other way round; also by a configure that did not
    end, whose values the folder may have or not.
    """
    old, new = ({**one.variables, **one.toolchain} for one in (before, wanted))
    tried = {**old, **(before.pending or {})} if before.pending is not None else old
    for name in sorted({*old, *new, *tried}):
        if name.startswith(TOOLS) and not (name in old and name in new):
            continue  # not known of one of the two
        rule = rule_for(rules, name)
        was, now, last = (one.get(name, "") for one in (old, new, tried))
        if same(was, now) and same(last, now):
            continue
        if same(last, was) and _has_it_already(rule, cache, name, was, now):
            continue
        yield Change(name, was if not same(was, now) else last, now, rule.effect, rule.why)


def _unfinished(before: Fingerprint) -> Iterator[Change]:
    if before.pending is not None:
        why = "its values may have come to the folder, or some of them"
        yield Change("unfinished", "did not end", "again", "reconfigure", why)


def _has_it_already(
    rule: FolderRule, cache: Mapping[str, str], name: str, was: str, now: str
) -> bool:
    """A value that is asked for first and that the folder has by CMake's own default."""
    held = [cache.get(entry) for entry in entries(rule, name)]
    return bool(held and now and not was) and all(one and same(one, now) for one in held)


def _drifted(
    rules: tuple[FolderRule, ...],
    cache: Mapping[str, str],
    before: Fingerprint,
    wanted: Fingerprint,
) -> Iterator[Change]:
    """What somebody changed in CMakeCache.txt since: by hand, or a reconfigure that failed."""
    for name, entry, value in expected(rules, wanted):
        then, now = before.held.get(entry), cache.get(entry, "")
        asked_before = {**before.variables, **before.toolchain}.get(name, "")
        if then is not None and not same(then, now) and same(asked_before, value):
            yield Change(name, now, value, "reconfigure", "CMakeCache.txt was changed since")


def arguments(
    rules: tuple[FolderRule, ...], decision: Decision, wanted: Fingerprint
) -> tuple[str, ...]:
    """What `cmake` is given to make a folder's cache agree: what it has to forget, and every
    value.
    """
    forgotten = dict.fromkeys(entry for change in decision.changes for entry in _old(rules, change))
    again = expected(rules, wanted)
    given = {
        entry: for_cmake(value) for name, entry, value in again if rule_for(rules, name).defines
    }
    return (
        *(f"-U{entry}" for entry in forgotten),
        *(f"-D{entry}={value}" for entry, value in sorted(given.items())),
    )


def _old(rules: tuple[FolderRule, ...], change: Change) -> tuple[str, ...]:
    rule = rule_for(rules, change.name)
    own = entries(rule, change.name) if not rule.defines or not change.after else ()
    return (*rule.forget, *own)


def missing(
    rules: tuple[FolderRule, ...], cache: Mapping[str, str], wanted: Fingerprint
) -> tuple[Change, ...]:
    """What was asked for and is not in the cache after CMake has run."""
    return tuple(
        Change(name, value, cache.get(entry, ""), "reconfigure", entry)
        for name, entry, value in expected(rules, wanted)
        if not name.startswith(TOOLS) and not _took(rules, name, value, cache.get(entry, ""))
    )


def _took(rules: tuple[FolderRule, ...], name: str, value: str, held: str) -> bool:
    """CMake may put words of its own beside what it reads from the environment (`/EHsc`)."""
    return same(value, held) or (not rule_for(rules, name).defines and value.strip() in held)
