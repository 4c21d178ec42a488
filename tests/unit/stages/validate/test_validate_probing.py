"""After a hang or crash, the remaining checks run in a new probe process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tasks.core.errors import ValidationFailedError
from tasks.core.model import ValidationResult
from tasks.stages.env.model import Environment
from tasks.stages.extensions.model import BuiltExtension
from tasks.stages.validate.check_results import (
    GPU_HUNG,
    ProbeOutput,
    ProbeRun,
    collect_probe_output,
)
from tasks.stages.validate.run import run
from tests.support.validateyard import Yard, publish, says

CHECKS = ("version", "device", "matmul", "convolution")
FIRST = ("import", "gpu", "archs")


def saying(*names: str, status: str = "passed") -> tuple[str, ...]:
    return tuple(
        f'{{"name": "{name}", "status": "{status}", "detail": "", "remedy": ""}}' for name in names
    )


def program(hangs: Sequence[str] = (), crashes: Sequence[str] = ()) -> Callable[..., ProbeRun]:
    """Return a probe that hangs or crashes at these checks."""

    def once(left: Sequence[str]) -> ProbeRun:
        lines: tuple[str, ...] = ()
        for name in (*FIRST, *left):
            if name in hangs:
                return ProbeRun(lines, "the check took longer than 1 s and was ended", hung=True)
            if name in crashes:
                return ProbeRun(lines, "the check program failed (signal 11)")
            lines += saying(name)
        return ProbeRun(lines)

    return once


def list_failures(output: ProbeOutput) -> dict[str, str]:
    return {name: how.failure for name, how in output.crashes.items()}


def test_successful_probe_runs_once() -> None:
    calls: list[tuple[str, ...]] = []

    def once(left: Sequence[str]) -> ProbeRun:
        calls.append(tuple(left))
        return program()(left)

    output = collect_probe_output(once, CHECKS)
    assert (list_failures(output), output.stop_reason, output.hung) == ({}, "", 0)
    assert list(output.lines) == [*FIRST, *CHECKS]
    assert calls == [CHECKS]


def test_hang_fails_only_its_check() -> None:
    output = collect_probe_output(program(hangs=["device"]), CHECKS)
    assert list_failures(output) == {"device": "the check took longer than 1 s and was ended"}
    assert {"version", "matmul", "convolution"} <= output.lines.keys()
    assert (output.stop_reason, output.hung) == ("", 1)


def test_second_hang_stops_probe() -> None:
    output = collect_probe_output(program(hangs=["device", "matmul"]), CHECKS)
    assert list(output.crashes) == ["device", "matmul"]
    assert "convolution" not in output.lines
    assert (output.stop_reason, output.hung) == (GPU_HUNG, 2)


def test_each_crash_fails_only_its_check() -> None:
    output = collect_probe_output(program(crashes=["version", "device", "convolution"]), CHECKS)
    assert list(output.crashes) == ["version", "device", "convolution"]
    assert "matmul" in output.lines
    assert (output.stop_reason, output.hung) == ("", 0)


def test_failed_gpu_search_stops_probe() -> None:
    output = collect_probe_output(program(hangs=["gpu"]), CHECKS)
    assert (list(output.crashes), output.stop_reason, output.no_gpu_reason) == (
        ["gpu"],
        GPU_HUNG,
        None,
    )
    assert (
        collect_probe_output(program(crashes=["gpu"]), CHECKS).stop_reason
        == "the search for a GPU failed"
    )


def test_failed_import_stops_probe() -> None:
    output = collect_probe_output(program(crashes=["import"]), CHECKS)
    assert (list(output.crashes), output.stop_reason) == (["import"], "torch does not import")
    failed = collect_probe_output(lambda _: ProbeRun(saying("import", status="failed")), CHECKS)
    assert (list_failures(failed), failed.stop_reason) == ({}, "torch does not import")


def test_silent_probe_end_is_failure() -> None:
    output = collect_probe_output(lambda _: ProbeRun(saying(*FIRST, "version")), CHECKS)
    assert list_failures(output)["device"] == "the check program ended without a result"


TORCH = """
import time
__version__ = "2.15.0"
class version: cuda = "13.2"
class cuda:
    is_available = staticmethod(lambda: True)
    init = staticmethod(lambda: None)
    get_arch_list = staticmethod(lambda: ["sm_120"])
    get_device_properties = staticmethod(lambda _: time.sleep(60))
class device:
    def __init__(self, type): self.type = type
"""
CRASH = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)\n"


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_hanging_gpu_and_crashing_extension_do_not_stop_other_checks(
    tmp_path: Path,
) -> None:
    """Runs the real probe with a torch that sleeps."""
    yard = Yard(tmp_path)
    (tmp_path / "torch" / "__init__.py").write_text(TORCH, encoding="utf-8")
    for name, text in (("crashing", CRASH), ("calm", "")):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        publish(tmp_path / f"{name}.json", BuiltExtension(name, "built", {}, imports=(name,)))
    yard.torch(sys.executable)
    publish(
        tmp_path / "extension-env.json", Environment({"PYTHONPATH": str(tmp_path)}, {}, (), ":")
    )
    job = yard.job(
        timeout=5,
        checks=("import", "version", "device", "extensions"),
        extensions={name: tmp_path / f"{name}.json" for name in ("crashing", "calm")},
        smokes={},
    )
    with pytest.raises(ValidationFailedError, match=r"2 of 5 .*: device, crashing: import"):
        run(job)
    written = yard.written()
    assert written["device"].detail == "the check took longer than 5 s and was ended"
    assert written["device"].cause == "hang"
    assert "signal 11" in written["crashing: import"].detail
    assert written["crashing: import"].cause == "crash"
    assert written["version"] == ValidationResult("version", "passed", "2.15.0")
    assert written["calm: import"] == ValidationResult("calm: import", "passed", "calm")


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")
def test_unresponsive_driver_fails_device_and_skips_other_checks(
    tmp_path: Path,
) -> None:
    yard = Yard(tmp_path)
    yard.python('[ "$1" = -X ] || exit 0\n' + says("import") + "\nsleep 60")
    with pytest.raises(ValidationFailedError, match=": device"):
        run(yard.job(timeout=3))
    written = yard.written()
    detail = "search for a GPU: the check took longer than 3 s and was ended"
    assert written["device"].detail == detail
    assert written["device"].cause == "hang"
    for name in ("version", "matmul", "smoke: import", "smoke: smoke check"):
        assert written[name] == ValidationResult(name, "not run", GPU_HUNG)


def test_crash_after_last_check_is_reported() -> None:
    def once(left: Sequence[str]) -> ProbeRun:
        return ProbeRun(program()(left).lines, "the check program failed (signal 11)")

    output = collect_probe_output(once, CHECKS)
    assert list_failures(output) == {"exit": "the check program failed (signal 11)"}
    assert list(output.lines) == [*FIRST, *CHECKS]
