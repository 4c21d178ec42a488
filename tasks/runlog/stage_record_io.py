"""Write and read the stage record next to a manifest, which explains why a stage runs again."""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any

from tasks.core import canonical_json
from tasks.core.canonical_json import format_canonical_json
from tasks.core.errors import redact_secrets
from tasks.core.input_changes import describe_input_changes
from tasks.core.model import Stage
from tasks.runlog.run_record import ALWAYS_CHECKED
from tasks.system import manifests
from tasks.system.files import read_artifact, write_atomic
from tasks.system.manifests import build_record_path

# Returns descriptions of what changed in a manifest, () if unknown
ChangeExplainer = Callable[[PurePath], tuple[str, ...]]


def write_stage_record(
    stage: Stage, reason: str, seconds: float, version: str, auto_fix: str = ""
) -> None:
    """Write the record of a stage next to its first manifest. `version` is that of torchyard."""
    record = {
        "stage": stage.name,
        "reason": reason,
        "seconds": round(seconds, 3),
        "finished": manifests.format_current_time(),
        "torchyard": version,
        "inputs": canonical_json.convert_to_json(stage.fingerprint),
        "reads": _compute_digests(stage.inputs),
        **({"auto_fix": auto_fix} if auto_fix else {}),
        "leaves": _compute_digests(stage.outputs),
    }
    write_atomic(build_record_path(stage.outputs[0]), redact_secrets(format_canonical_json(record)))


def find_rebuild_reasons(stage: Stage, explain: ChangeExplainer = lambda _: ()) -> tuple[str, ...]:
    """Return why a stage must run again, () if it need not. `explain` describes a changed file."""
    if (last := read_last_record(stage)) is None:
        return ("first time",)
    inputs = canonical_json.convert_to_redacted_json(stage.fingerprint)
    changes = canonical_json.find_changes(last["inputs"], inputs)
    if reasons := tuple(describe_input_changes(stage.kind, changes)):
        return reasons
    digests = _compute_digests(stage.inputs)
    changed = {name for name, digest in digests.items() if last["reads"].get(name) != digest}
    explanations = {path.name: explain(path) for path in stage.inputs if path.name in changed}
    explained = [line for lines in explanations.values() for line in lines]
    if silent := [name for name, lines in explanations.items() if not lines]:
        explained.append(f"{', '.join(silent)} changed")
    if explained:
        return tuple(explained)
    paths = map(Path, (*stage.outputs, *stage.extra_outputs))
    first = stage.outputs[0].name
    if missing := [path.name for path in paths if not path.exists()]:
        command = last.get("removed_by")
        removal = f": {command} removed it" if command else ", as after a failure or doit clean"
        return (f"{', '.join(missing)} is missing{removal * (missing[0] == first)}",)
    edited = f"the manifest {first} was changed after the stage wrote it"
    return () if has_intact_manifests(stage) else (edited,)


def note_removal(manifest: PurePath, command: str) -> None:
    """Record the command that removed a manifest, so that the rebuild reason can name it."""
    path = Path(build_record_path(manifest))
    with suppress(OSError, ValueError, TypeError):
        record = json.loads(path.read_text(encoding="utf-8"))
        write_atomic(path, format_canonical_json({**record, "removed_by": command}))


UNFINISHED = "the last run failed or did not finish"
DEFAULT_REASONS = {
    "always": ALWAYS_CHECKED,
    "stale": "the source or results of the stage were changed, or could not be reached",
    "": UNFINISHED,
}


def read_last_record(stage: Stage) -> Mapping[str, Any] | None:
    """Return the record of the last finished run of a stage, `None` if missing or unreadable."""
    try:
        record = json.loads(Path(build_record_path(stage.outputs[0])).read_text(encoding="utf-8"))
        return record if {"inputs", "reads"} <= record.keys() else None
    except (OSError, ValueError, AttributeError):
        return None


def has_intact_manifests(stage: Stage) -> bool:
    """Return True if the manifests match the recorded digests, or if no digests are recorded."""
    digests = (read_last_record(stage) or {}).get("leaves")
    return digests is None or digests == _compute_digests(stage.outputs)


def _compute_digests(paths: Iterable[PurePath]) -> dict[str, str]:
    return {Path(path).name: read_artifact(path).sha256 for path in paths if Path(path).is_file()}
