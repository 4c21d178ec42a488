"""ccache and sccache on this machine: which is there, and how much of a build it served.

What is set for them is decided by `tasks.stages.env.launchers`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import Any, Literal

from tasks.core.deps_model import Cache
from tasks.core.errors import BuildError, CommandFailedError, MissingToolError
from tasks.core.model import Command, Json
from tasks.diagnosis.tail_io import Tail
from tasks.knowledge.versions import numbers
from tasks.system import shell
from tasks.system.hardware import compilers

# The first that nvcc's variables can be told apart by: ccache has namespaces from 4.5 on
# (doc/news.adoc), sccache reads them from 0.9 on (src/compiler/nvcc.rs)
_OLDEST = {"ccache": (4, 5), "sccache": (0, 9)}
# sccache takes nvcc apart and counts its parts beside the whole
_PARTS = ("PTX", "CUBIN", "CUDA (Device code)")
_RARE = {"shared", "unreached"}  # told where there are any
# Calls that no cache is for: linking, preprocessing, a question for the version
_NO_COMPILATIONS = {"called_for_link", "called_for_preprocessing", "no_input_file"}
_HITS = {"direct_cache_hit", "preprocessed_cache_hit"}
_SHARED = {"remote_storage_hit", "secondary_storage_hit"}  # the second before 4.7
_UNREACHED = {
    *("remote_storage_error", "remote_storage_timeout"),
    *("secondary_storage_error", "secondary_storage_timeout"),
}


@dataclass(frozen=True)
class Counts:
    """Compilations that the cache served, those it had to learn, and those it could do nothing
    about; `shared` of the first came from the cache that machines share, as far as that is told.
    Of all of them `unreached` asked it and got no answer.
    """

    hits: int
    misses: int
    uncacheable: int
    shared: int = 0
    unreached: int = 0

    def noted(self, cache: Cache) -> dict[str, Json]:
        """For a record."""
        told = {name: count for name, count in asdict(self).items() if count or name not in _RARE}
        return {"kind": cache.kind, **told}

    def told(self, cache: Cache) -> str:
        """For a person."""
        beside = f", {self.uncacheable} could not be cached" if self.uncacheable else ""
        shared = f", {self.shared} of them from the shared cache" if self.shared else ""
        told = f"{self.hits} of {self.hits + self.misses} compilations{shared}{beside}"
        return f"{cache.kind} served {told}"


@dataclass
class Measured:
    """`env` is what the commands of the block get; `counts` is there after it, None where nothing
    can be told. `hit_rate` can be asked within it: a share of 1, None where nothing is known yet.
    """

    env: Mapping[str, str]
    counts: Counts | None = None
    hit_rate: Callable[[], float | None] = lambda: None


class HitRate:
    """ccache's, out of its CCACHE_STATSLOG as that grows."""

    def __init__(self, log: Path) -> None:
        self._tail = Tail(log)
        self._hits = self._misses = 0

    def now(self) -> float | None:
        """A share of 1, None before the first compilation."""
        lines = self._tail.lines()
        self._hits += sum(line in _HITS for line in lines)
        self._misses += lines.count("cache_miss")
        calls = self._hits + self._misses
        return self._hits / calls if calls else None


def find(program: str) -> Cache | None:
    """A cache by name or path; None where it is not here, too old, or no cache that we know."""
    kind = kind_of(program)
    found = compilers.program(program) if kind else None
    if not found or not kind or numbers(found.version) < _OLDEST[kind]:
        return None
    own = _configured(found.path) if kind == "ccache" else _configured_sccache()
    return Cache(kind, found.path, found.version, own)


def kind_of(program: str) -> Literal["ccache", "sccache", ""]:
    """Which cache a program's name says it is."""
    match PurePath(program).stem:
        case "ccache":
            return "ccache"
        case "sccache":
            return "sccache"
    return ""


def is_there(program: str) -> bool:
    """Whether a launcher can be started."""
    return shutil.which(program) is not None


def too_old(kind: str) -> str:
    """The version of one that is here and cannot be used, else ""."""
    found = compilers.program(kind)
    return found.version if found and numbers(found.version) < _OLDEST[kind] else ""


