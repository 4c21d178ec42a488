"""Tests of the probe's checks with a fake torch; tests/real runs them with a real one."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, get_args

import pytest

from tasks.settings.values import ValidationCheckName
from tasks.stages.validate.torch_checks_io import _PROBE_CHECKS
from tests.support.besides import PROBES, beside, module

CARD = SimpleNamespace(name="RTX 5090", total_memory=32 << 30, major=12, minor=0)
CUDA = SimpleNamespace(type="cuda")


def torch(cuda: str | None = "13.2", *, card: bool = True) -> Any:
    made: Any = ModuleType("torch")
    made.__version__, made.__file__ = "2.15.0", "/venv/torch/__init__.py"
    made.version = SimpleNamespace(cuda=cuda)
    made.device = lambda kind: SimpleNamespace(type=kind)
    made.manual_seed = lambda seed: None
    made.cuda = SimpleNamespace(
        is_available=lambda: card,
        init=lambda: None,
        get_device_properties=lambda index: CARD,
        get_arch_list=lambda: ["sm_120"],
    )
    made.distributed = SimpleNamespace(is_available=lambda: True, is_nccl_available=lambda: False)
    return made


@pytest.fixture
def probes() -> Iterator[Callable[..., ModuleType]]:
    """Import modules of the probe with a fake torch."""
    with beside(PROBES, torch()):
        yield module


def read_results(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, str]]:
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return {line["name"]: line for line in lines}


def given(**changed: object) -> dict[str, object]:
    return {
        "checks": list(get_args(ValidationCheckName)),
        "version": "2.15.0",
        "folder": "/venv/torch",
        "cuda": "13.2",
        "cards": 0,
        "imports": {},
        **changed,
    }


def test_probe_runs_expected_checks_in_order(
    probes: Callable[..., ModuleType],
) -> None:
    assert tuple(probes("torch_probe").CHECKS) == _PROBE_CHECKS
    names = get_args(ValidationCheckName)
    assert [name for name in names if name in _PROBE_CHECKS] == list(_PROBE_CHECKS)


def test_checks_that_can_hang_come_last_before_extensions(
    probes: Callable[..., ModuleType],
) -> None:
    assert _PROBE_CHECKS[-2:] == ("compile", "nccl")
    assert get_args(ValidationCheckName)[-1] == "extensions"


def test_gpu_checks_are_not_run_without_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    with beside(PROBES, torch(card=False)):
        module("torch_probe").main(given())
    found = read_results(capsys)
    for name in _PROBE_CHECKS[2:]:
        assert (found[name]["status"], found[name]["detail"]) == ("not run", "no GPU"), name


def test_cpu_torch_runs_cpu_checks_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with beside(PROBES, torch(cuda=None)):
        module("torch_probe").main(given(cuda=None))
    found = read_results(capsys)
    for name in ("device", "graph", "speed", "compile", "nccl"):
        detail = found[name]["detail"]
        assert (found[name]["status"], detail) == ("not run", "torch without CUDA"), name
    for name in ("matmul", "reduction", "convolution", "autograd"):
        assert found[name]["status"] == "failed"  # the fake torch computes nothing


def test_gpu_is_reported_with_driver_version_or_unknown(
    probes: Callable[..., ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", absent)
    card = probes("gpu_device")
    prefix = "RTX 5090, 32.0 GiB, capability 12.0, driver "
    assert card.check_device(given()) == f"{prefix}unknown"
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    assert card.check_device(given()) == f"{prefix}580.65.06"


def test_unreadable_device_attribute_is_zero(
    probes: Callable[..., ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = probes("gpu_device")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    assert driver.read_device_attribute(driver.BUS_WIDTH) == 1037
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library(answer=999))
    assert driver.read_device_attribute(driver.BUS_WIDTH) == 0
    assert driver.read_driver_version() == ""
    monkeypatch.setattr(ctypes, "CDLL", absent)
    assert driver.read_device_attribute(driver.BUS_WIDTH) == 0


def absent(name: str) -> None:
    raise OSError(f"{name}: cannot open shared object file")


class Library:
    """Fake NVML and driver API for ctypes; every call returns the same answer."""

    def __init__(self, answer: int = 0) -> None:
        self.answer = answer

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *_: self.answer

    def nvmlSystemGetDriverVersion(self, text: Any, size: Any) -> int:  # noqa: N802
        text.value = b"580.65.06"
        return self.answer

    def cuDeviceGetAttribute(self, value: Any, number: int, device: Any) -> int:  # noqa: N802
        value._obj.value = 1000 + number
        return self.answer


RTX_5090 = {13: 2_407_000, 16: 170, 36: 14_001_000, 37: 512}  # kHz, and bits


def test_computed_peaks_match_data_sheet(probes: Callable[..., ModuleType]) -> None:
    """RTX 5090: 1,792 GB/s and 104.8 TFLOP/s. H100 SXM: 3.35 TB/s and 67 TFLOP/s."""
    speed = probes("speed_checks")
    assert speed.compute_memory_peak(RTX_5090.get) == pytest.approx(1792e9, rel=1e-3)
    assert speed.compute_float32_peak(RTX_5090.get, (12, 0)) == pytest.approx(104.8e12, rel=1e-3)
    h100 = {13: 1_980_000, 16: 132, 36: 2_619_000, 37: 5120}
    assert speed.compute_memory_peak(h100.get) == pytest.approx(3.35e12, rel=1e-3)
    assert speed.compute_float32_peak(h100.get, (9, 0)) == pytest.approx(66.9e12, rel=1e-3)


def test_speed_is_reported_with_share_of_known_peak(
    probes: Callable[..., ModuleType],
) -> None:
    speed = probes("speed_checks")
    rates = [("float32", 78.6e12), ("float16", 201e12)]
    peaks = {"copy": 1792e9, "float32": 104.8e12}
    assert speed.format_rates(1505e9, rates, peaks) == (
        "copy 1505 GB/s (84% of 1792), float32 78.6 TFLOP/s (75% of 104.8), float16 201 TFLOP/s"
    )
    assert speed.format_rates(1505e9, rates, {"copy": 0, "float32": 0}) == (
        "copy 1505 GB/s, float32 78.6 TFLOP/s, float16 201 TFLOP/s"
    )
    assert speed.compute_float32_peak(RTX_5090.get, (99, 0)) == 0


def test_speed_check_is_not_run_without_free_gpu_memory(
    probes: Callable[..., ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    speed, verdicts = probes("speed_checks"), probes("verdicts")
    monkeypatch.setattr(speed, "measure_copy_rate", full)
    with pytest.raises(verdicts.NothingToTryError, match="out of memory"):
        speed.measure_speed(CUDA)


def full(*_: object) -> None:
    raise RuntimeError("CUDA out of memory")


def test_checks_without_triton_or_nccl_are_not_run(
    probes: Callable[..., ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = probes("verdicts").NothingToTryError
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(nothing, match="triton is not installed"):
        probes("execution_checks").check_compile(CUDA)
    with pytest.raises(nothing, match="without NCCL"):
        probes("execution_checks").check_nccl(CUDA)


@pytest.mark.parametrize(
    "reason",
    [
        "Python 3.11+ not yet supported for torch.compile",
        "Dynamo is not supported on Python 3.13+",
        "Found Tesla P100 which is too old to be supported by the triton GPU compiler",
    ],
)
def test_unsupported_torch_compile_is_not_run_but_error_fails(
    probes: Callable[..., ModuleType], reason: str
) -> None:
    compiling, verdicts = probes("execution_checks"), probes("verdicts")
    with pytest.raises(verdicts.NothingToTryError, match="support"):
        compiling.run_compiled(SimpleNamespace(compile=refusing(reason)), None)
    for failure in (
        "ptxas fatal",
        "ptxas: Feature 'x' is not supported on .target 'sm_120'",
        "CUDA error: operation not supported on global/shared address space",
    ):
        with pytest.raises(RuntimeError, match=r"ptxas|CUDA"):
            compiling.run_compiled(SimpleNamespace(compile=refusing(failure)), None)


def refusing(reason: str) -> Callable[..., None]:
    def compiler(*_: object, **__: object) -> None:
        raise RuntimeError(reason)

    return compiler
