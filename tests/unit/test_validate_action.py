"""The action with stand-ins for what it runs: an interpreter, and cuobjdump."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from tasks.choice import Choice, ToolkitChoice
from tasks.effects import manifests
from tasks.errors import BuildError, ValidationFailedError
from tasks.model import Arch, Interpreter, Layout
from tasks.settings.schema import Settings
from tasks.stages.deps.job import Deps, Program
from tasks.stages.env.job import Environment
from tasks.stages.extensions.job import Built
from tasks.stages.validate.action import run
from tasks.stages.validate.job import Check, SmokeCheck, ValidateJob, Validation
from tasks.stages.validate.plan import CHECKS, plan
from tasks.stages.wheel.job import Wheel
from tests.checkout import ROOT

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins are shell scripts")

NONE = Program("", "")
LAYOUT = Layout(PurePosixPath("/y"), "p", PurePosixPath("/y/wheelhouse"))
CHOICE = Choice(
    system="linux",
    strategy="prebuilt",
    strategy_why="",
    targets=(Arch(12, 0),),
    targets_why="",
    ptx=False,
    torch="2.15.0",
    cuda="13.2",
    toolkit=ToolkitChoice("pypi"),
    python=Interpreter("/usr/bin/python3", "3.11.7"),
)
ALL_GOOD = ["import", "version", "cuda", "device", "matmul", "convolution", "smoke: import"]


def program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def says(name: str, status: str = "passed", detail: str = "") -> str:
    text = json.dumps({"name": name, "status": status, "detail": detail, "remedy": ""})
    return f"echo '{text}'"


def probing(names: Sequence[str], gpu: str, end: str = "") -> str:
    """An interpreter: the probe prints what it is told to, any other script is run by sh."""
    lines = [says("import"), says("gpu", "data", gpu), says("archs", "data", "sm_90 sm_120")]
    lines += [says(name) for name in names if name != "import"]
    return '[ "$1" = -X ] || exec sh "$@"\n' + "\n".join([*lines, end])


class Yard:
    """A build that is there: manifests, a torch folder, one extension with a smoke script."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "torch/lib").mkdir(parents=True)
        (folder / "torch/lib/libtorch_cuda.so").touch()
        (folder / "smoke.so").touch()
        self.images("sm_120")
        self.smoke("echo right")
        publish(folder / "env.json", Environment({}, {}, (), ":"))
        publish(folder / "smoke.json", self.built())

    def built(self) -> Built:
        return Built("smoke", "built", {}, None, (str(self.folder / "smoke.so"),), ("smoke",), {})

    def images(self, sm: str) -> None:
        tool = program(self.folder / "cuobjdump", f'echo "ELF file    1: x.1.{sm}.cubin"')
        made = Deps(
            python="",
            python_version="3.11.7",
            identity="",
            overlay=None,
            scripts="",
            toolkit=None,
            cuobjdump=tool,
            cc=NONE,
            cxx=NONE,
            cmake=NONE,
            ninja=NONE,
            git=None,
        )
        publish(self.folder / "deps.json", made)

    def smoke(self, script: str) -> None:
        (self.folder / "check.py").write_text(script)

    def python(self, script: str, cuda: str | None = "13.2") -> None:
        torch = str(self.folder / "torch")
        path = program(self.folder / "python", script)
        publish(self.folder / "wheel.json", Wheel("2.15.0", "2.15.0", cuda, torch, path, "wheel"))

    def job(self) -> ValidateJob:
        folder = self.folder
        return ValidateJob(
            system="linux",
            checks=CHECKS,
            timeout=60,
            targets=(Arch(12, 0),),
            deps=folder / "deps.json",
            wheel=folder / "wheel.json",
            environment=folder / "env.json",
            extensions={"smoke": folder / "smoke.json"},
            smokes={"smoke": SmokeCheck(folder / "check.py", gpu=True)},
            knowledge=ROOT / "config" / "knowledge",
            templates=folder,
            work=folder / "work",
            manifest=folder / "validate.json",
            log=folder / "validate.log",
        )

    def written(self) -> dict[str, Check]:
        found = manifests.read(self.folder / "validate.json", Validation)
        return {check.name: check for check in found.checks}


def publish(path: Path, value: object) -> None:
    manifests.publish(path, value)


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


