"""Records of runs that never were: written as a build writes them, for the report to read."""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDERS = (
    "aten/src/ATen/native",
    "aten/src/ATen/native/cuda",
    "torch/csrc/jit",
    "c10/util",
    "caffe2",
)
STAGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("deps", ()),
    ("source", ()),
    ("env", ("deps", "source")),
    ("compile", ("deps", "source", "env")),
    ("wheel", ("deps", "compile")),
    ("extensions:simple-knn", ("deps", "env", "wheel")),
    ("extensions:diff-gaussian-rasterization", ("deps", "env", "wheel")),
    (
        "install",
        ("deps", "wheel", "extensions:simple-knn", "extensions:diff-gaussian-rasterization"),
    ),
)
BEGIN: dict[str, Any] = {
    "event": "begin",
    "schema": 1,
    "when": "2026-11-22T03:40:27+00:00",
    "torchyard": "0.1.0",
    "command": ["build"],
    "profile": "trial",
    "pid": 123,
    "host": {
        "system": "linux",
        "machine": "x86_64",
        "cores": 16,
        "memory_mib": 64000,
        "python": "3.11.7",
        "gpus": [{"name": "RTX 5090", "capability": "12.0"}],
    },
    "asked": {"target.gpus": ["RTX 5090"], "torch.strategy": "source"},
    "decided": {
        "strategy": "source",
        "why": ["a patch asks for a build"],
        "torch": "2.15.0",
        "cuda": "13.2",
        "targets": ["12.0"],
        "toolkit": "CUDA 13.2 from Python packages",
    },
    "stages": [{"name": name, "after": list(after)} for name, after in STAGES],
}


def edges(count: int, slots: int = 16, seconds: float = 1200.0, seed: int = 1) -> list[Any]:
    """So many on so many slots, which take about so long; some are large."""
    chance = random.Random(seed)
    mean = seconds * slots / count
    free = [60.0] * slots
    found = []
    for number in range(count):
        began = heapq.heappop(free)
        took = chance.expovariate(1 / mean) + 0.05
        heapq.heappush(free, began + took)
        suffix = chance.choices(("cpp.o", "cu.o", "so", "h"), (70, 22, 5, 3))[0]
        folder = chance.choices(FOLDERS, (40, 25, 20, 10, 5))[0]
        output = f"{folder}/CMakeFiles/torch_cpu.dir/part{number % 97}/Kernel{number}.{suffix}"
        times = {"began": round(began, 3), "ended": round(began + took, 3)}
        found.append({"output": output, "peak_mib": int(180 + 220 * took), **times})
    return found


def events(made: list[Any], *, failed: bool = False, **begin: Any) -> Iterator[dict[str, Any]]:
    """A build whose compile made these; one that `failed` did at that in the middle."""
    if failed:
        made = [one | {"failed": True} if one is made[len(made) // 2] else one for one in made]
    last = max((edge["ended"] for edge in made), default=60.0)
    yield {**BEGIN, **begin}
    for at, (name, _) in zip((0.2, 5.0, 58.0, 60.0), STAGES, strict=False):
        yield {"event": "stage", "at": at, "stage": name, "reason": "commit 2f81284 → 901f49d"}
        if name != "compile":
            took = {"seconds": 1.9, "outcome": "changed"}
            yield {"event": "done", "at": at + 1.9, "stage": name, **took}
    for at in range(60, int(last), 2):
        facts = {"jobs": 16, "held_back": at // 60 % 5, "hit_rate": 0.4}
        used = {"used_mib": 20000 + 300 * (at % 97), "limit_mib": 64000, "done": at, "total": 9999}
        yield {"event": "sample", "at": at, "stage": "compile"} | facts | used
    for place in range(0, len(made), 1000):
        yield {
            "event": "edges",
            "at": last,
            "stage": "compile",
            "edges": made[place : place + 1000],
        }
    end = {"outcome": "failed", **FAILURE} if failed else {"outcome": "changed"}
    told = {"seconds": last - 60, "cache": {"hits": 312, "misses": 88}, **end}
    yield {"event": "done", "at": last, "stage": "compile", **told}
    text = "this machine has little memory for 16 jobs"
    yield {"event": "said", "at": 61.0, "stage": "compile", "kind": "warn", "text": text}
    yield {
        "event": "end",
        "at": last,
        "outcome": "failed" if failed else "done",
        "code": int(failed),
    }


FAILURE = {
    "error": {
        "what": "ninja stopped: 1 of 9,999 outputs could not be made",
        "where": "build/trial/logs/compile.log",
        "todo": "doit diagnose",
    },
    "diagnosis": {
        "cause": "nvcc-arch-unsupported",
        "candidates": ["nvcc-arch-unsupported"],
        "first_error": {
            "file": "k.cu",
            "line": 7,
            "text": "nvcc fatal   : Unsupported gpu architecture 'compute_120'",
            "log_line": 812,
        },
        "explanation": "This CUDA toolkit is older than the card",
        "remedy": "set toolkit.version to 12.8 or later",
        "evidence": "unverified: as in pytorch/pytorch#1",
        "log": "build/trial/logs/compile.log",
    },
}


def written(folder: Path, told: Iterator[dict[str, Any]]) -> Path:
    """The record as a file of the folder, called as it is by a build."""
    lines = list(told)
    stamp = "".join(sign for sign in lines[0]["when"][:19] if sign not in "-:")
    path = folder / f"{stamp}Z-{lines[0]['pid']}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path
