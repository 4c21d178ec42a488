"""Compilations handed to other machines by distcc or icecream, while a build runs.

What the build gets are variables alone: its command lines stay what they are, and so do its
objects. Whoever cannot be used is left out with a warning, and no build ends for it: what nobody
takes is compiled here. distcc and ccache do the work (ccache's manual, "Using ccache with other
compiler wrappers").
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from tasks.compiler_cache.compilercache import parse_cache_kind
from tasks.compiler_cache.distributed.fit import find_usable_workers
from tasks.core.model import Json
from tasks.runlog import recording
from tasks.settings import workers
from tasks.settings.workers import (
    DISTRIBUTOR_PROGRAMS,
    DistributionSettings,
    DistributorKind,
    Worker,
)
from tasks.system import files
from tasks.system.hardware import capacity
from tasks.system.hardware.packagemanager import format_install_command
from tasks.system.voice import print_line, print_warning

_CCACHE_PREFIX = "CCACHE_PREFIX"  # with it ccache calls the compiler by another program
# Where a program writes what it does, and how much of it so that it can be counted
_LOG_VARIABLES = {
    "distcc": ("DISTCC_LOG", {"DISTCC_VERBOSE": "1"}),
    "icecream": ("ICECC_LOGFILE", {"ICECC_DEBUG": "debug"}),
}


@dataclass
class CompileDistribution:
    """`env` is what the commands of the block get, `slots` how many jobs other machines take at
    once; `noted` is there after it, for a record: who did how many, where that is known.
    """

    env: Mapping[str, str]
    slots: int = 0
    noted: dict[str, Json] = field(default_factory=dict)


@contextlib.contextmanager
def distribute_compilations(
    asked: DistributionSettings,
    launcher: str,
    compilers: Sequence[str],
    env: Mapping[str, str],
    log: PurePath,
) -> Iterator[CompileDistribution]:
    """Hand on what the commands of the block compile. `launcher` is what stands before their
    compilers already; `log` is a file for the counting. Who did how many is said and recorded
    however the block ends.
    """
    handed = CompileDistribution(env)
    there = _select_workers(asked, launcher, compilers, env)
    if not there:
        yield handed
        return
    own = Path(log)
    own.unlink(missing_ok=True)
    handed.slots = sum(one.slots for one in there)
    handed.env = {**env, **_build_variables(asked, there, launcher, env, own)}
    try:
        yield handed
    finally:
        if own.is_file():
            handed.noted = _record_counts(asked.kind, own)


def _record_counts(kind: DistributorKind, log: Path) -> dict[str, Json]:
    """Out of the log, which is not kept: 5 KB for each compilation."""
    with log.open(encoding="utf-8", errors="replace") as lines:
        counts = workers.count_compilations(kind, lines)
    log.unlink()
    recording.record_workers(counts.by_host)
    print_line(counts.format_summary(kind))
    return {"workers": counts.build_record_entry(kind)}


def write_wrapper_script(path: str) -> None:
    """The script that hands on, which a build folder may have in its command lines."""
    script = Path(path)
    text = script.read_text(encoding="utf-8") if script.is_file() else ""
    if text != workers.DISTRIBUTE_SCRIPT:
        files.write_atomic(script, workers.DISTRIBUTE_SCRIPT)
        script.chmod(0o755)


def _select_workers(
    asked: DistributionSettings, launcher: str, compilers: Sequence[str], env: Mapping[str, str]
) -> tuple[Worker, ...]:
    """Those that can be used; why others cannot is said."""
    if asked.kind == "off":
        return ()
    program = shutil.which(DISTRIBUTOR_PROGRAMS[asked.kind], path=env.get("PATH")) or ""
    if why := _find_distribution_obstacle(asked, launcher, program, env):
        print_warning(f"nothing is handed to other machines: {why}")
        return ()
    write_wrapper_script(asked.script)
    return find_usable_workers(asked, program, compilers, env)


def _find_distribution_obstacle(
    asked: DistributionSettings, launcher: str, program: str, env: Mapping[str, str]
) -> str:
    before = parse_cache_kind(launcher)
    if not program:
        return (
            f"{DISTRIBUTOR_PROGRAMS[asked.kind]} is not here ({format_install_command(asked.kind)})"
        )
    if before == "sccache":
        return (
            f"sccache caches here, which hands nothing on to {asked.kind}: install ccache and set "
            "build.cache: ccache, or off"
        )
    if before == "ccache":
        return _check_ccache_prefix(asked, env)
    if launcher != asked.script:
        return (
            "this build folder was configured with nothing before its compilers; one that is "
            "removed is configured anew, and all is compiled again"
        )
    return ""


def _check_ccache_prefix(asked: DistributionSettings, env: Mapping[str, str]) -> str:
    if env.get(_CCACHE_PREFIX):
        return f"{_CCACHE_PREFIX} is set already, to {env[_CCACHE_PREFIX]}"
    if shlex.quote(asked.script) != asked.script:
        return f"ccache cannot be given a path such as {asked.script}: it splits it in words"
    return ""


def _build_variables(
    asked: DistributionSettings,
    there: Sequence[Worker],
    launcher: str,
    env: Mapping[str, str],
    log: Path,
) -> dict[str, str]:
    """What a person set for distcc stays, but for the machines, of which some may be left out."""
    program = shutil.which(DISTRIBUTOR_PROGRAMS[asked.kind], path=env.get("PATH")) or ""
    given = {
        workers.DISTRIBUTE_VARIABLE: program,
        **workers.build_distcc_variables(asked.kind, there, capacity.count_usable_cores()),
        **_build_log_variables(asked.kind, env, log),
    }
    if parse_cache_kind(launcher) == "ccache":
        # Found by the headers that the compiler names, where else ccache would preprocess what
        # distcc preprocesses once more; hits are the same
        depend = {} if "CCACHE_NODEPEND" in env else {"CCACHE_DEPEND": "1"}
        given |= {_CCACHE_PREFIX: asked.script, **depend}
    return given


def _build_log_variables(
    kind: DistributorKind, env: Mapping[str, str], log: Path
) -> dict[str, str]:
    """A log to count by, where nobody has said how there is to be one."""
    name, level = _LOG_VARIABLES[kind]
    if theirs := [one for one in (name, *level) if one in env]:
        print_line(
            f"who compiles what is not counted: {' and '.join(theirs)} of build.env stays as it is"
        )
        return {}
    return {name: str(log), **level}
