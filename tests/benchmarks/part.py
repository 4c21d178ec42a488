"""A part of PyTorch's own tree, c10 and part of torch_cpu, compiled from nothing and
again: ours against CMake and Ninja alone.

    cold  our whole command                           what CMake and Ninja took of it
    warm  the folder wiped, the compiler cache warm   cold, both without what build.ninja needs
    flag  a changed flag of the linker                `cmake -D` and `ninja`
    eta   the end foreseen after a fifth              the end that came

PyTorch's build.ninja depends on sources that it generates itself: Ninja makes these before anything
else, and reads it again. They count as configuring.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from tasks.jobs.forecast import Forecast
from tasks.runlog import build_history_io
from tests.benchmarks.rows import RUNS, Row
from tests.real.debian import SYSTEM, Debian, InsideYard, Upstream, profile, where

TARGET, CORE, HEAVY, NOTHING = "bench_part", "bench_core", "bench_heavy", "bench_nothing"
CMAKE = """
get_target_property(_all torch_cpu SOURCES)
set(_part)
foreach(_source ${_all})
  string(REPLACE "${PROJECT_SOURCE_DIR}/" "" _short "${_source}")
  if(_short MATCHES "^(aten/src/ATen/core|torch/csrc/jit/ir|torch/csrc/jit/frontend)/.*[.]cpp$")
    list(APPEND _part ${CMAKE_BINARY_DIR}/caffe2/CMakeFiles/torch_cpu.dir/__/${_short}.o)
  endif()
endforeach()
add_custom_target(bench_part DEPENDS ${_part})
add_dependencies(bench_part c10)
add_custom_target(bench_nothing)
set(_core ${_part})
list(FILTER _core INCLUDE REGEX "/aten/src/ATen/core/")
add_custom_target(bench_core DEPENDS ${_core})
add_dependencies(bench_core c10)
set(_heavy ${_all})
list(FILTER _heavy INCLUDE REGEX "aten/src/ATen/native/[A-Z][A-Za-z]+[.]cpp$")
list(SORT _heavy)
list(SUBLIST _heavy 0 24 _heavy)
set(_objects ${CMAKE_BINARY_DIR}/caffe2/CMakeFiles/torch_cpu.dir/__)
list(TRANSFORM _heavy REPLACE "^.*/aten/" "${_objects}/aten/")
list(TRANSFORM _heavy APPEND ".o")
add_custom_target(bench_heavy DEPENDS ${_heavy})
"""
_LEAST = 150  # objects
_FIFTH = 0.2


@dataclass(frozen=True)
class Part:
    """A checkout, the tree, and a compiler cache that began empty."""

    yard: InsideYard
    upstream: Upstream
    store: str = "/src/bench-ccache"

    @property
    def folder(self) -> Path:
        return self.upstream.mine("build")

    def wipe(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.yard.build / "compile.json").unlink(missing_ok=True)

    def compile(self, **env: str) -> tuple[float, Mapping[str, Any]]:
        """Seconds of `doit compile`, and its record."""
        started = time.perf_counter()
        code, out = self.yard.doit("compile", env={"CCACHE_DIR": self.store, **env})
        assert code == 0, out
        took = time.perf_counter() - started
        *_, run = build_history_io.read_history(self.yard.build / "records" / "compile.jsonl")
        return took, run


@cache
def opened() -> Part | str:
    """The part, ready to be compiled; or why it cannot be had here."""
    debian = Debian(where())
    if why := debian.why_not():
        return why
    debian.prepare()
    upstream = Upstream(debian, "bench")
    lists = upstream.debian.outside(upstream.author / "caffe2" / "CMakeLists.txt")
    lists.write_text(lists.read_text(encoding="utf-8") + CMAKE, encoding="utf-8")
    upstream.push("a target for a part of torch_cpu")
    upstream.pull()
    part = Part(InsideYard(debian, "bench"), upstream)
    part.yard.patience = None
    source = {"path": str(upstream.clone), "submodules": False}
    part.yard.profile(**profile("debian-trixie-cpu", source=source, build={"target": TARGET}))
    part.yard.must("env")
    shutil.rmtree(debian.outside(PurePosixPath(part.store)), ignore_errors=True)
    return part


@dataclass(frozen=True)
class First:
    """A build from nothing: seconds of our two commands, of CMake and Ninja within, and of Ninja in
    the second one, and what that left in the record.
    """

    seconds: float
    backend: float
    compiling: float
    run: Mapping[str, Any]


@cache
def first() -> First | str:
    """The cold build, of which three rows need something."""
    part = opened()
    return part if isinstance(part, str) else whole(part)


def whole(part: Part) -> First:
    """From nothing, what build.ninja needs apart from what it builds."""
    part.wipe()
    configuring, before = part.compile(TORCHYARD__BUILD__TARGET=NOTHING)
    took, run = part.compile()
    parts = (one[name] for one in (before, run) for name in ("configure_seconds", "ninja_seconds"))
    return First(configuring + took, sum(parts), run["ninja_seconds"], run)


def cold() -> Row:
    """What we add to the backend's own time."""
    found = first()
    if isinstance(found, str):
        return _not_run("cold", 1.01, found)
    objects = sum(item["output"].endswith(".o") for item in found.run["objects"])
    few = "" if objects >= _LEAST else f"{objects} objects"
    return Row("cold", 1.01, found.seconds, found.backend, failed=few)


