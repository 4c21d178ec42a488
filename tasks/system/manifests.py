"""What came out, as files: publish atomically, withdraw first, read back typed.

A manifest holds an action's outputs with stable bytes; the record beside it holds how the run went,
for people.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from functools import cache
from pathlib import Path, PurePath
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from tasks.core.canonical_json import format_canonical_json
from tasks.core.errors import TorchyardError
from tasks.system.files import write_atomic


def format_current_time() -> str:
    """`2026-11-21T14:00:00+00:00`."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


T = TypeVar("T")


def write_manifest(path: PurePath, outputs: Any) -> None:
    """Write `outputs` (a frozen dataclass) as canonical JSON, all or nothing."""
    write_atomic(path, format_canonical_json(outputs))


def remove_manifests(*paths: PurePath) -> None:
    """Take claims back before anything is changed: an interrupted action leaves no manifest."""
    for path in paths:
        Path(path).unlink(missing_ok=True)


def read_manifest(path: PurePath, kind: type[T]) -> T:
    """The outputs of an earlier stage; a `BuildError` where the manifest is missing or of another
    make.
    """
    file = Path(path)
    try:
        text = file.read_bytes()
        adapter: TypeAdapter[T] = _build_adapter(kind)
        return adapter.validate_json(text)
    except FileNotFoundError as error:
        raise TorchyardError(
            "this manifest is not there", location=str(file), hint="run doit build"
        ) from error
    except ValidationError as error:
        raise TorchyardError(
            f"this manifest cannot be read ({error.error_count()} problems)",
            location=str(file),
            hint=f"remove it and run doit build: {file.stem} is then made again",
        ) from error


_build_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def build_record_path(path: PurePath) -> PurePath:
    """Where the record of a manifest lies: `wheel.json` has `wheel.record.json`."""
    return path.with_suffix(".record.json")
