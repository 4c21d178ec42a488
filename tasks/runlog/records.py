"""How a stage went, for people: its inputs, what it read, why it ran, how long. And from that, why
it runs again.

A record stands beside its manifest and decides nothing; it may hold what a manifest must not: times
and versions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any

from tasks.core.digest import canonical, changes, plain, shown
from tasks.core.errors import redact
from tasks.core.formatting.few import shortened
from tasks.core.formatting.moved import inputs
from tasks.core.model import Stage
from tasks.runlog.record import LOOKED
from tasks.system import clock
from tasks.system.files import artifact, write_atomic
from tasks.system.manifests import record_of

# What is known of a manifest that changed, in words; none where nobody can tell
Told = Callable[[PurePath], tuple[str, ...]]


def _nothing(_: PurePath) -> tuple[str, ...]:
    return ()


def write(stage: Stage, reason: str, seconds: float, version: str, healed: str = "") -> None:
    """Keep how it went beside the first manifest of the stage, and what was done about a failure on
    the way.
    """
    record = {
        "stage": stage.name,
        "reason": reason,
        "seconds": round(seconds, 3),
        "finished": clock.now(),
        "torchyard": version,
        "inputs": plain(stage.inputs),
        "reads": _read_now(stage),
        **({"healed": healed} if healed else {}),
        "leaves": _digests(stage.leaves),
    }
    write_atomic(record_of(stage.leaves[0]), redact(canonical(record)))


def reason(stage: Stage, told: Told = _nothing) -> str:
    """Why this stage runs, in a few words: the first changed input, a changed manifest, or a
    missing result.
    """
    found = reasons(stage, told)
    return shortened(found) if found else ASKED[stage.asks]


def reasons(stage: Stage, told: Told = _nothing) -> tuple[str, ...]:
    """All that files alone tell of why it has to run: of the gravest kind, changed inputs before
    changed manifests before missing results; none where nothing did. `told` may know what moved in
    a manifest.
    """
    last = last_record(stage)
    if last is None:
        return ("first time",)
    now = shown(stage.inputs)
    if moved := tuple(inputs(stage.room, changes(last["inputs"], now))):
        return moved
    if newer := tuple(_newer(stage, last["reads"], told)):
        return newer
    gone = [Path(path).name for path in (*stage.leaves, *stage.also) if not Path(path).exists()]
    if gone:
        return (f"{', '.join(gone)} is not there" + _withdrawn(gone[0], stage),)
    return () if intact(stage) else (f"{stage.leaves[0].name} is not what this stage left",)


def note_removal(manifest: PurePath, command: str) -> None:
    """Record which command removed the manifest of a stage; `reasons` shows it."""
    path = Path(record_of(manifest))
    with suppress(OSError, ValueError, TypeError):
        found = json.loads(path.read_text(encoding="utf-8"))
        write_atomic(path, canonical({**found, "removed_by": command}))


def _withdrawn(gone: str, stage: Stage) -> str:
    """What takes a manifest away where no person did."""
    if gone != stage.leaves[0].name:
        return ""
    by = (last_record(stage) or {}).get("removed_by")
    return f": {by} removed it" if by else ", as after a failure or doit clean"


def _newer(stage: Stage, before: Mapping[str, str], told: Told) -> Iterator[str]:
    now = _read_now(stage)
    changed = {name for name, digest in now.items() if before.get(name) != digest}
    words = {path.name: told(path) for path in stage.reads if path.name in changed}
    yield from (line for lines in words.values() for line in lines)
    if silent := [name for name, lines in words.items() if not lines]:
        yield f"{', '.join(silent)} changed"


UNFINISHED = "the last run failed, or did not finish"
ASKED = {
    "always": LOOKED,
    "moved": "its source, or what it made, was changed since, or could not be reached",
    "": UNFINISHED,
}


def last_record(stage: Stage) -> Mapping[str, Any] | None:
    """The record of the last finished run, None where there is none that can be read."""
    try:
        found = json.loads(Path(record_of(stage.leaves[0])).read_text(encoding="utf-8"))
        return found if {"inputs", "reads"} <= found.keys() else None
    except (OSError, ValueError, AttributeError):
        return None


def intact(stage: Stage) -> bool:
    """Whether the manifests are those that it left, as far as its record tells: a disk, or a
    person, may have written into them.
    """
    left = (last_record(stage) or {}).get("leaves")
    return left is None or left == _digests(stage.leaves)


def _read_now(stage: Stage) -> dict[str, str]:
    return _digests(stage.reads)


def _digests(paths: Iterable[PurePath]) -> dict[str, str]:
    return {Path(path).name: artifact(path).sha256 for path in paths if Path(path).is_file()}
