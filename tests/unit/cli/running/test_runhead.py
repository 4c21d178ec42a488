"""The run header: what is known before a run starts."""

from __future__ import annotations

import json
from pathlib import Path

from tasks.cli.running.run_boundaries import build_run_header
from tests.support.checkout import opened, write

PROFILE = """\
target: {gpus: ['12.0']}
torch: {index: "https://me:hunter2@index.example/simple?token=hunter3"}
source: {mirrors: {"https://github.com/": "https://bot:hunter2@mirror.example/"}}
extensions: [{name: a, git: "https://me:hunter2@git.example/a.git"}]
"""


def test_requested_settings_hold_no_defaults_and_no_secrets(yard: Path) -> None:
    write(yard, PROFILE)
    subject = opened(yard)
    assert subject.opened
    told = build_run_header("mine", subject.opened, {"validate", "build"})
    asked = told["asked"]
    assert isinstance(asked, dict)
    assert set(asked) == {
        *("target.gpus", "torch.index", "source.mirrors.https://github.com/", "extensions")
    }
    assert asked["torch.index"] == "https://***@index.example/simple?token=***"
    assert "hunter" not in json.dumps(told)
    assert told["command"] == ["build", "validate"]


def test_run_header_holds_resolution_host_and_graph(yard: Path) -> None:
    subject = opened(yard)
    assert subject.opened
    told = json.loads(json.dumps(build_run_header("mine", subject.opened, {"build"})))
    assert told["decided"]["strategy"] == "prebuilt"
    assert told["decided"]["targets"] == ["12.0"]
    assert told["decided"]["why"]
    assert told["host"]["gpus"] == [{"name": "NVIDIA GeForce RTX 5090", "capability": "12.0"}]
    assert told["host"]["cores"] >= 1
    assert told["host"]["memory_mib"] > 0
    graph = {stage["name"]: stage["after"] for stage in told["stages"]}
    assert graph["env"] == ["deps"]
    assert "deps" in graph["wheel"]
    assert "validate" not in graph
    more = build_run_header("mine", subject.opened, {"validate"})["stages"]
    assert isinstance(more, list)
    assert more[-1] == {"name": "validate", "after": []}
