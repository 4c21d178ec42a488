"""Which of the machines may compile for this one, asked once in a run.

distcc sends a preprocessed source and the compiler's path: what a worker has there makes the
object. Macros are those of this machine, so they prove nothing: each worker compiles a probe with
the same options as this machine does, and has to come to the same bytes. They hold what the
compiler says of itself (.comment, and the producer of the debug information) and what it makes of a
little code.
icecream sends the compiler itself. It is used if the scheduler answers and an icecream daemon runs
on this machine: without one, icecc compiles locally, one source at a time.
"""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tasks.core.errors import CommandFailedError, TorchyardError
from tasks.core.model import Command
from tasks.settings.workers import DistributionSettings, Worker
from tasks.system import shell
from tasks.system.voice import bind_current_context, print_warning

_PROBE_TIMEOUT = 8.0  # seconds; distcc itself waits 4 for a connection
_PACKING_TIMEOUT = 120.0  # seconds; the first time, the daemon packs and sends the compiler
_PROBE_LOCK = threading.Lock()  # extensions are at work beside each other
_usable_workers: dict[tuple[object, ...], tuple[Worker, ...]] = {}
_PROBE_OPTIONS = ("-O2", "-g", "-fPIC", "-c")
_C_PROBE = """
struct point { double x, y; };
double torchyard_probe(const float *in, struct point *out, int many) {
  double sum = 0;
  for (int i = 0; i < many; i++) {
    sum += in[i] * in[i];
    out[i].x = in[i];
    out[i].y = sum / (i + 1);
  }
  switch (many) { case 1: return 1; case 5: return sum; case 17: return -sum; case 40: return 0; }
  return sum;
}
"""
_CXX_PROBE = (
    """
template <class T> struct row {
  T at[8];
  T sum() const { T s{}; for (T x : at) s += x * x; return s; }
};
struct shape { virtual ~shape() {} virtual double area(int) const = 0; };
struct square : shape {
  double side;
  double area(int n) const override { return side * side * n; }
};
double torchyard_measure(const shape &one, int n) { if (n < 0) throw n; return one.area(n); }
double torchyard_rows(const float *in, int n) {
  row<double> r{}; square s; s.side = n;
  for (int i = 0; i < n; i++) r.at[i % 8] += in[i];
  try { return r.sum() + torchyard_measure(s, n); } catch (int) { return 0; }
}
"""
    + _C_PROBE
)
_PROBE_SOURCES = {"probe.c": _C_PROBE, "probe.cpp": _CXX_PROBE}


def find_usable_workers(
    asked: DistributionSettings, program: str, compilers: Sequence[str], env: Mapping[str, str]
) -> tuple[Worker, ...]:
    """The machines that can be used; each of the others is named with the reason. `compilers` are
    those of C and of C++, `program` is who hands on.
    """
    key = (asked, program, *compilers)
    with _PROBE_LOCK:
        if key not in _usable_workers:
            hindrances = _find_worker_obstacles(asked, program, compilers, env)
            for one, why in hindrances:
                if why:
                    print_warning(f"{one.name} is left out of the build: {why}")
            _usable_workers[key] = tuple(one for one, why in hindrances if not why)
            if not _usable_workers[key]:
                print_warning("no other machine is left: everything is compiled here")
        return _usable_workers[key]


def _find_worker_obstacles(
    asked: DistributionSettings, program: str, compilers: Sequence[str], env: Mapping[str, str]
) -> list[tuple[Worker, str]]:
    if asked.kind == "distcc":
        return _check_distcc_workers(asked.hosts, program, compilers, env)
    return [
        (one, _check_scheduler(one) or _check_icecream_daemon(program, compilers, env))
        for one in asked.hosts
    ]


