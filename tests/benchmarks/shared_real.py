"""PyTorch's own tree on a second machine, by a redis that the first has filled: another folder,
another user's home, a compiler cache that is its own and empty.

    shared-real  Ninja, without configuring and generating   the same of the first machine
    shared-cuda  the same of a few of ATen's kernels

What the whole command takes, and what redis was asked for, is printed beside it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from subprocess import Popen
from typing import Any

from tests.benchmarks.part import CMAKE, TARGET, First, Part, whole
from tests.benchmarks.rows import Row
from tests.real.debian import VENV, Debian, InsideYard, Upstream, profile, where
from tests.support.redisserver import PROGRAM, asked, redis
from tests.support.yard import NAME

REACH, HITS = 0.15, 0.95
KERNELS = "bench_kernels"
_KERNELS_CMAKE = """
if(TARGET torch_cuda)
  get_target_property(_kernels torch_cuda SOURCES)
  list(FILTER _kernels INCLUDE REGEX
    "/(Sleep|CUDAScalar|AbsKernel|Dropout|IntReprQuant|UnarySignKernels)[.]cu$")
  list(TRANSFORM _kernels REPLACE "^.*/aten/"
    "${CMAKE_BINARY_DIR}/caffe2/CMakeFiles/torch_cuda.dir/__/aten/")
  list(TRANSFORM _kernels APPEND ".o")
  add_custom_target(bench_kernels DEPENDS ${_kernels})
endif()
"""
_HOMES = ("/home/alice", "/srv/lab/people/bob")


class _Yard(InsideYard):
    """A checkout by the settings that the tool gives the compiler cache, and no others."""

    remote = ""

    def start(self, *argv: str, env: Mapping[str, str] | None = None) -> Popen[str]:
        command = [f"{VENV}/bin/python", "-m", "doit", *argv, f"profile={NAME}"]
        given = {"CI": "true", "TORCHYARD__BUILD__CACHE_REMOTE": self.remote, **(env or {})}
        return self.debian.start(command, self.inside, given)


@dataclass(frozen=True)
class _Asked:
    """A row, the shipped profile that is built, and its target."""

    row: str
    profile: str
    target: str


def measure() -> Row:
    """C++. Once: the first machine compiles for minutes."""
    return _measured(_Asked("shared-real", "debian-trixie-cpu", TARGET))


def kernels() -> Row:
    """nvcc's."""
    return _measured(_Asked("shared-cuda", "debian-trixie-cuda", KERNELS))


def _measured(asked_for: _Asked) -> Row:
    debian = Debian(where())
    if why := _missing(debian):
        print(f"{asked_for.row}: not run: {why}")
        return Row(asked_for.row, REACH)
    debian.prepare()
    if "cuda" in asked_for.profile:
        debian.script("cuda")
    with tempfile.TemporaryDirectory(prefix="torchyard-shared-") as name, redis(Path(name)) as url:
        try:
            return _compared(debian, url, asked_for)
        finally:
            for home in _HOMES:
                shutil.rmtree(debian.outside(PurePosixPath(home)), ignore_errors=True)


def _missing(debian: Debian) -> str:
    return debian.why_not() or ("" if PROGRAM else "redis-server is not here")


def _compared(debian: Debian, url: str, asked_for: _Asked) -> Row:
    one = _machine(debian, _HOMES[0], url, asked_for)
    first = whole(one)
    _tell(f"{asked_for.row}: first", first, url)
    two = _machine(debian, _HOMES[1], url, asked_for, one.upstream)
    second = whole(two)
    _tell(f"{asked_for.row}: second", second, url)
    cache = second.run["cache"]
    share = cache.get("shared", 0) / (cache["hits"] + cache["misses"])
    failed = "" if share >= HITS else f"{share:.0%} hits"
    return Row(asked_for.row, REACH, second.compiling, first.compiling, failed)


def _machine(
    debian: Debian, home: str, url: str, asked_for: _Asked, same: Upstream | None = None
) -> Part:
    """A checkout and a clone below `home`; at the commit of `same`, where one is given."""
    shutil.rmtree(debian.outside(PurePosixPath(home)), ignore_errors=True)
    upstream = Upstream(debian, f"{home}/src")  # an absolute path is taken as it is
    if same:
        argv = ("git", "pull", "-q", "--ff-only", str(same.bare), "main")
        debian.must(*argv, at=upstream.clone)
    else:
        upstream.append("caffe2/CMakeLists.txt", CMAKE + _KERNELS_CMAKE)
        upstream.push("a target for a part of torch_cpu")
        upstream.pull()
    yard = _Yard(debian, f"{home}/torchyard")
    yard.patience, yard.remote = None, url
    yard.profile(**_profile(home, str(upstream.clone), asked_for))
    yard.must("env")
    return Part(yard, upstream, f"{home}/.cache/ccache")


def _profile(home: str, tree: str, asked_for: _Asked) -> dict[str, Any]:
    settings = profile(asked_for.profile, source={"path": tree, "submodules": False})
    mine = {"HOME": home, "XDG_CACHE_HOME": f"{home}/.cache"}
    env = {k: v for k, v in settings["build"]["env"].items() if not k.endswith("_LAUNCHER")}
    settings["build"] |= {"cache": "ccache", "target": asked_for.target, "env": {**env, **mine}}
    return settings


def _tell(which: str, made: First, url: str) -> None:
    print(
        f"{which}: {made.seconds:.1f} s in all, {made.compiling:.1f} s of Ninja alone,"
        f" {made.run['cache']}; redis: {asked(url)}",
        flush=True,
    )
