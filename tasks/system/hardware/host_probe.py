"""Find the GPUs, CUDA toolkits and Python of this machine, and store the result in host.json."""

import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from tasks.core.errors import TorchyardError
from tasks.core.model import Gpu, Host, InstalledToolkit, Interpreter, System
from tasks.system import interpreters, manifests, shell
from tasks.system.hardware import toolchain

_SYSTEM_NAMES: dict[str, System] = {"linux": "linux", "win32": "windows", "darwin": "macos"}


@dataclass(frozen=True)
class HostQuery:
    """The Python and the CUDA toolkit's path (`None` if not set) for which a host is probed."""

    python: str
    toolkit_path: str | None


@dataclass(frozen=True)
class HostPin:
    """The content of host.json: the facts on this machine, and the settings `asked` behind them."""

    asked: HostQuery
    host: Host


def read_host(query: HostQuery, pin: PurePath, *, run: bool = True) -> Host:
    """Return the host facts stored in `pin` for this `query`; if there are none, probe the host.

    If an upgrade has removed the interpreter, only the interpreter is probed again. If `run` is
    False, no program is started, and some versions may be unknown.
    """
    try:
        pinned = manifests.read_manifest(pin, HostPin)
    except TorchyardError:
        return _probe_host(query, list_gpus(run=run), run)
    host, python = pinned.host, pinned.host.python
    if pinned.asked != query:
        return _probe_host(query, host.gpus, run)
    if not Path(python.path).exists():
        return replace(host, python=_resolve_interpreter(query.python, run), pinned=False)
    if python.torch:  # the user manages this torch, so it is never pinned
        torch = interpreters.find_torch([Path(python.torch.folder).parent])
        python = replace(python, torch=torch)
    return replace(host, python=python, pinned=True)


def write_host_pin(path: PurePath, query: HostQuery, host: Host) -> None:
    """Write the host facts to the file `path`, from which `read_host` reads them later."""
    manifests.write_manifest(path, HostPin(query, replace(host, pinned=False)))


def _probe_host(query: HostQuery, gpus: tuple[Gpu, ...], run: bool) -> Host:
    return Host(
        system=_SYSTEM_NAMES.get(sys.platform, "linux"),
        machine=platform.machine().lower().replace("amd64", "x86_64"),
        python=_resolve_interpreter(query.python, run),
        gpus=gpus,
        toolkits=tuple(_find_toolkits(query.toolkit_path, run=run)),
    )


def _resolve_interpreter(python: str, run: bool) -> Interpreter:
    return interpreters.find_interpreter(python) if run else interpreters.read_interpreter(python)


def list_gpus(*, run: bool = True) -> tuple[Gpu, ...]:
    """Return the GPUs that are in this machine now; () without a driver."""
    from tasks.system.hardware import nvidia  # noqa: PLC0415 - only where nothing is pinned yet

    return nvidia.query_driver(run=run).gpus


def _find_toolkits(path: str | None, *, run: bool) -> Iterator[InstalledToolkit]:
    """Yield the CUDA toolkits at `path` (a setting), in the environment, then in usual folders."""
    visited: set[Path] = set()
    for candidate in _list_toolkit_folders(path):
        home = candidate.expanduser().absolute()
        if home.resolve() in visited or not (home / "include" / "cuda.h").is_file():
            continue  # a wrapper in /usr/local/bin does not make /usr/local a toolkit
        if version := read_nvcc_version(home) if run else read_toolkit_version(home):
            visited.add(home.resolve())
            is_chosen = bool(path) and candidate == Path(path or "")
            yield InstalledToolkit(str(home), version, asked=is_chosen)


def _list_toolkit_folders(path: str | None) -> Iterator[Path]:
    configured = [path, os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
    yield from (Path(name) for name in configured if name)
    if nvcc := shutil.which("nvcc"):
        yield Path(nvcc).resolve().parent.parent
    if sys.platform == "win32":
        folder = Path(os.environ.get("PROGRAMFILES", r"C:\Program Files"))
        yield from sorted(folder.glob("NVIDIA GPU Computing Toolkit/CUDA/v*"), reverse=True)
    else:
        yield from (Path("/usr/local/cuda"), Path("/usr/lib/cuda"), Path("/opt/cuda"))
        yield from sorted(Path("/usr/local").glob("cuda-*"), reverse=True)


def read_nvcc_version(home: Path) -> str:
    """Return the version that a toolkit's nvcc prints ("13.0.88"); "" if nvcc cannot run."""
    nvcc = toolchain.build_nvcc_path(str(home))
    text = shell.try_capture(nvcc, "--version", what="ask nvcc its version") or ""
    match = re.search(r"V(\d+\.\d+\.\d+)", text)
    return match[1] if match else ""


def read_toolkit_version(home: Path) -> str:
    """Return the version of nvcc from version.json or cuda.h, "" if nvcc is missing."""
    if not Path(toolchain.build_nvcc_path(str(home))).exists():
        return ""
    try:
        document = json.loads((home / "version.json").read_text(encoding="utf-8"))
        return str(document["cuda_nvcc"]["version"])
    except (OSError, ValueError, KeyError, TypeError):
        header = (home / "include" / "cuda.h").read_text(encoding="utf-8", errors="replace")
    match = re.search(r"^#define CUDA_VERSION (\d+)", header, re.MULTILINE)
    return f"{int(match[1]) // 1000}.{int(match[1]) % 1000 // 10}.0" if match else ""