def _check_distcc_workers(
    hosts: Sequence[Worker], program: str, compilers: Sequence[str], env: Mapping[str, str]
) -> list[tuple[Worker, str]]:
    """All of them at once."""
    with tempfile.TemporaryDirectory(prefix="torchyard-workers-") as name:
        folder = Path(name)
        for source, text in _PROBE_SOURCES.items():
            (folder / source).write_text(text, encoding="utf-8")
        mine = {}
        for source, compiler in zip(_PROBE_SOURCES, compilers, strict=True):
            try:
                mine[source, compiler] = _compile_probe(folder, (compiler,), source, env)
            except TorchyardError as error:
                return [(one, f"the probe does not compile here: {error.message}") for one in hosts]
        with ThreadPoolExecutor(len(hosts)) as threads:

            def compare_objects(one: Worker) -> str:
                return _compare_worker(one, program, folder, mine, env)

            asking = [threads.submit(bind_current_context(compare_objects), one) for one in hosts]
            return [(one, answer.result()) for one, answer in zip(hosts, asking, strict=True)]


def _compare_worker(
    one: Worker,
    program: str,
    folder: Path,
    mine: Mapping[tuple[str, str], bytes],
    env: Mapping[str, str],
) -> str:
    """Why its objects cannot be used, "" where they are ours."""
    alone = {
        "DISTCC_HOSTS": one.distcc_host,
        "DISTCC_FALLBACK": "0",
        "DISTCC_SKIP_LOCAL_RETRY": "1",
        "DISTCC_IO_TIMEOUT": f"{_PROBE_TIMEOUT:.0f}",
    }
    own = folder / f"distcc-{one.user}-{one.name}-{one.port}"  # no worker is in disgrace there
    own.mkdir()
    for (source, compiler), expected in mine.items():
        try:
            there = {**env, **alone, "DISTCC_DIR": str(own)}
            found = _compile_probe(folder, (program, compiler), source, there, own.name)
        except CommandFailedError as error:
            return _explain_probe_failure(error, compiler)
        if found != expected:
            return f"its {compiler} is another than that of this machine: it makes other code"
    return ""


def _explain_probe_failure(error: CommandFailedError, compiler: str) -> str:
    """The last thing that distcc, or the compiler there, has to say."""
    lines = [line.partition("] ")[2] or line for line in error.output.splitlines() if line.strip()]
    told = [line for line in lines if "fallbacks are disabled" not in line]
    why = next((line.partition("ERROR: ")[2] for line in told if "ERROR: " in line), "")
    return f"it compiled nothing with {compiler}: {why or (told or [error.exit_description])[-1]}"


def _compile_probe(
    folder: Path, words: Sequence[str], source: str, env: Mapping[str, str], name: str = "here"
) -> bytes:
    made = folder / f"{name}-{source}.o"
    argv = (*words, *_PROBE_OPTIONS, source, "-o", str(made))
    what = f"compile {source} with {' '.join(words)}"
    clean = {key: value for key, value in env.items() if key not in {"DISTCC_LOG", "CPPFLAGS"}}
    shell.capture_output(Command(argv, clean, what, cwd=folder, timeout=_PROBE_TIMEOUT))
    return made.read_bytes()


def _check_scheduler(one: Worker) -> str:
    """Why the scheduler cannot be reached."""
    try:
        socket.create_connection((one.name, one.port), _PROBE_TIMEOUT).close()
    except OSError as error:
        return f"{one.name}:{one.port} does not answer: {str(error.strerror or error).lower()}"
    return ""


def _check_icecream_daemon(icecc: str, compilers: Sequence[str], env: Mapping[str, str]) -> str:
    """Return why icecc cannot reach a daemon on this machine, "" if it can. Compiles a probe."""
    with tempfile.TemporaryDirectory(prefix="torchyard-workers-") as name:
        folder, log = Path(name), Path(name, "icecc.log")
        (folder / "probe.cpp").write_text(_CXX_PROBE, encoding="utf-8")
        argv = (icecc, compilers[-1], *_PROBE_OPTIONS, "probe.cpp", "-o", "probe.o")
        logged = {**env, "ICECC_LOGFILE": str(log), "ICECC_DEBUG": "debug"}
        what = "compile probe.cpp with icecc"
        try:
            shell.capture_output(Command(argv, logged, what, cwd=folder, timeout=_PACKING_TIMEOUT))
        except TorchyardError as error:
            return f"icecc cannot compile a test file: {error.message}"
        said = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    if "asking for host to use" in said:
        return ""
    return "iceccd is not running on this machine: sudo systemctl start iceccd"
