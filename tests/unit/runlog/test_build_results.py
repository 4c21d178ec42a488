"""What came out of a run is told as what it was made of, and when."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.runlog.build_results import collect_results
from tasks.runlog.run_record import Run, StageRun

COMMIT = {"commit": "2f81284b0e8e"}
WHEEL = {"version": "2.9.0", "kind": "wheel"}
EXTENSION: dict[str, Any] = {"name": "a", "status": "built", "source": {"commit": "901f49d00000"}}


def run_of(strategy: str, *stages: StageRun) -> Run:
    return Run("", "", ("build",), "p", 1, resolution={"strategy": strategy}, stages=stages)


def did(stage: str, outputs: dict[str, Any], outcome: str = "changed") -> StageRun:
    return StageRun(stage, 0.0, outcome=outcome, outputs=outputs)


@pytest.mark.parametrize(
    ("run", "source", "made"),
    [
        (run_of("prebuilt", did("wheel", WHEEL)), {}, "official wheel"),
        (run_of("prebuilt", did("wheel", WHEEL)), COMMIT, "official wheel"),
        (run_of("prebuilt"), {}, "official wheel, from an earlier run"),
        (run_of("source", did("wheel", WHEEL)), COMMIT, "commit 2f81284b0e8e, clean"),
        (run_of("source"), COMMIT, "commit 2f81284b0e8e, clean, from an earlier run"),
        (run_of("source", did("source", {}, "failed")), {}, "from an earlier run"),
        (run_of("source", did("source", COMMIT)), COMMIT, "from an earlier run"),
    ],
)
def test_torch_is_told_by_what_made_it(run: Run, source: dict[str, Any], made: str) -> None:
    [torch] = collect_results({"source": source, "wheel": WHEEL}, run).parts
    assert torch.origin == made


def test_an_extension_of_an_earlier_run_is_told_as_one() -> None:
    lying = {"extensions:a": EXTENSION}
    now, before = run_of("source", did("extensions:a", EXTENSION)), run_of("source")
    told = [collect_results(lying, run).parts[0].origin for run in (now, before)]
    assert told == [
        "commit 901f49d00000, clean",
        "commit 901f49d00000, clean, from an earlier run",
    ]
