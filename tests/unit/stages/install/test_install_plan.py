"""The install stage exists if install.into is set, and is refused if no wheel is built."""

from __future__ import annotations

from pathlib import PurePath, PurePosixPath
from typing import Any

import pytest

from tasks.core.errors import SettingsError
from tasks.core.model import Host, Plan
from tests.unit.planning.test_decide import existing, host
from tests.unit.test_plan import SMOKE, names, plan_of

INTO = {"into": "/home/me/gs/bin/python"}


def planned(on: Host, **config: Any) -> Plan:
    return plan_of(on, install=INTO, **config)


def test_install_follows_extensions_and_reads_their_manifests() -> None:
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
def test_install_inputs_are_outputs_of_earlier_stages(
    extensions: list[dict[str, Any]],
) -> None:
    *before, stage = planned(host(), extensions=extensions).stages
    job = stage.job
    single = {path for path in vars(job).values() if isinstance(path, PurePath)}
    given = {path for path in single if path.suffix == ".json"} - {job.manifest}
    assert {*given, *job.extensions.values()} == set(stage.inputs)
    assert set(stage.inputs) <= {path for one in before for path in one.outputs}


def test_companions_are_installed_with_extensions() -> None:
    plan = planned(host(), companions=["torchvision", "triton"], extensions=[SMOKE])
    assert list(plan.stages[-1].job.extensions) == ["torchvision", "smoke"]


def test_install_is_absent_without_setting() -> None:
    plan = plan_of(host())
    assert plan.absent["install"] == "install.into is not set"
    assert "install into" not in dict(plan.headline)


def test_partial_build_has_no_install_stage() -> None:
    plan = planned(host(), build={"target": "c10"})
    assert "a part of PyTorch, which has no wheel" in plan.absent["install"]


def test_other_environment_reruns_only_install() -> None:
    one = planned(host(), extensions=[SMOKE])
    two = plan_of(host(), install={"into": "python3"}, extensions=[SMOKE])
    changed = [
        a.name
        for a, b in zip(one.stages, two.stages, strict=True)
        if a.fingerprint != b.fingerprint
    ]
    assert changed == ["install"]


def test_existing_torch_cannot_be_installed_elsewhere() -> None:
    with pytest.raises(SettingsError, match="there is no wheel") as error:
        planned(existing("2.11.0+cu130", "13.0"), torch={"strategy": "existing"})
    assert error.value.location == "install.into"
    assert "set install.into: null" in error.value.hint


def test_cmake_backend_cannot_be_installed_into_python() -> None:
    config = {"torch": {"strategy": "source"}, "build": {"backend": "cmake"}}
    with pytest.raises(SettingsError, match="builds no torch for Python") as error:
        planned(host(), **config)
    assert error.value.location == "install.into"
