"""A build without code for a target is stopped at its first command, with a hint."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.core.deps_model import CompilerCache
from tasks.core.errors import TorchyardError
from tasks.core.model import Arch
from tasks.knowledge.machine_code_rules import MachineCode
from tasks.stages.env.model import CacheEnvironment
from tasks.stages.extensions import extension_build_io as building
from tasks.stages.extensions.extension_code_io import ArchGuard, parse_nvcc_archs
from tasks.stages.extensions.model import ExtensionJob
from tasks.system import files, manifests
from tests.support.checkout import KNOWLEDGE
from tests.support.systems import posix_only
from tests.unit.stages.extensions.test_extension_sources import DEPS, ready

OF_TORCH = "-DTORCH_API_INCLUDE_EXTENSION_H"
NVCC = f"[1/3] /cuda/bin/nvcc -c ssim.cu -o ssim.o {{}} {OF_TORCH} -DTORCH_EXTENSION_NAME={{}}"
FOR_75 = "-gencode=arch=compute_75,code=sm_75"
SM_75, SM_89, SM_120 = Arch(7, 5), Arch(8, 9), Arch(12, 0)


@pytest.mark.parametrize(
    ("options", "cubins", "ptx"),
    [
        (FOR_75, [SM_75], []),
        ("-gencode arch=compute_75,code=[sm_75,compute_75]", [SM_75], [SM_75]),
        (f"{FOR_75} --generate-code=arch=compute_120,code=sm_120", [SM_75, SM_120], []),
        ("-gencode=arch=compute_120a,code=compute_120a", [], [Arch(12, 0, "a")]),
        ("-arch=sm_89", [SM_89], [SM_89]),
        ("--gpu-architecture compute_89", [], [SM_89]),
    ],
)
def test_nvcc_options_yield_machine_code(options: str, cubins: list[Arch], ptx: list[Arch]) -> None:
    assert parse_nvcc_archs(f"nvcc {options} -c a.cu") == MachineCode(
        frozenset(cubins), frozenset(ptx)
    )


def test_nvcc_command_without_archs_yields_none() -> None:
    assert parse_nvcc_archs("nvcc -c a.cu -arch=native") is None


def job(folder: Path, setup: str = "", **env: str) -> ExtensionJob:
    """Return a job for 12.0 whose tree has that setup.py."""
    made = replace(ready(folder, path="toy"), targets=(SM_120,), env=env)
    Path(made.tree).mkdir(parents=True)
    Path(made.tree, "setup.py").write_text(setup, encoding="utf-8")
    return made


@pytest.mark.parametrize(
    ("line", "stops"),
    [
        (NVCC.format(FOR_75, "_C"), True),
        (NVCC.format("-gencode=arch=compute_120,code=sm_120", "_C"), False),
        (NVCC.format(FOR_75, "_C").replace("nvcc", "clang"), False),
        # CMake may set options per file
        (f"nvcc {FOR_75} -DTORCH_EXTENSION_NAME=_C -c special.cu", False),
    ],
)
def test_cpp_extension_command_without_target_stops_build(
    tmp_path: Path, line: str, stops: bool
) -> None:
    guard = ArchGuard(job(tmp_path), KNOWLEDGE, "13.2")
    guard.check_line(line)
    assert guard.stop.is_set() is stops
    assert bool(guard.error) is stops


@pytest.mark.parametrize(
    ("setup", "env", "hint"),
    [
        (
            "os.environ.get('MY_ARCHS')",
            {},
            'set extensions (toy).env, e.g. {MY_ARCHS: "120"}: setup',
        ),
        (
            "os.getenv('MY_ARCHS')",
            {"MY_ARCHS": "75"},
            "correct MY_ARCHS in extensions (toy).env: its ",
        ),
        (
            f"flags = ['{FOR_75}']",
            {},
            "remove the archs from setup.py with a patch (extensions (toy).patches)",
        ),
    ],
)
def test_error_names_variable_that_setup_py_reads(
    tmp_path: Path, setup: str, env: dict[str, str], hint: str
) -> None:
    guard = ArchGuard(job(tmp_path, f"import os\n{setup}\n", **env), KNOWLEDGE, "13.2")
    guard.check_line(NVCC.format(FOR_75, "_C"))
    assert guard.error is not None
    assert guard.error.message.startswith(
        "torchyard stopped the build: toy compiles for 7.5, not for 12.0, which "
        "target.gpus requires"
    )
    assert hint in guard.error.hint.splitlines()[0]
    assert guard.error.location.endswith("setup.py:2" if "gencode" in setup else "(toy)")


_SLOW = """
import pathlib, sys, time
folder = pathlib.Path(sys.argv[1], "build/temp.linux-x86_64-cpython-312")
folder.mkdir(parents=True)
(folder / "build.ninja").write_text({!r})
time.sleep(300)
"""


@posix_only
def test_build_is_stopped_before_first_command_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archs are read from build.ninja, as Ninja prints nothing before."""
    made = job(tmp_path)
    options = f"cuda_post_cflags = {FOR_75} {OF_TORCH} -DTORCH_EXTENSION_NAME=_C"
    slow = _SLOW.format(f"{options}\n\nbuild a.o: cuda_compile a.cu\n")
    argv = (sys.executable, "-c", slow, str(made.tree))
    monkeypatch.setattr(building, "build_wheel_command", lambda *_: argv)
    manifests.write_manifest(
        made.layout.compute_manifest_path("cache-env"),
        CacheEnvironment(CompilerCache(), {}, {}, {}),
    )
    files.create_owned_folder(made.layout.jobserver)
    began = time.monotonic()
    with pytest.raises(TorchyardError, match="torchyard stopped the build"):
        building.build_extension(replace(made, jobs=2), DEPS, Path(made.tree))
    assert time.monotonic() - began < 60
