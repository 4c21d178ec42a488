"""Host facts; small programs replace Python and nvcc, and a fake replaces the driver library."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from tasks.core.errors import SettingsError
from tasks.core.model import Gpu, Host, InstalledToolkit, InstalledTorch, Interpreter
from tasks.knowledge.gpus import NvidiaDriver
from tasks.system import environments, interpreters
from tasks.system.hardware import host_probe, nvidia
from tasks.system.hardware.host_probe import HostPin, HostQuery
from tests.support.checkout import OnSystem
from tests.support.systems import linux_only

RTX_5090 = Gpu("NVIDIA GeForce RTX 5090", "12.0", 32_607)
CARDS = {"one": [("NVIDIA GeForce RTX 5090", (12, 0), 32_607)]}
VERSION_PY = """\
from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']
__version__ = '2.15.0+cu132'
debug = False
cuda: Optional[str] = '13.2'
git_version = 'abc'
hip: Optional[str] = None
"""
unix = pytest.mark.skipif(sys.platform == "win32", reason="programs are shell scripts here")


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a home without toolkits other than those of the test."""
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setattr(
        host_probe, "_list_toolkit_folders", lambda path: iter([Path(path)] if path else [])
    )
    return tmp_path


def cards(
    monkeypatch: pytest.MonkeyPatch, *found: tuple[str | bytes, tuple[int, int], int]
) -> None:
    """Fake a driver library with these GPUs: name, compute capability, MiB."""
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(nvidia, "_WSL_PROGRAM", "/nowhere")
    stand_in: dict[str, Callable[..., Any]] = {
        "nvmlSystemGetDriverVersion": lambda: b"595.71.05",
        "nvmlSystemGetCudaDriverVersion_v2": lambda: 13_020,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: len(found),
        "nvmlDeviceGetHandleByIndex": lambda index: found[index],
        "nvmlDeviceGetName": lambda card: card[0],
        "nvmlDeviceGetCudaComputeCapability": lambda card: card[1],
        "nvmlDeviceGetMemoryInfo": lambda card: SimpleNamespace(total=card[2] * 2**20),
    }
    for name, function in stand_in.items():
        monkeypatch.setattr(pynvml, name, function)
    monkeypatch.setattr(nvidia, "_has_nvml", lambda: True)


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_gpus_are_listed_from_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ("NVIDIA GeForce RTX 5090", (12, 0), 32_607), (b"NVIDIA H200", (9, 0), 143_771)
    cards(monkeypatch, *found)
    assert host_probe.list_gpus() == (RTX_5090, Gpu("NVIDIA H200", "9.0", 143_771))


@linux_only
def test_missing_nvml_library_is_not_initialized(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cards(monkeypatch, *CARDS["one"])
    monkeypatch.undo()
    monkeypatch.setattr(nvidia, "_NVML_LIBRARY", "libnobody-has-this.so.1")
    monkeypatch.setattr(nvidia, "_query_nvidia_smi", lambda why: NvidiaDriver(f"by program {why}"))
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: pytest.fail("it was asked"))
    assert nvidia.query_driver() == NvidiaDriver("by program ")


def test_host_without_driver_has_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    cards(monkeypatch)
    monkeypatch.setattr(pynvml, "nvmlInit", fails(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND))
    assert nvidia.query_driver() == NvidiaDriver()


def fails(number: int) -> Callable[..., Any]:
    """Return a driver library function that raises this error."""

    def fail(*_: object) -> None:
        raise pynvml.NVMLError(number)

    return fail


def test_gpu_that_does_not_respond_is_counted_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    cards(monkeypatch, *CARDS["one"])
    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", fails(pynvml.NVML_ERROR_GPU_IS_LOST))
    assert host_probe.list_gpus() == ()
    assert nvidia.query_driver() == NvidiaDriver("595.71.05", "13.2", (), lost=1)


def test_lost_gpu_does_not_hide_others(monkeypatch: pytest.MonkeyPatch) -> None:
    cards(monkeypatch, *CARDS["one"], *CARDS["one"])
    lost = fails(pynvml.NVML_ERROR_GPU_IS_LOST)
    handles = iter([lambda: CARDS["one"][0], lost])
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda _: next(handles)())
    assert nvidia.query_driver() == NvidiaDriver("595.71.05", "13.2", (RTX_5090,), lost=1)


def test_gpu_without_memory_info_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    cards(monkeypatch, ("NVIDIA GB10", (12, 1), 0))
    none = fails(pynvml.NVML_ERROR_NOT_SUPPORTED)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", none)
    assert host_probe.list_gpus() == (Gpu("NVIDIA GB10", "12.1", 0),)


