"""A check that hangs or crashes costs itself: what comes after it is asked of a new process."""

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
    """One that ends at these checks."""

    def once(left: Sequence[str]) -> ProbeRun:
        lines: tuple[str, ...] = ()
        for name in (*FIRST, *left):
            if name in hangs:
                return ProbeRun(lines, "the check took longer than 1 s and was ended", hung=True)
            if name in crashes:
                return ProbeRun(lines, "the probe failed (signal 11)")
            lines += saying(name)
        return ProbeRun(lines)

    return once


def lost(said: ProbeOutput) -> dict[str, str]:
    return {name: how.failure for name, how in said.crashes.items()}


def test_successful_probe_runs_once() -> None:
    asked: list[tuple[str, ...]] = []

    def once(left: Sequence[str]) -> ProbeRun:
        asked.append(tuple(left))
        return program()(left)

    said = collect_probe_output(once, CHECKS)
    assert (lost(said), said.stop_reason, said.hung) == ({}, "", 0)
    assert list(said.lines) == [*FIRST, *CHECKS]
    assert asked == [CHECKS]


def test_hang_fails_only_its_check() -> None:
    said = collect_probe_output(program(hangs=["device"]), CHECKS)
    assert lost(said) == {"device": "the check took longer than 1 s and was ended"}
    assert {"version", "matmul", "convolution"} <= said.lines.keys()
    assert (said.stop_reason, said.hung) == ("", 1)


def test_second_hang_stops_probe() -> None:
    said = collect_probe_output(program(hangs=["device", "matmul"]), CHECKS)
    assert list(said.crashes) == ["device", "matmul"]
    assert "convolution" not in said.lines
    assert (said.stop_reason, said.hung) == (GPU_HUNG, 2)


def test_each_crash_fails_only_its_check() -> None:
    said = collect_probe_output(program(crashes=["version", "device", "convolution"]), CHECKS)
    assert list(said.crashes) == ["version", "device", "convolution"]
    assert "matmul" in said.lines
    assert (said.stop_reason, said.hung) == ("", 0)


def test_failed_gpu_search_stops_probe() -> None:
    said = collect_probe_output(program(hangs=["gpu"]), CHECKS)
    assert (list(said.crashes), said.stop_reason, said.no_gpu_reason) == (["gpu"], GPU_HUNG, None)
    assert (
        collect_probe_output(program(crashes=["gpu"]), CHECKS).stop_reason
        == "the search for a GPU failed"
    )


def test_failed_import_stops_probe() -> None:
    said = collect_probe_output(program(crashes=["import"]), CHECKS)
    assert (list(said.crashes), said.stop_reason) == (["import"], "torch does not import")
    failed = collect_probe_output(lambda _: ProbeRun(saying("import", status="failed")), CHECKS)
    assert (lost(failed), failed.stop_reason) == ({}, "torch does not import")


def test_silent_probe_end_is_failure() -> None:
    said = collect_probe_output(lambda _: ProbeRun(saying(*FIRST, "version")), CHECKS)
    assert lost(said)["device"] == "the probe ended without a result"


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
    """The probe itself, over a torch that sleeps."""
    yard = Yard(tmp_path)
    (tmp_path / "torch" / "__init__.py").write_text(TORCH, encoding="utf-8")
    for name, text in (("crashing", CRASH), ("calm", "")):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        publish(tmp_path / f"{name}.json", BuiltExtension(name, "built", {}, imports=(name,)))
    yard.torch(sys.executable)
    publish(tmp_path / "env.json", Environment({"PYTHONPATH": str(tmp_path)}, {}, (), ":"))
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
        return ProbeRun(program()(left).lines, "the probe failed (signal 11)")

    said = collect_probe_output(once, CHECKS)
    assert lost(said) == {"exit": "the probe failed (signal 11)"}
    assert list(said.lines) == [*FIRST, *CHECKS]
