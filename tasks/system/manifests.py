"""Write, remove and read manifests: reproducible JSON files with the outputs of a stage."""

import datetime
from functools import cache
from pathlib import Path, PurePath
from typing import Any, TypeVar

from tasks.core.canonical_json import format_canonical_json
from tasks.core.errors import TorchyardError
from tasks.system.files import write_atomic


def format_current_time() -> str:
    """Return the current time in UTC, for example `2026-11-21T14:00:00+00:00`."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


T = TypeVar("T")


def write_manifest(path: PurePath, outputs: Any) -> None:
    """Write `outputs` (a frozen dataclass) as canonical JSON, atomically."""
    write_atomic(path, format_canonical_json(outputs))


def remove_manifests(*paths: PurePath) -> None:
    """Remove a stage's manifests before it starts, so that an interrupted stage leaves none."""
    for path in paths:
        Path(path).unlink(missing_ok=True)


def read_manifest(path: PurePath, kind: type[T]) -> T:
    """Read a manifest as a `kind`; raise `TorchyardError` if the file is missing or invalid."""
    try:
        return parse_json(Path(path).read_bytes(), kind)
    except (FileNotFoundError, ValueError) as error:
        message, hint = "this manifest does not exist", "run doit build"
        if isinstance(error, ValueError):
            message = "this manifest cannot be read"
            hint = f"remove this file, then run doit build to create {path.stem} again"
        raise TorchyardError(message, location=str(path), hint=hint) from error


def find_manifest(path: PurePath, kind: type[T]) -> T | None:
    """Read a manifest as a `kind`; return None if the file is missing or invalid."""
    try:
        return read_manifest(path, kind)
    except TorchyardError:
        return None


def parse_json(text: bytes | str, kind: type[T]) -> T:
    """Parse JSON into the dataclass `kind`; raise `ValueError` if its fields do not match."""
    adapter: Any = _build_adapter(kind)  # type: ignore[arg-type]  # every type is hashable
    result: T = adapter.validate_json(text)
    return result


@cache
def _build_adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter  # noqa: PLC0415 - would take a third of the time of doit list

    return TypeAdapter(kind)


def build_record_path(path: PurePath) -> PurePath:
    """Return the path of a manifest's record, such as wheel.record.json for wheel.json."""
    return path.with_suffix(".record.json")