def test_driver_without_cuda_version_still_lists_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    cards(monkeypatch, *CARDS["one"])
    none = fails(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    monkeypatch.setattr(pynvml, "nvmlSystemGetCudaDriverVersion_v2", none)
    assert nvidia.query_driver() == NvidiaDriver("595.71.05", "", (RTX_5090,))


def without_library(monkeypatch: pytest.MonkeyPatch, number: int, smi: Path) -> None:
    """Make NVML fail, and provide an nvidia-smi program."""
    cards(monkeypatch)
    monkeypatch.setattr(pynvml, "nvmlInit", fails(number))
    monkeypatch.setattr(nvidia, "_WSL_PROGRAM", str(smi))


SMI = """\
test "$*" = "--query-gpu=name,compute_cap,memory.total --format=csv,noheader" || exit 2
echo "NVIDIA GeForce RTX 5090, 12.0, 32607 MiB"
echo "NVIDIA GB10, 12.1, [N/A]"
"""


@unix
def test_nvidia_smi_is_used_without_nvml(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    smi = program(tmp_path / "wsl" / "nvidia-smi", SMI)
    without_library(monkeypatch, pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, smi)
    assert host_probe.list_gpus() == (RTX_5090, Gpu("NVIDIA GB10", "12.1", 0))


@unix
@pytest.mark.parametrize(
    ("text", "found"),
    [("echo 'NVIDIA X, [Unknown Error], [N/A]'", NvidiaDriver(lost=1)), ("exit 6", NvidiaDriver()),
     ("echo nonsense", NvidiaDriver(lost=1)), ("true", NvidiaDriver())],
)  # fmt: skip
def test_unusable_nvidia_smi_output_yields_no_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, found: NvidiaDriver
) -> None:
    smi = program(tmp_path / "nvidia-smi", text)
    without_library(monkeypatch, pynvml.NVML_ERROR_DRIVER_NOT_LOADED, smi)
    assert nvidia.query_driver() == found


def test_driver_library_mismatch_is_reported_as_trouble(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    number = pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
    without_library(monkeypatch, number, tmp_path / "nowhere")
    found = nvidia.query_driver()
    assert found.gpus == ()
    assert "mismatch" in found.trouble


def test_host_pin_round_trips(tmp_path: Path) -> None:
    folder = tmp_path / "site" / "torch"
    folder.mkdir(parents=True)
    (folder / "version.py").write_text("__version__ = '2.9.1'\n", encoding="utf-8")
    torch = InstalledTorch("2.9.1", None, str(folder))
    python = Interpreter(sys.executable, "3.12.1", torch)
    kits = (InstalledToolkit("/opt/cuda", "13.2.86", asked=True),)
    host, asked = Host("linux", "x86_64", python, (RTX_5090,), kits), HostQuery("auto", "/opt/cuda")
    host_probe.write_host_pin(tmp_path / "host.json", asked, host)
    found = host_probe.read_host(asked, tmp_path / "host.json")
    assert found == Host("linux", "x86_64", python, (RTX_5090,), kits, pinned=True)
    (folder / "version.py").unlink()
    assert host_probe.read_host(asked, tmp_path / "host.json").python.torch is None


def test_pinned_facts_are_not_probed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host("linux", "x86_64", Interpreter(sys.executable, "3.12.1"), (RTX_5090,))
    host_probe.write_host_pin(tmp_path / "host.json", HostQuery("auto", None), host)
    for look in ("list_gpus", "_find_toolkits"):
        monkeypatch.delattr(host_probe, look)
    monkeypatch.delattr(interpreters, "find_interpreter")
    assert host_probe.read_host(HostQuery("auto", None), tmp_path / "host.json").gpus == (RTX_5090,)


def test_removed_interpreter_is_searched_again_and_gpus_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host("linux", "x86_64", Interpreter(str(tmp_path / "3.12.1"), "3.12.1"), (RTX_5090,))
    host_probe.write_host_pin(tmp_path / "host.json", HostQuery("auto", None), host)
    for look in ("list_gpus", "_find_toolkits"):
        monkeypatch.delattr(host_probe, look)
    found = host_probe.read_host(HostQuery("auto", None), tmp_path / "host.json")
    assert found.python == interpreters.find_interpreter("auto")
    assert found.gpus == (RTX_5090,)
    assert not found.pinned  # so that it is pinned again
    gone = HostQuery(str(tmp_path / "python"), None)
    host_probe.write_host_pin(tmp_path / "host.json", gone, host)
    with pytest.raises(SettingsError, match="is not a Python that runs on this machine"):
        host_probe.read_host(gone, tmp_path / "host.json")


def test_other_python_is_probed_and_gpus_are_kept(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host("linux", "x86_64", Interpreter("/gone", "3.12.1"), (RTX_5090,))
    host_probe.write_host_pin(elsewhere / "host.json", HostQuery("auto", None), host)
    monkeypatch.delattr(host_probe, "list_gpus")
    found = host_probe.read_host(HostQuery(sys.executable, None), elsewhere / "host.json")
    assert found.python.path == sys.executable
    assert found.gpus == (RTX_5090,)
    assert not found.pinned


@pytest.mark.parametrize("content", ["", "{", '{"host": {}}', "\xff"])
def test_unreadable_pin_is_replaced(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    cards(monkeypatch, *CARDS["one"])
    (elsewhere / "host.json").write_bytes(content.encode("latin-1"))
    found = host_probe.read_host(HostQuery("auto", None), elsewhere / "host.json")
    assert found.gpus == (RTX_5090,)
    assert not found.pinned


def test_reading_host_writes_nothing(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cards(monkeypatch)
    host_probe.read_host(HostQuery("auto", None), elsewhere / "host.json")
    assert list(elsewhere.iterdir()) == []


def test_auto_selects_base_python_of_current_venv() -> None:
    found = interpreters.find_interpreter("auto")
    assert found.version == ".".join(map(str, sys.version_info[:3]))
    assert not Path(found.path).parent.parent.joinpath("pyvenv.cfg").exists()


def test_relative_path_becomes_absolute(monkeypatch: pytest.MonkeyPatch) -> None:
    python = Path(sys.executable)
    monkeypatch.chdir(python.parent)
    assert interpreters.find_interpreter(f"./{python.name}").path == str(python)


@pytest.mark.parametrize("asked", ["/no/such/python", "no-such-python", "~/no/python"])
def test_path_without_python_is_refused(asked: str) -> None:
    with pytest.raises(SettingsError) as error:
        interpreters.find_interpreter(asked)
    assert str(error.value) == (
        f'python: "{asked}" is not a Python that runs on this machine'
        '\n  → write a version ("3.12") or a path'
    )


@unix
def test_program_that_is_no_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="is not a Python that runs on this machine"):
        interpreters.find_interpreter(str(program(tmp_path / "python3", "exit 1")))


@pytest.mark.parametrize(("asked", "looser"), [("3.99", ""), ("3.99.1", ' and set python: "3.99"')])
def test_missing_python_version_is_refused_with_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_system: OnSystem, asked: str, looser: str
) -> None:
    """Packages exist only for minor versions."""
    on_system("debian")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(environments, "find_uv", lambda: None)
    with pytest.raises(SettingsError) as error:
        interpreters.find_interpreter(asked)
    assert str(error.value) == (
        f"python: torchyard found no Python {asked}\n"
        f"  → uv python install 3.99{looser}, or set python to a path"
    )


@unix
def test_shim_without_python_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "shims" / "python3.98", "echo 'not installed' >&2; exit 127")
    real = program(tmp_path / "real" / "python3.98", f'exec "{sys.executable}" "$@"')
    program(tmp_path / "shims" / "uv", f"echo {real}")
    monkeypatch.setenv("PATH", f"{tmp_path / 'shims'}:/usr/bin:/bin")
    monkeypatch.setattr(environments, "find_uv", lambda: None)
    assert interpreters.find_interpreter("3.98").path == str(real)


def torch_in(folder: Path, version_py: str) -> tuple[str, Path]:
    """Return a venv whose torch ends the process on import."""
    venv.create(folder, symlinks=sys.platform != "win32")
    python = environments.find_venv_python(folder)
    query = "import sysconfig; print(sysconfig.get_path('platlib'))"
    done = subprocess.run([python, "-c", query], capture_output=True, text=True, check=True)
    torch = Path(done.stdout.strip()) / "torch"
    torch.mkdir()
    (torch / "__init__.py").write_text("raise SystemExit('imported')\n", encoding="utf-8")
    (torch / "version.py").write_text(version_py, encoding="utf-8")
    return str(python), torch


def test_installed_torch_is_read_without_import(tmp_path: Path) -> None:
    python, torch = torch_in(tmp_path / "venv", VERSION_PY)
    assert interpreters.find_interpreter(python).torch == InstalledTorch(
        "2.15.0+cu132", "13.2", str(torch)
    )
    cpu = VERSION_PY.replace("'13.2'", "None").replace("+cu132", "+cpu")
    (torch / "version.py").write_text(cpu, encoding="utf-8")
    assert interpreters.find_interpreter(python).torch == InstalledTorch(
        "2.15.0+cpu", None, str(torch)
    )


def test_pin_stores_query(tmp_path: Path) -> None:
    host = Host("linux", "x86_64", Interpreter("/p", "3.12.1"), pinned=True)
    pinned = HostPin(HostQuery("3.12", None), host)
    host_probe.write_host_pin(tmp_path / "host.json", pinned.asked, host)
    assert '"python": "3.12"' in (tmp_path / "host.json").read_text(encoding="utf-8")
    assert '"pinned": false' in (tmp_path / "host.json").read_text(encoding="utf-8")


@unix
@pytest.mark.parametrize("kind", ["auto", "venv", "conda", "named", "framework"])
def test_python_is_identified_from_files_without_running_it(tmp_path: Path, kind: str) -> None:
    """The files yield the same facts as the interpreter, including its torch."""
    version = ".".join(map(str, sys.version_info[:3]))
    minor = ".".join(map(str, sys.version_info[:2]))
    marker, python = tmp_path / "ran", tmp_path / "env" / "bin" / "python"
    program(python, f"touch {marker}")
    site = tmp_path / "env" / "lib" / f"python{minor}" / "site-packages"
    (site / "torch").mkdir(parents=True)
    (site / "torch" / "version.py").write_text(VERSION_PY, encoding="utf-8")
    match kind:
        case "auto":
            assert (
                interpreters.read_interpreter("auto").version
                == interpreters.find_interpreter("auto").version
            )
            return
        case "venv":
            text = f"home = /usr/bin\nversion = {version}\n"
            (python.parent.parent / "pyvenv.cfg").write_text(text, encoding="utf-8")
        case "conda":
            (python.parent.parent / "conda-meta").mkdir()
            (python.parent.parent / "conda-meta" / f"python-{version}-h1_0_cpython.json").touch()
        case "framework":
            python.rename(python.with_name(f"python{minor}"))
            python.symlink_to(f"python{minor}")
    found = interpreters.read_interpreter(str(python))
    assert (found.path, found.minor) == (str(python), minor)
    assert kind not in {"venv", "conda"} or found.version == version
    assert found.torch == InstalledTorch("2.15.0+cu132", "13.2", str(site / "torch"))
    assert not marker.exists()


def test_missing_python_is_refused_without_running_program() -> None:
    assert interpreters.read_interpreter("3.98").version == "3.98.0"
    with pytest.raises(
        SettingsError, match='"/no/such/python" is not a Python that runs on this machine'
    ):
        interpreters.read_interpreter("/no/such/python")


@unix
@pytest.mark.parametrize(
    ("known", "header", "version"),
    [
        ('{"cuda_nvcc": {"version": "13.2.86"}}', "", "13.2.86"),
        ("", "#define CUDA_VERSION 12080\n", "12.8.0"),
        ("{}", "nothing\n", ""),
        ("[", "#define CUDA_VERSION 13010", "13.1.0"),
    ],
)
def test_toolkit_is_identified_from_files_without_running_nvcc(
    elsewhere: Path, known: str, header: str, version: str
) -> None:
    nvcc = program(elsewhere / "cuda" / "bin" / "nvcc", f"touch {elsewhere / 'ran'}")
    home = nvcc.parent.parent
    (home / "include").mkdir()
    (home / "include" / "cuda.h").write_text(header, encoding="utf-8")
    if known:
        (home / "version.json").write_text(known, encoding="utf-8")
    asked = HostQuery("auto", str(home))
    found = host_probe.read_host(asked, elsewhere / "host.json", run=False).toolkits
    assert [(kit.home, kit.version, kit.asked) for kit in found] == (
        [(str(home), version, True)] if version else []
    )
    assert not (elsewhere / "ran").exists()


@unix
def test_nvidia_smi_is_not_run_when_running_is_disabled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    smi = program(tmp_path / "nvidia-smi", f"touch {tmp_path / 'ran'}")
    without_library(monkeypatch, pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, smi)
    assert nvidia.query_driver(run=False).gpus == ()
    assert nvidia.query_driver(run=False).trouble
    assert not (tmp_path / "ran").exists()
