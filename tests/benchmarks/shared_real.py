"""PyTorch's own tree on a second machine, by a redis that the first has filled: another folder,
another user's home, a compiler cache that is its own and empty.

    shared-real  Ninja, without configuring and generating   the same of the first machine

What the whole command takes, and what redis was asked for, is printed beside it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from subprocess import Popen
from typing import Any

from tests.benchmarks.part import CMAKE, TARGET, First, Part, whole
from tests.benchmarks.rows import Row
from tests.real.debian import VENV, Debian, InsideYard, Upstream, profile, where
from tests.redisserver import PROGRAM, asked, redis
from tests.yard import NAME

REACH, HITS = 0.15, 0.95
_HOMES = ("/home/alice", "/srv/lab/people/bob")


class _Yard(InsideYard):
    """A checkout by the settings that the tool gives the compiler cache, and no others."""

    remote = ""

    def start(self, *argv: str, env: Mapping[str, str] | None = None) -> Popen[str]:
        command = [f"{VENV}/bin/python", "-m", "doit", *argv, f"profile={NAME}"]
        given = {"CI": "true", "TORCHYARD__BUILD__CACHE_REMOTE": self.remote, **(env or {})}
        return self.debian.start(command, self.inside, given)


def measure() -> Row:
    """Once: the first machine compiles for minutes."""
    debian = Debian(where())
    if why := _missing(debian):
        print(f"shared-real: not run: {why}")
        return Row("shared-real", REACH)
    debian.prepare()
    with tempfile.TemporaryDirectory(prefix="torchyard-shared-") as name, redis(Path(name)) as url:
        try:
            return _compared(debian, url)
        finally:
            for home in _HOMES:
                shutil.rmtree(debian.outside(PurePosixPath(home)), ignore_errors=True)


def _missing(debian: Debian) -> str:
    return debian.why_not() or ("" if PROGRAM else "redis-server is not here")


def _compared(debian: Debian, url: str) -> Row:
    one = _machine(debian, _HOMES[0], url)
    first = whole(one)
    _tell("first", first, url)
    two = _machine(debian, _HOMES[1], url, one.upstream)
    second = whole(two)
    _tell("second", second, url)
    cache = second.run["cache"]
    share = cache.get("shared", 0) / (cache["hits"] + cache["misses"])
    failed = "" if share >= HITS else f"{share:.0%} hits"
    return Row("shared-real", REACH, second.compiling, first.compiling, failed)


def _machine(debian: Debian, home: str, url: str, same: Upstream | None = None) -> Part:
    """A checkout and a clone below `home`; at the commit of `same`, where one is given."""
    shutil.rmtree(debian.outside(PurePosixPath(home)), ignore_errors=True)
    upstream = Upstream(debian, f"{home}/src")  # an absolute path is taken as it is
    if same:
        argv = ("git", "pull", "-q", "--ff-only", str(same.bare), "main")
        debian.must(*argv, at=upstream.clone)
    else:
        upstream.append("caffe2/CMakeLists.txt", CMAKE)
        upstream.push("a target for a part of torch_cpu")
        upstream.pull()
    yard = _Yard(debian, f"{home}/torchyard")
    yard.patience, yard.remote = None, url
    yard.profile(**_profile(home, str(upstream.clone)))
    yard.must("env")
    return Part(yard, upstream, f"{home}/.cache/ccache")


def _profile(home: str, tree: str) -> dict[str, Any]:
    settings = profile("debian-trixie-cpu", source={"path": tree, "submodules": False})
    mine = {"HOME": home, "XDG_CACHE_HOME": f"{home}/.cache"}
    env = {k: v for k, v in settings["build"]["env"].items() if not k.endswith("_LAUNCHER")}
    settings["build"] |= {"cache": "ccache", "target": TARGET, "env": {**env, **mine}}
    return settings


def _tell(which: str, made: First, url: str) -> None:
    print(
        f"shared-real: {which}: {made.seconds:.1f} s in all, {made.compiling:.1f} s of Ninja alone,"
        f" {made.run['cache']}; redis: {asked(url)}",
        flush=True,
    )
