"""Distribute compilations to other machines with distcc or icecream during a build.

Distribution only sets environment variables, so that command lines and objects stay the same. An
unusable worker does not make the build fail: this machine compiles what no worker accepts.
"""

import contextlib
import shlex
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from tasks.compiler_cache.cache_program_io import parse_cache_kind
from tasks.core.errors import CommandFailedError, TorchyardError
from tasks.core.model import Command, Json
from tasks.runlog import run_record_io
from tasks.settings import compile_workers
from tasks.settings.compile_workers import DISTRIBUTOR_PROGRAMS, DistributionSettings, Worker
from tasks.system import files, shell
from tasks.system.hardware import capacity
from tasks.system.hardware.operating_system import format_install_command
from tasks.system.output import bind_current_context, print_line, print_warning

_PROBE_TIMEOUT = 8.0  # seconds; distcc waits 4 for a connection
_PACKING_TIMEOUT = 120.0  # seconds; at first use, the daemon packs and sends the compiler
_PROBE_LOCK = threading.Lock()  # extensions build in parallel
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
_CXX_PROBE = """
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
_PROBE_SOURCES = {"probe.c": _C_PROBE, "probe.cpp": _CXX_PROBE + _C_PROBE}


def find_usable_workers(
    settings: DistributionSettings, program: str, compilers: Sequence[str], env: Mapping[str, str]
) -> tuple[Worker, ...]:
    """Return the workers that `program` (distcc or icecc) can use. Warn about unusable workers."""
    key = (settings, program, *compilers)
    with _PROBE_LOCK:
        if key not in _usable_workers:
            if settings.kind == "distcc":
                obstacles = _check_distcc_workers(settings.hosts, program, compilers, env)
            else:
                probe = (program, compilers[-1], env)
                obstacles = [(one, _check_icecream(one, *probe)) for one in settings.hosts]
            for worker, obstacle in obstacles:
                if obstacle:
                    print_warning(f"{worker.name} is not used in this build: {obstacle}")
            _usable_workers[key] = tuple(worker for worker, obstacle in obstacles if not obstacle)
            if not _usable_workers[key]:
                print_warning("no worker can be used, so this machine compiles everything")
        return _usable_workers[key]


def _check_distcc_workers(
    hosts: Sequence[Worker], program: str, compilers: Sequence[str], env: Mapping[str, str]
) -> list[tuple[Worker, str]]:
    """Return each worker and why it cannot be used ("" if it can)."""
    with tempfile.TemporaryDirectory(prefix="torchyard-workers-") as name:
        folder = Path(name)
        for source, text in _PROBE_SOURCES.items():
            (folder / source).write_text(text, encoding="utf-8")
        local_objects = {}
        for source, compiler in zip(_PROBE_SOURCES, compilers, strict=True):
            try:
                local_objects[source, compiler] = _compile_probe(folder, (compiler,), source, env)
            except TorchyardError as error:
                return [(one, f"the test file does not compile: {error.message}") for one in hosts]
        probe = (program, folder, local_objects, env)
        with ThreadPoolExecutor(len(hosts)) as threads:
            answers = [
                (one, threads.submit(bind_current_context(_compare_worker), one, *probe))
                for one in hosts
            ]
        return [(one, answer.result()) for one, answer in answers]


def _compare_worker(
    one: Worker,
    program: str,
    folder: Path,
    local_objects: Mapping[tuple[str, str], bytes],
    env: Mapping[str, str],
) -> str:
    """Compile test files on a worker. Return why it cannot be used ("" if it can)."""
    state_folder = folder / f"distcc-{one.user}-{one.name}-{one.port}"
    state_folder.mkdir()
    worker_env = {
        **env,
        "DISTCC_HOSTS": one.distcc_host,
        "DISTCC_FALLBACK": "0",
        "DISTCC_SKIP_LOCAL_RETRY": "1",
        "DISTCC_IO_TIMEOUT": f"{_PROBE_TIMEOUT:.0f}",
        "DISTCC_DIR": str(state_folder),  # a new one, so that no earlier failure counts
    }
    for (source, compiler), expected in local_objects.items():
        command = (program, compiler)
        try:
            object_code = _compile_probe(folder, command, source, worker_env, state_folder.name)
        except CommandFailedError as error:
            return _explain_probe_failure(error, compiler)
        if object_code != expected:
            return f"its {compiler} generates other object code than the compiler of this machine"
    return ""


def _explain_probe_failure(error: CommandFailedError, compiler: str) -> str:
    """Return why a test file did not compile on a worker."""
    lines = [line.partition("] ")[2] or line for line in error.output.splitlines() if line.strip()]
    relevant = [line for line in lines if "fallbacks are disabled" not in line]
    reason = next((line.partition("ERROR: ")[2] for line in relevant if "ERROR: " in line), "")
    reason = reason or (relevant or [error.exit_description])[-1]
    return f"it cannot compile with {compiler}: {reason}"


def _compile_probe(
    folder: Path, words: Sequence[str], source: str, env: Mapping[str, str], name: str = "here"
) -> bytes:
    object_file = folder / f"{name}-{source}.o"
    argv = (*words, *_PROBE_OPTIONS, source, "-o", str(object_file))
    description = f"compile {source} with {' '.join(words)}"
    probe_env = {key: value for key, value in env.items() if key not in {"DISTCC_LOG", "CPPFLAGS"}}
    shell.capture_output(Command(argv, probe_env, description, cwd=folder, timeout=_PROBE_TIMEOUT))
    return object_file.read_bytes()


def _check_icecream(scheduler: Worker, icecc: str, compiler: str, env: Mapping[str, str]) -> str:
    """Return why icecc cannot use its scheduler or this machine's daemon, "" if it can."""
    try:
        socket.create_connection((scheduler.name, scheduler.port), _PROBE_TIMEOUT).close()
    except OSError as error:
        reason = str(error.strerror or error).lower()
        return f"{scheduler.name}:{scheduler.port} does not answer: {reason}"
    with tempfile.TemporaryDirectory(prefix="torchyard-workers-") as name:
        folder, log = Path(name), Path(name, "icecc.log")
        (folder / "probe.cpp").write_text(_PROBE_SOURCES["probe.cpp"], encoding="utf-8")
        argv = (icecc, compiler, *_PROBE_OPTIONS, "probe.cpp", "-o", "probe.o")
        logging_env = {**env, "ICECC_LOGFILE": str(log), "ICECC_DEBUG": "debug"}
        what = "compile probe.cpp with icecc"
        command = Command(argv, logging_env, what, cwd=folder, timeout=_PACKING_TIMEOUT)
        try:
            shell.capture_output(command)
        except TorchyardError as error:
            return f"icecc cannot compile a test file: {error.message}"
        output = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    if "asking for host to use" in output:
        return ""
    return "iceccd is not running on this machine; run: sudo systemctl start iceccd"


