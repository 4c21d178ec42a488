"""The install stage is part of a plan where install.into asks for it, and refused where nothing is
made that could be put anywhere.
"""

from __future__ import annotations

from pathlib import PurePath, PurePosixPath
from typing import Any

import pytest

from tasks.core.errors import SettingsError
from tasks.core.model import Host, Plan
from tests.unit.planning.test_decide import existing, host
from tests.unit.test_plan import SMOKE, names, plan_of

INTO = {"into": "/home/me/gs/bin/python"}


def planned(on: Host, **asked: Any) -> Plan:
    return plan_of(on, install=INTO, **asked)


def test_it_comes_after_the_extensions_and_reads_what_they_leave() -> None:
    plan = planned(host(), extensions=[SMOKE])
    assert names(plan) == ["deps", "env", "wheel", "extensions:smoke", "install"]
    assert "install" not in plan.absent
    stage = plan.stages[-1]
    build = PurePosixPath("/yard/build/p")
    assert stage.outputs == (build / "install.json",)
    named = ("deps.json", "extension-env.json", "wheel.json", "extensions/smoke.json")
    assert stage.inputs == tuple(build / name for name in named)
    assert stage.job.into == INTO["into"]
    assert dict(plan.headline)["install into"] == INTO["into"]


@pytest.mark.parametrize("extensions", [[], [SMOKE]])
def test_every_manifest_that_it_is_given_is_read_and_is_left_by_a_stage_before_it(
    extensions: list[dict[str, Any]],
) -> None:
    *before, stage = planned(host(), extensions=extensions).stages
    job = stage.job
    single = {path for path in vars(job).values() if isinstance(path, PurePath)}
    given = {path for path in single if path.suffix == ".json"} - {job.manifest}
    assert {*given, *job.extensions.values()} == set(stage.inputs)
    assert set(stage.inputs) <= {path for one in before for path in one.outputs}


def test_companions_are_put_there_with_the_extensions() -> None:
    plan = planned(host(), companions=["torchvision", "triton"], extensions=[SMOKE])
    assert list(plan.stages[-1].job.extensions) == ["torchvision", "smoke"]


def test_without_the_setting_it_is_absent_with_its_reason() -> None:
    plan = plan_of(host())
    assert plan.absent["install"] == "install.into is not set"
    assert "install into" not in dict(plan.headline)


def test_a_part_of_the_tree_makes_no_wheel_to_put_anywhere() -> None:
    plan = planned(host(), build={"target": "c10"})
    assert "a part of PyTorch, which has no wheel" in plan.absent["install"]


def test_another_environment_runs_it_again_and_nothing_else() -> None:
    one = planned(host(), extensions=[SMOKE])
    two = plan_of(host(), install={"into": "python3"}, extensions=[SMOKE])
    changed = [
        a.name
        for a, b in zip(one.stages, two.stages, strict=True)
        if a.fingerprint != b.fingerprint
    ]
    assert changed == ["install"]


def test_a_torch_that_is_there_already_cannot_be_put_elsewhere() -> None:
    with pytest.raises(SettingsError, match="builds no wheel of it") as told:
        planned(existing("2.11.0+cu130", "13.0"), torch={"strategy": "existing"})
    assert told.value.location == "install.into"
    assert "set install.into: null" in told.value.hint


def test_the_libraries_alone_are_nothing_for_a_python() -> None:
    asked = {"torch": {"strategy": "source"}, "build": {"backend": "cmake"}}
    with pytest.raises(SettingsError, match="builds no torch for Python") as told:
        planned(host(), **asked)
    assert told.value.location == "install.into"
