"""quickstart against the same steps by hand with pip, both from nothing, in turn in one run.

By hand: a venv, `pip install` of the pinned torch and toolkit, a CUDA_HOME linked together, `pip
wheel` of templates/smoke, its install, and cuobjdump on it. Ours: `doit build` in a fresh copy of
the checkout. Caches are empty folders; it needs the index, a compiler and 20 GB.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.benchmarks.rows import RUNS, Row
from tests.support.newest import DEFAULT_RELEASE
from tests.support.yard import ROOT

TORCH = f"torch=={DEFAULT_RELEASE.patch}"
PARTS = "nvcc,crt,nvvm,cccl,cudart,curand,profiler,cuobjdump"
TOOLKIT = f"cuda-toolkit[{PARTS}]=={DEFAULT_RELEASE.pypi_cuda}.*"
TOOLS = ("ninja", "setuptools", "wheel", "numpy", "cmake")
PROFILE = """
target: {gpus: ["RTX 5090"]}
extensions:
  - {name: smoke, path: templates/smoke, imports: [torchyard_smoke]}
"""


Way = Callable[[Path, Mapping[str, str]], None]


def call(argv: Sequence[str | Path], cwd: Path, env: Mapping[str, str]) -> str:
    """Run it or stop; what it printed."""
    done = subprocess.run(argv, cwd=cwd, env=dict(env), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{argv}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def by_hand(folder: Path, env: Mapping[str, str]) -> None:
    """What a careful guide tells."""
    call([sys.executable, "-m", "venv", folder / "venv"], folder, env)
    python = folder / "venv" / "bin" / "python"
    call([python, "-m", "pip", "install", "-q", TORCH, TOOLKIT, *TOOLS], folder, env)
    purelib = "import sysconfig; print(sysconfig.get_path('platlib'))"
    packages = Path(call([python, "-c", purelib], folder, env).strip())
    home = link_together(packages / "nvidia" / "cu13", folder / "cuda")
    shutil.copytree(ROOT / "templates" / "smoke", folder / "smoke")
    building = {
        **env,
        "CUDA_HOME": str(home),
        "PATH": f"{folder}/venv/bin:{env['PATH']}",
        "TORCH_CUDA_ARCH_LIST": "12.0",
        "MAX_JOBS": str(os.cpu_count()),
    }
    options = ("--no-build-isolation", "--no-deps", "-w", folder / "wheels")
    call([python, "-m", "pip", "wheel", "-q", *options, folder / "smoke"], folder, building)
    (wheel,) = (folder / "wheels").glob("*.whl")
    call([python, "-m", "pip", "install", "-q", "--no-deps", wheel], folder, env)
    (library,) = (packages / "torchyard_smoke").glob("_C*.so")
    assert "sm_120" in call([home / "bin" / "cuobjdump", "-lelf", library], folder, env)


def link_together(toolkit: Path, home: Path) -> Path:
    """lib64 and the names that linkers look for."""
    home.mkdir()
    for name in ("bin", "include", "nvvm"):
        (home / name).symlink_to(toolkit / name)
    (home / "lib64").mkdir()
    for library in (toolkit / "lib").iterdir():
        (home / "lib64" / library.name).symlink_to(library)
    (home / "lib64" / "libcudart.so").symlink_to("libcudart.so.13")
    return home


def ours(folder: Path, env: Mapping[str, str]) -> None:
    """`doit build` in a fresh checkout."""
    for name in ("tasks", "templates", "config"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "dodo.py", folder)
    (folder / "config" / "profiles" / "bench.yaml").write_text(PROFILE, encoding="utf-8")
    call([sys.executable, "-m", "doit", "build", "profile=bench"], folder, env)


def seconds(way: Way) -> float:
    """One run of one way in a folder of its own, with caches of its own."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "work"
        folder.mkdir()
        cold = {"UV_CACHE_DIR": f"{place}/uv", "PIP_NO_CACHE_DIR": "1", "CI": "true"}
        started = time.perf_counter()
        way(folder, {**os.environ, **cold})
        return time.perf_counter() - started


def measure() -> Row:
    """Both ways in turn, so that a slow minute of the network falls on both."""
    took: dict[Way, list[float]] = {ours: [], by_hand: []}
    for _ in range(RUNS):
        for way, times in took.items():
            times.append(seconds(way))
            print(f"quickstart: {way.__name__} {times[-1]:.1f} s", flush=True)
    mine, theirs = (statistics.median(took[way]) for way in (ours, by_hand))
    return Row("quickstart", 0.8, mine, theirs)