_CCACHE_PREFIX = "CCACHE_PREFIX"  # makes ccache call the compiler through another program
# For each program: the variable for its log file, and the log level that counting needs
_LOG_VARIABLES = {
    "distcc": ("DISTCC_LOG", {"DISTCC_VERBOSE": "1"}),
    "icecream": ("ICECC_LOGFILE", {"ICECC_DEBUG": "debug"}),
}


@dataclass
class CompileDistribution:
    """The distribution of compilations to workers in a `with` block.

    `env` is the environment for the compilations. `slots` is how many jobs the workers can run at
    once. At the end of the block, `noted` has the number of compilations on each host, if known.
    """

    env: Mapping[str, str]
    slots: int = 0
    noted: dict[str, Json] = field(default_factory=dict)


@contextlib.contextmanager
def distribute_compilations(
    settings: DistributionSettings,
    launcher: str,
    compilers: Sequence[str],
    env: Mapping[str, str],
    log: PurePath,
) -> Iterator[CompileDistribution]:
    """Distribute the compilations in a `with` block to workers, and count them by host.

    `launcher` is the compiler launcher in use. `log` is a temporary log of distcc or icecream.
    """
    distribution = CompileDistribution(env)
    workers: tuple[Worker, ...] = ()
    program = ""
    if settings.kind != "off":
        program = shutil.which(DISTRIBUTOR_PROGRAMS[settings.kind], path=env.get("PATH")) or ""
        if obstacle := _find_distribution_obstacle(settings, launcher, program, env):
            print_warning(f"no compilation is sent to workers: {obstacle}")
        else:
            write_wrapper_script(settings.script)
            workers = find_usable_workers(settings, program, compilers, env)
    if not workers:
        yield distribution
        return
    log_file = Path(log)
    log_file.unlink(missing_ok=True)
    distribution.slots = sum(worker.slots for worker in workers)
    kind, cores = settings.kind, capacity.count_usable_cores()
    variables = {
        compile_workers.DISTRIBUTE_VARIABLE: program,
        # This DISTCC_HOSTS replaces the user's and has no unusable hosts
        **compile_workers.build_distcc_variables(kind, workers, cores),
        **_build_log_variables(kind, env, log_file),
    }
    if parse_cache_kind(launcher) == "ccache":
        variables[_CCACHE_PREFIX] = settings.script
        # In depend mode ccache looks up results by the headers that the compiler lists. Otherwise
        # ccache would preprocess, and distcc would preprocess again; the hits are the same
        if "CCACHE_NODEPEND" not in env:
            variables["CCACHE_DEPEND"] = "1"
    distribution.env = {**env, **variables}
    try:
        yield distribution
    finally:
        if log_file.is_file():
            with log_file.open(encoding="utf-8", errors="replace") as lines:
                counts = compile_workers.count_compilations(kind, lines)
            log_file.unlink()  # it has 5 KB for each compilation
            run_record_io.record_workers(counts)
            print_line(compile_workers.format_compilation_counts(kind, counts))
            distribution.noted = {"workers": {"kind": kind, "by_host": dict(counts)}}