@contextlib.contextmanager
def measure(cache: Cache, env: Mapping[str, str], log: PurePath) -> Iterator[Measured]:
    """Count what the cache does for the commands of the block, which take the `env` it gives.

    `log` is a file for the counting. sccache counts for everyone whom its server serves. The counts
    are set even if the block fails.
    """
    measured = Measured(env)
    if cache.kind == "ccache" and "CCACHE_STATSLOG" not in env:
        Path(log).unlink(missing_ok=True)
        measured.env = {**env, "CCACHE_STATSLOG": str(log)}
        measured.hit_rate = HitRate(Path(log)).now
        try:
            yield measured
        finally:
            measured.counts = counts_of_log(Path(log))
    elif cache.kind == "sccache":
        start_server(cache, env)
        before = _counts_of_server(cache, env)
        try:
            yield measured
        finally:
            measured.counts = _since(before, _counts_of_server(cache, env))
    else:
        yield measured


def counts_of_log(log: Path) -> Counts:
    """ccache's CCACHE_STATSLOG: a comment for each call, then a line for each thing that came of
    it.
    """
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    calls = [set(call.splitlines()[1:]) for call in re.split(r"^(?=#)", text, flags=re.MULTILINE)]
    hits = sum(bool(call & _HITS) for call in calls)
    misses = sum("cache_miss" in call for call in calls)
    rest = [call for call in calls if call and not call & (_HITS | {"cache_miss"})]
    shared = sum(bool(call & _HITS and call & _SHARED) for call in calls)
    unreached = sum(bool(call & _UNREACHED) for call in calls)
    uncacheable = sum(not call & _NO_COMPILATIONS for call in rest)
    return Counts(hits, misses, uncacheable, shared, unreached)


def counts_of_stats(stats: Mapping[str, Any]) -> Counts:
    """The `stats` of `sccache --show-stats --stats-format json`, since its server was started."""
    return Counts(
        _wholes(stats["cache_hits"]),
        _wholes(stats["cache_misses"]),
        stats["requests_not_cacheable"] + stats["requests_unsupported_compiler"],
    )


def _wholes(counted: Mapping[str, Any]) -> int:
    return sum(number for name, number in counted["counts"].items() if name not in _PARTS)


def _since(before: Counts | None, after: Counts | None) -> Counts | None:
    """A server that was started anew in between has counted from nothing."""
    if before is None or after is None:
        return None
    if after.hits < before.hits or after.misses < before.misses:
        return after
    return Counts(
        after.hits - before.hits,
        after.misses - before.misses,
        after.uncacheable - before.uncacheable,
    )


def start_server(cache: Cache, env: Mapping[str, str]) -> None:
    """Start sccache's server before the first compiler does, so that it is no process of the build.

    A server that runs already keeps the settings it was started with.
    """
    argv = (cache.path, "--start-server")
    with contextlib.suppress(CommandFailedError, MissingToolError):
        shell.capture(Command(argv, env, "start sccache's server", serves=True))


def _counts_of_server(cache: Cache, env: Mapping[str, str]) -> Counts | None:
    argv = (cache.path, "--show-stats", "--stats-format", "json")
    try:
        told = json.loads(shell.capture(Command(argv, env, "ask sccache")))
        return counts_of_stats(told["stats"])
    except (BuildError, ValueError, KeyError):  # BuildError: also if the run is being stopped
        return None


def _configured(ccache: str) -> tuple[str, ...]:
    """What its configuration files set: "(FILE) max_size = 50.0G". The environment is looked at
    when it counts, in `Environment.over`.
    """
    try:
        text = shell.capture(Command((ccache, "--show-config"), shell.host_env(), "ask ccache"))
    except CommandFailedError:
        return ()
    found = re.findall(r"^\((?!default\)|environment\))[^\n]*?\) (\w+) =", text, re.MULTILINE)
    return tuple(sorted(found))


def _configured_sccache() -> tuple[str, ...]:
    """All of them, where a person keeps a configuration of sccache's."""
    home = Path.home()
    places = (
        os.environ.get("SCCACHE_CONF", ""),
        Path(os.environ.get("XDG_CONFIG_HOME", home / ".config")) / "sccache" / "config",
        home / "Library" / "Application Support" / "Mozilla.sccache" / "config",
        Path(os.environ.get("APPDATA", home)) / "Mozilla" / "sccache" / "config" / "config",
    )
    return ("basedirs", "size") if any(place and Path(place).is_file() for place in places) else ()
