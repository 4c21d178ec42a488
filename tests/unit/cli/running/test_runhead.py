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
    result = build_run_header("mine", subject.opened, {"validate", "build"})
    requested = result["asked"]
    assert isinstance(requested, dict)
    assert set(requested) == {
        *("target.gpus", "torch.index", "source.mirrors.https://github.com/", "extensions")
    }
    assert requested["torch.index"] == "https://***@index.example/simple?token=***"
    assert "hunter" not in json.dumps(result)
    assert result["command"] == ["build", "validate"]


def test_run_header_holds_resolution_host_and_graph(yard: Path) -> None:
    subject = opened(yard)
    assert subject.opened
    result = json.loads(json.dumps(build_run_header("mine", subject.opened, {"build"})))
    assert result["decided"]["strategy"] == "prebuilt"
    assert result["decided"]["targets"] == ["12.0"]
    assert result["decided"]["why"]
    assert result["host"]["gpus"] == [{"name": "NVIDIA GeForce RTX 5090", "capability": "12.0"}]
    assert result["host"]["cores"] >= 1
    assert result["host"]["memory_mib"] > 0
    graph = {stage["name"]: stage["after"] for stage in result["stages"]}
    assert graph["env"] == ["deps"]
    assert "deps" in graph["wheel"]
    assert "validate" not in graph
    more = build_run_header("mine", subject.opened, {"validate"})["stages"]
    assert isinstance(more, list)
    assert more[-1] == {"name": "validate", "after": []}