def test_with_a_card_everything_is_looked_at(yard: Yard) -> None:
    yard.python(probing(ALL_GOOD, gpu=""))
    (found,) = run(yard.job())
    assert found.counts == {"passed": 11, "failed": 0, "not run": 0}
    names = [check.name for check in found.checks]
    assert names[:5] == ["import", "version", "cuda", "archs", "machine_code"]
    assert yard.written()["smoke: smoke check"] == Check("smoke: smoke check", "passed", "right")
    assert yard.written()["machine_code"].detail == "libtorch_cuda.so: 12.0 native"


def test_without_a_card_the_smoke_check_is_not_run_and_says_why(yard: Yard) -> None:
    yard.python(probing(ALL_GOOD, gpu="no GPU"))
    run(yard.job())
    assert yard.written()["smoke: smoke check"] == Check("smoke: smoke check", "not run", "no GPU")


def test_a_failure_is_written_down_before_it_is_raised(yard: Yard) -> None:
    yard.images("sm_90")
    yard.python(probing(ALL_GOOD, gpu="no GPU"))
    with pytest.raises(ValidationFailedError, match=r"2 of 11 .*machine_code, smoke: m"):
        run(yard.job())
    written = yard.written()
    assert written["machine_code"].status == written["smoke: machine code"].status == "failed"
    assert "holds no code for 12.0" in written["machine_code"].detail


def test_a_crash_of_the_probe_is_a_failure(yard: Yard) -> None:
    yard.python(probing(["version"], gpu="", end="kill -SEGV $$"))
    with pytest.raises(ValidationFailedError, match="cuda"):
        run(yard.job())
    assert "signal 11" in yard.written()["cuda"].detail
    assert yard.written()["matmul"].status == "not run"


def test_a_smoke_check_that_fails_or_hangs_is_a_failure(yard: Yard) -> None:
    yard.python(probing(ALL_GOOD, gpu=""))
    yard.smoke("echo 'axpy: WRONG'; exit 1")
    with pytest.raises(ValidationFailedError, match="smoke: smoke check"):
        run(yard.job())
    assert "WRONG" in yard.written()["smoke: smoke check"].detail
    yard.smoke("sleep 60")
    with pytest.raises(ValidationFailedError):
        run(replace(yard.job(), timeout=1))
    assert "took longer than 1 s" in yard.written()["smoke: smoke check"].detail


def test_an_extension_that_could_not_be_reached_is_not_run(yard: Yard) -> None:
    publish(yard.folder / "smoke.json", Built("smoke", "unreachable", {}))
    yard.python(probing(ALL_GOOD[:-1], gpu=""))
    run(yard.job())
    its = [check for name, check in yard.written().items() if name.startswith("smoke")]
    assert len(its) == 3
    assert {check.status for check in its} == {"not run"}


def test_a_torch_without_cuda_has_no_machine_code_to_check(yard: Yard) -> None:
    yard.python(probing(ALL_GOOD, gpu="torch without CUDA"), cuda=None)
    run(replace(yard.job(), targets=()))
    for name in ("archs", "machine_code", "smoke: smoke check"):
        assert yard.written()[name].status == "not run"


def test_only_the_checks_of_the_settings_are_made(yard: Yard) -> None:
    yard.images("sm_90")
    yard.python(probing(["import", "matmul"], gpu=""))
    (found,) = run(replace(yard.job(), checks=("matmul",)))
    assert [check.name for check in found.checks] == ["matmul"]


def test_without_a_torch_it_says_what_to_run(yard: Yard) -> None:
    manifests.withdraw(yard.folder / "wheel.json")
    with pytest.raises(BuildError, match="doit build"):
        run(yard.job())


def test_the_stage_runs_each_time_and_reads_every_extension() -> None:
    given = {
        "extensions": [{"name": "a", "path": "x", "smoke": {"script": "x/check.py", "gpu": False}}],
        "validation": {"checks": ["matmul", "import"], "timeout": 5},
    }
    stage = plan(Settings.model_validate(given), LAYOUT, CHOICE)
    assert stage.asks == "always"
    assert stage.leaves == (LAYOUT.manifest("validate"),)
    assert LAYOUT.manifest("extensions:a") in stage.reads
    assert stage.job.checks == ("import", "matmul")
    assert stage.job.smokes == {"a": SmokeCheck(LAYOUT.root / "x/check.py", gpu=False)}


def test_the_checks_that_exist_are_those_of_the_settings() -> None:
    given = {"validation": {"checks": list(CHECKS)}}
    assert plan(Settings.model_validate(given), LAYOUT, CHOICE).job.checks == CHECKS
