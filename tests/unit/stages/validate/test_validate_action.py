"""Tests of the validate action with a fake interpreter and a fake cuobjdump."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path, PurePosixPath
from types import SimpleNamespace

import pytest

from tasks.core.errors import TorchyardError, ValidationFailedError
from tasks.core.model import Layout, Stage, ValidationResult
from tasks.core.project import Project
from tasks.runlog import stage_record_io
from tasks.settings.schema import parse_settings
from tasks.stages.extensions.model import BuiltExtension
from tasks.stages.validate.model import SmokeCheck, Validation
from tasks.stages.validate.plan import CHECKS, plan
from tasks.stages.validate.run import run
from tasks.system import manifests
from tests.support.actionyard import PREBUILT
from tests.support.runrecords import BEGIN
from tests.support.validateyard import ALL_GOOD, Yard, probing, program, publish
from tests.support.yard import processes_with

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins are shell scripts")

LAYOUT = Layout(Project.of_checkout(PurePosixPath("/y")), "p", PurePosixPath("/y/wheelhouse"))


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


def test_all_checks_run_with_gpu(yard: Yard) -> None:
    yard.python(probing(ALL_GOOD, gpu=""))
    (found,) = run(yard.job())
    assert found.counts == {"passed": 17, "failed": 0, "not run": 0}
    names = [check.name for check in found.checks]
    assert names[:5] == ["import", "version", "cuda", "archs", "machine_code"]
    assert yard.written()["smoke: smoke check"] == ValidationResult(
        "smoke: smoke check", "passed", "right"
    )


def test_smoke_check_is_not_run_without_gpu(yard: Yard) -> None:
    yard.python(probing(ALL_GOOD, gpu="no GPU"))
    run(yard.job())
    assert yard.written()["smoke: smoke check"] == ValidationResult(
        "smoke: smoke check", "not run", "no GPU"
    )


def test_interrupt_does_not_wait_for_unread_libraries(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = yard.folder / "read"
    yard.library("torch/lib/libtorch_second.so", "12.0")
    yard.deps(program(yard.folder / "cuobjdump", f'echo "$4" >> "{read}"; exec sleep 60'))
    yard.python("")

    def interrupted(*_: object) -> None:
        while not read.exists():
            time.sleep(0.01)
        raise SystemExit(130)

    monkeypatch.setattr("tasks.stages.validate.torch_checks_io.run_probe", interrupted)
    with pytest.raises(SystemExit):
        run(yard.job())
    assert len(read.read_text().splitlines()) == 1
    assert not processes_with(str(yard.folder / "cuobjdump"))


def test_failure_is_written_before_error_is_raised(yard: Yard) -> None:
    yard.listing("sm_90")
    yard.python(probing(ALL_GOOD, gpu="no GPU"))
    with pytest.raises(ValidationFailedError, match=r"2 of 17 .*machine_code, smoke: m"):
        run(yard.job())
    written = yard.written()
    assert written["machine_code"].status == written["smoke: machine code"].status == "failed"
    assert "holds no code for 12.0" in written["machine_code"].detail
    assert "<failure" in (yard.folder / "validate.xml").read_text(encoding="utf-8")


def test_remedy_is_command_for_profile(yard: Yard) -> None:
    yard.python(probing(ALL_GOOD, gpu=""))
    yard.library("torch/lib/libtorch_cuda.so", "9.0")
    with pytest.raises(ValidationFailedError, match="then run doit build profile=mine"):
        run(yard.job())
    remedy = "add the GPU to target.gpus, then run doit build profile=mine"
    assert yard.written()["machine_code"].remedy == remedy


def test_failing_or_hanging_smoke_check_is_failure(yard: Yard) -> None:
    yard.python(probing(ALL_GOOD, gpu=""))
    yard.smoke("echo 'axpy: WRONG'; exit 1")
    with pytest.raises(ValidationFailedError, match="smoke: smoke check"):
        run(yard.job())
    assert "WRONG" in yard.written()["smoke: smoke check"].detail
    assert yard.written()["smoke: smoke check"].remedy.endswith("validate-smoke.log")
    yard.smoke("sleep 60")
    with pytest.raises(ValidationFailedError):
        run(yard.job(timeout=3))
    assert yard.written()["smoke: smoke check"].detail == (
        "the check took longer than 3 s and was ended"
    )


def test_checks_of_unreachable_extension_are_not_run(yard: Yard) -> None:
    publish(yard.folder / "smoke.json", BuiltExtension("smoke", "unreachable", {}))
    yard.python(probing(ALL_GOOD[:-1], gpu=""))
    run(yard.job())
    its = [check for name, check in yard.written().items() if name.startswith("smoke")]
    assert len(its) == 3
    assert {check.status for check in its} == {"not run"}


def test_machine_code_of_cpu_torch_is_not_checked(yard: Yard) -> None:
    yard.python(probing(ALL_GOOD, gpu="torch without CUDA"), cuda=None)
    run(yard.job(targets=()))
    for name in ("archs", "machine_code", "smoke: smoke check"):
        assert yard.written()[name].status == "not run"


def test_only_configured_checks_run(yard: Yard) -> None:
    yard.listing("sm_90")
    yard.python(probing(["import", "matmul"], gpu=""))
    (found,) = run(yard.job(checks=("matmul",)))
    assert [check.name for check in found.checks] == ["matmul"]


def test_missing_torch_is_error_with_command(yard: Yard) -> None:
    before = sorted(yard.folder.rglob("*"))
    with pytest.raises(TorchyardError, match="profile mine has no torch yet") as error:
        run(yard.job())
    assert error.value.hint == "run: doit build profile=mine"
    assert sorted(yard.folder.rglob("*")) == before


def test_unbuilt_extension_fails_and_other_checks_run(yard: Yard) -> None:
    yard.python(probing(ALL_GOOD[:-1], gpu=""))
    (yard.folder / "smoke.json").unlink()
    with pytest.raises(ValidationFailedError, match="1 of 17 checks failed: smoke: import"):
        run(yard.job())
    written = yard.written()
    assert written["smoke: import"].remedy == "doit build profile=mine"
    assert "not built yet" in written["smoke: import"].detail
    assert written["smoke: machine code"].status == "not run"
    assert written["smoke: smoke check"].status == "not run"
    assert written["matmul"].status == written["machine_code"].status == "passed"


def test_unreadable_extension_manifest_is_failure(yard: Yard) -> None:
    yard.python(probing(ALL_GOOD[:-1], gpu=""))
    (yard.folder / "smoke.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ValidationFailedError):
        run(yard.job(checks=("machine_code",)))
    check = yard.written()["smoke: machine code"]
    assert (check.status, "cannot be read" in check.detail) == ("failed", True)


def test_missing_interpreter_fails_import(yard: Yard) -> None:
    yard.torch(str(yard.folder / "gone" / "python"))
    with pytest.raises(ValidationFailedError):
        run(yard.job())
    assert "cannot start" in yard.written()["import"].detail
    assert yard.written()["matmul"] == ValidationResult(
        "matmul", "not run", "torch does not import"
    )


def test_path_is_short_in_table_and_full_in_manifest(
    yard: Yard, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = f"{yard.folder}/venv/bin/python"
    yard.python(f"echo 'no module in {broken}' >&2; exit 1")
    with pytest.raises(ValidationFailedError):
        run(yard.job())
    whole = yard.written()["import"].detail
    assert broken in whole
    assert whole.replace(broken, "venv/bin/python") in " ".join(capsys.readouterr().out.split())


def test_remedy_path_is_short_in_table(yard: Yard, capsys: pytest.CaptureFixture[str]) -> None:
    yard.python("echo 'nobody knows why' >&2; exit 1")
    with pytest.raises(ValidationFailedError) as failed:
        run(yard.job())
    whole, logs = yard.written()["import"].remedy, str(yard.job().log.parent)
    assert str(yard.folder) in logs
    assert whole == f"see {logs}"
    assert logs not in capsys.readouterr().out
    assert logs not in failed.value.hint


def test_settings_changed_since_build_are_warning(
    yard: Yard, capsys: pytest.CaptureFixture[str]
) -> None:
    yard.python(probing(ALL_GOOD, gpu=""))
    requested = Stage("compile", "compile", "", None, {"type": "Debug"}, (yard.folder / "c.json",))
    built = Stage("compile", "compile", "", None, {"type": "Release"}, requested.outputs)
    publish(yard.folder / "c.json", {})
    stage_record_io.write_stage_record(built, "first time", 1.0, "0")
    (calm,) = run(yard.job(stages=(built,)))
    assert calm.warnings == ()
    capsys.readouterr()
    (found,) = run(yard.job(stages=(requested,)))
    message = (
        "the build does not match the current settings "
        "(compile: build.type: now Debug, was Release); run: doit build profile=mine"
    )
    assert found.warnings == (message,)
    assert " ".join(capsys.readouterr().out.split()).startswith(f"warning {message} ")
    assert manifests.read_manifest(yard.folder / "validate.json", Validation).warnings == (message,)


def test_unbuilt_extension_causes_no_additional_warning(yard: Yard) -> None:
    yard.python(probing(ALL_GOOD[:-1], gpu=""))
    lists = yard.folder / "smoke.json"
    lists.unlink()
    stage = Stage("extensions:smoke", "extensions", "", None, {}, (lists,))
    with pytest.raises(ValidationFailedError):
        run(yard.job(stages=(stage,)))
    assert manifests.read_manifest(yard.folder / "validate.json", Validation).warnings == ()


@pytest.mark.parametrize(
    ("outcome", "why", "remedy"),
    [
        ("failed", "the last build failed: k.cu(9): error: no such type",
         "doit diagnose profile=mine --log logs/extensions-smoke.log"),
        ("changed", "not built yet: ", "doit build profile=mine"),
    ],
)  # fmt: skip
def test_failed_extension_build_points_to_its_log(
    yard: Yard, outcome: str, why: str, remedy: str
) -> None:
    yard.python(probing(ALL_GOOD[:-1], gpu=""))
    (yard.folder / "smoke.json").unlink()
    stage = {"event": "stage", "at": 1.0, "stage": "extensions:smoke", "reason": "first time"}
    done = {"event": "done", "at": 2.0, "stage": "extensions:smoke", "outcome": outcome,
            "error": {"what": "k.cu(9): error: no such type"},
            "diagnosis": {"log": "logs/extensions-smoke.log"}}  # fmt: skip
    record = yard.folder / "records" / "runs" / "20261122T034027Z-1.jsonl"
    record.parent.mkdir(parents=True)
    events = map(json.dumps, (BEGIN, stage, done))
    record.write_text("".join(f"{line}\n" for line in events), encoding="utf-8")
    with pytest.raises(ValidationFailedError):
        run(yard.job())
    check = yard.written()["smoke: import"]
    assert check.detail.startswith(why)
    assert check.remedy == remedy


def test_validate_always_runs_and_has_no_inputs() -> None:
    given = {
        "extensions": [{"name": "a", "path": "x", "smoke": {"script": "x/check.py", "gpu": False}}],
        "validation": {"only": ["matmul", "import"], "timeout": 5},
    }
    built = Stage("extensions:a", "extensions", "", SimpleNamespace(name="a"), {}, ())
    stage = plan(parse_settings(given), LAYOUT, PREBUILT, (built,))
    assert stage.uptodate_check == "always"
    assert stage.outputs == (LAYOUT.compute_manifest_path("validate"),)
    assert stage.extra_outputs == (LAYOUT.build / "validate.xml",)
    assert stage.inputs == ()
    assert stage.job.extensions == {"a": LAYOUT.compute_manifest_path("extensions:a")}
    assert stage.job.checks == ("import", "matmul")
    assert stage.job.smokes == {"a": SmokeCheck(LAYOUT.root / "x/check.py", gpu=False)}


def test_settings_accept_every_check() -> None:
    given = {"validation": {"only": list(CHECKS)}}
    assert plan(parse_settings(given), LAYOUT, PREBUILT, ()).job.checks == CHECKS