def warm() -> Row:
    """Everything from the compiler cache."""
    found, part = first(), opened()
    if isinstance(found, str) or isinstance(part, str):
        return _not_run("warm", 0.03, str(found))
    took = []
    for _ in range(RUNS):
        again = whole(part)
        took.append(again.compiling)
        print(f"warm: {again.run['cache']}")
    return Row("warm", 0.03, statistics.median(took), found.compiling)


def flag() -> Row:
    """A flag of the linker: no object has another command, one library has."""
    found, part = first(), opened()
    if isinstance(found, str) or isinstance(part, str):
        return _not_run("flag", 1.05, str(found), grace=1.0)
    mine, theirs = [], []
    for number in range(RUNS):
        value = f"-Wl,--build-id=0x{number:02x}"
        took, run = part.compile(TORCHYARD__BUILD__ENV__CMAKE_SHARED_LINKER_FLAGS=value)
        mine.append(took)
        objects = [one["output"] for one in run["objects"] if one["output"].endswith(".o")]
        assert not objects, objects
        theirs.append(_by_hand(part, f"-Wl,--build-id=0x{number + 16:02x}"))
    return Row("flag", 1.05, statistics.median(mine), statistics.median(theirs), grace=1.0)


def _by_hand(part: Part, value: str) -> float:
    deps, env = part.yard.manifest("deps"), part.yard.manifest("env")
    path = ":".join([*env["prepend"]["PATH"], *SYSTEM])
    started = time.perf_counter()
    for argv in (
        (deps["cmake"]["path"], f"-DCMAKE_SHARED_LINKER_FLAGS={value}", "."),
        (deps["ninja"]["path"], TARGET),
    ):
        at = part.upstream.clone / "build"
        with part.upstream.debian.start(argv, at, {**env["set"], "PATH": path}) as child:
            out, _ = child.communicate()
        assert child.returncode == 0, out
    return time.perf_counter() - started


def eta() -> Row:
    """c10 and ATen/core compiled again, foreseen from the first time: how far off the end was."""
    found, part = first(), opened()
    if isinstance(found, str) or isinstance(part, str):
        return _not_run("eta", 0.25, str(found))
    costs = {item["output"]: item["seconds"] for item in found.run["objects"]}
    part.wipe()
    part.compile(TORCHYARD__BUILD__TARGET=NOTHING)
    part.compile(TORCHYARD__BUILD__TARGET=CORE, CCACHE_RECACHE="1")
    made = {
        name: one
        for name, one in build_history_io.read_ninja_log(part.folder).items()
        if _is_told(name)
    }
    return Row("eta", 0.25, *_foreseen(costs, made))


def _is_told(output: str) -> bool:
    """Whether Ninja's line for it names it, as those of generated code do not."""
    return output.endswith((".o", ".so", ".a"))


def _foreseen(
    costs: Mapping[str, float], made: Mapping[str, build_history_io.NinjaLogEntry]
) -> tuple[float, float]:
    """How many seconds the end was missed by after a fifth, and those of the whole."""
    in_order = sorted(made.items(), key=lambda item: item[1].ended)
    begin, end = 0.0, in_order[-1][1].ended  # Ninja's clock begins with Ninja
    forecast = Forecast(made, costs)
    now = begin
    for output, one in in_order:
        now = one.ended
        if now - begin > _FIFTH * (end - begin):
            break
        forecast.finish_step(f"Building CXX object {output}", now)
    left = forecast.estimate_remaining(now)
    assert left is not None
    return abs(now + left - end), end - begin


def _not_run(name: str, reach: float, why: str, grace: float = 0.0) -> Row:
    print(f"{name}: not run: {why}")
    return Row(name, reach, grace=grace)
