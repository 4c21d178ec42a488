"""A diagnosis for programs: `doit diagnose --json`, and the record of a run that failed."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from tasks.diagnosis.decide import Diagnosis


def build_diagnosis_document(found: Diagnosis, path: PurePath, remedy: str = "") -> dict[str, Any]:
    """The diagnosis of the log `path`. `line` is that of the source where a compiler names one,
    else that of the log; `remedy` is the one for this host, where there is one.
    """
    failure, error = found.failure, found.first_error
    return {
        "cause": failure.slug if failure else None,
        "candidates": list(found.candidates),
        "first_error": {
            "file": error.file or str(path),
            "line": error.line if error.line is not None else error.number,
            "text": error.text,
            "log_line": error.number,
        }
        if error
        else None,
        "explanation": failure.cause if failure else None,
        "remedy": (remedy or failure.remedy) if failure else None,
        "evidence": failure.status if failure else None,
        "goes_by": found.by or None,
        "log": str(path),
    }
