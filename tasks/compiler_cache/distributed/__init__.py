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

from tasks.compiler_cache.compilercache import kind_of
from tasks.compiler_cache.distributed.fit import usable
from tasks.core.model import Json
from tasks.runlog import recording
from tasks.settings import workers
from tasks.settings.workers import PROGRAMS, Kind, Worker, Workers
from tasks.system import files
from tasks.system.hardware import capacity
from tasks.system.hardware.packagemanager import installing
from tasks.system.voice import say, warn

_PREFIX = "CCACHE_PREFIX"  # with it ccache calls the compiler by another program
# Where a program writes what it does, and how much of it so that it can be counted
_LOGGING = {
    "distcc": ("DISTCC_LOG", {"DISTCC_VERBOSE": "1"}),
    "icecream": ("ICECC_LOGFILE", {"ICECC_DEBUG": "debug"}),
}


@dataclass
class Handed:
    """`env` is what the commands of the block get, `slots` how many jobs other machines take at
    once; `noted` is there after it, for a record: who did how many, where that is known.
    """

    env: Mapping[str, str]
    slots: int = 0
    noted: dict[str, Json] = field(default_factory=dict)


@contextlib.contextmanager
def handing_on(
    asked: Workers,
    launcher: str,
    compilers: Sequence[str],
    env: Mapping[str, str],
    log: PurePath,
) -> Iterator[Handed]:
    """Hand on what the commands of the block compile. `launcher` is what stands before their
    compilers already; `log` is a file for the counting. Who did how many is said and recorded
    however the block ends.
    """
    handed = Handed(env)
    there = _there(asked, launcher, compilers, env)
    if not there:
        yield handed
        return
    own = Path(log)
    own.unlink(missing_ok=True)
    handed.slots = sum(one.slots for one in there)
    handed.env = {**env, **_variables(asked, there, launcher, env, own)}
    try:
        yield handed
    finally:
        if own.is_file():
            handed.noted = _counted(asked.kind, own)


def _counted(kind: Kind, log: Path) -> dict[str, Json]:
    """Out of the log, which is not kept: 5 KB for each compilation."""
    with log.open(encoding="utf-8", errors="replace") as lines:
        counts = workers.counted(kind, lines)
    log.unlink()
    recording.workers(counts.by_host)
    say(counts.told(kind))
    return {"workers": counts.noted(kind)}


def prepare(path: str) -> None:
    """The script that hands on, which a build folder may have in its command lines."""
    script = Path(path)
    text = script.read_text(encoding="utf-8") if script.is_file() else ""
    if text != workers.SCRIPT:
        files.write_atomic(script, workers.SCRIPT)
        script.chmod(0o755)


def _there(
    asked: Workers, launcher: str, compilers: Sequence[str], env: Mapping[str, str]
) -> tuple[Worker, ...]:
    """Those that can be used; why others cannot is said."""
    if asked.kind == "off":
        return ()
    program = shutil.which(PROGRAMS[asked.kind], path=env.get("PATH")) or ""
    if why := _hindrance(asked, launcher, program, env):
        warn(f"nothing is handed to other machines: {why}")
        return ()
    prepare(asked.script)
    return usable(asked, program, compilers, env)


def _hindrance(asked: Workers, launcher: str, program: str, env: Mapping[str, str]) -> str:
    before = kind_of(launcher)
    if not program:
        return f"{PROGRAMS[asked.kind]} is not here ({installing(asked.kind)})"
    if before == "sccache":
        return (
            f"sccache caches here, which hands nothing on to {asked.kind}: install ccache and set "
            "build.cache: ccache, or off"
        )
    if before == "ccache":
        return _of_prefix(asked, env)
    if launcher != asked.script:
        return (
            "this build folder was configured with nothing before its compilers; one that is "
            "removed is configured anew, and all is compiled again"
        )
    return ""


def _of_prefix(asked: Workers, env: Mapping[str, str]) -> str:
    if env.get(_PREFIX):
        return f"{_PREFIX} is set already, to {env[_PREFIX]}"
    if shlex.quote(asked.script) != asked.script:
        return f"ccache cannot be given a path such as {asked.script}: it splits it in words"
    return ""


def _variables(
    asked: Workers, there: Sequence[Worker], launcher: str, env: Mapping[str, str], log: Path
) -> dict[str, str]:
    """What a person set for distcc stays, but for the machines, of which some may be left out."""
    program = shutil.which(PROGRAMS[asked.kind], path=env.get("PATH")) or ""
    given = {
        workers.VARIABLE: program,
        **workers.variables(asked.kind, there, capacity.cores()),
        **_logging(asked.kind, env, log),
    }
    if kind_of(launcher) == "ccache":
        # Found by the headers that the compiler names, where else ccache would preprocess what
        # distcc preprocesses once more; hits are the same
        depend = {} if "CCACHE_NODEPEND" in env else {"CCACHE_DEPEND": "1"}
        given |= {_PREFIX: asked.script, **depend}
    return given


def _logging(kind: Kind, env: Mapping[str, str], log: Path) -> dict[str, str]:
    """A log to count by, where nobody has said how there is to be one."""
    name, level = _LOGGING[kind]
    if theirs := [one for one in (name, *level) if one in env]:
        say(f"who compiles what is not counted: {' and '.join(theirs)} of build.env stays as it is")
        return {}
    return {name: str(log), **level}