def write_wrapper_script(path: str) -> None:
    """Write the compiler launcher script that distributes compilations to workers."""
    script = Path(path)
    text = script.read_text(encoding="utf-8") if script.is_file() else ""
    if text != compile_workers.DISTRIBUTE_SCRIPT:
        files.write_atomic(script, compile_workers.DISTRIBUTE_SCRIPT)
        script.chmod(0o755)


def _find_distribution_obstacle(
    settings: DistributionSettings, launcher: str, program: str, env: Mapping[str, str]
) -> str:
    cache_kind = parse_cache_kind(launcher)
    if not program:
        command = format_install_command(settings.kind)
        return f"{DISTRIBUTOR_PROGRAMS[settings.kind]} is not installed; run: {command}"
    if cache_kind == "sccache":
        return f"sccache does not work with {settings.kind}; set build.cache: ccache or off"
    if cache_kind == "ccache" and env.get(_CCACHE_PREFIX):
        return f"{_CCACHE_PREFIX} is already set to {env[_CCACHE_PREFIX]}; unset this variable"
    if cache_kind == "ccache" and shlex.quote(settings.script) != settings.script:
        path = settings.script
        return f"ccache cannot call {path}; move the project to a path without special characters"
    if cache_kind or launcher == settings.script:
        return ""
    return (
        "the build folder was configured without a compiler launcher; remove the folder to compile "
        "everything again with workers"
    )


def _build_log_variables(kind: str, env: Mapping[str, str], log: Path) -> dict[str, str]:
    """Return the variables that make distcc or icecream write a log; {} if the user set them."""
    name, level = _LOG_VARIABLES[kind]
    if user_variables := [variable for variable in (name, *level) if variable in env]:
        names = " and ".join(user_variables)
        print_line(f"torchyard cannot count the compilations per worker: build.env sets {names}")
        return {}
    return {name: str(log), **level}
