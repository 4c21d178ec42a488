"""Compilations handed to other machines by distcc, icecream or sccache, while a build runs.

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
from dataclasses import dataclass
from pathlib import Path, PurePath

from tasks import workers
from tasks.effects import capacity, files
from tasks.effects.compilercache import kind_of
from tasks.effects.distribute.fit import usable
from tasks.effects.voice import warn
from tasks.workers import PROGRAMS, Counts, Worker, Workers

_PREFIX = "CCACHE_PREFIX"  # with it ccache calls the compiler by another program


@dataclass
class Handed:
    """`env` is what the commands of the block get, `slots` how many jobs other machines take at
    once; `counts` is there after it, None where nothing was handed on.
    """

    env: Mapping[str, str]
    slots: int = 0
    counts: Counts | None = None


@contextlib.contextmanager
def handing_on(
    asked: Workers,
    launcher: str,
    compilers: Sequence[str],
    env: Mapping[str, str],
    log: PurePath,
) -> Iterator[Handed]:
    """Hand on what the commands of the block compile. `launcher` is what stands before their
    compilers already; `log` is a file for the counting.
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
    yield handed
    if own.is_file():
        with own.open(encoding="utf-8", errors="replace") as lines:
            handed.counts = workers.counted(asked.kind, lines)
        own.unlink()  # 5 KB for each compilation


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
    if not program and asked.kind != "sccache-dist":
        return f"{PROGRAMS[asked.kind]} is not here ({workers.INSTALL[asked.kind]})"
    if asked.kind == "sccache-dist":
        return (
            "" if before == "sccache" else "sccache is not what caches here: build.cache: sccache"
        )
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
    if asked.kind == "sccache-dist":
        return {}
    program = shutil.which(PROGRAMS[asked.kind], path=env.get("PATH")) or ""
    logs = {"distcc": {"DISTCC_LOG": str(log), "DISTCC_VERBOSE": "1"}}
    given = {
        workers.VARIABLE: program,
        **workers.variables(asked.kind, there, capacity.cores()),
        **logs.get(asked.kind, {"ICECC_LOGFILE": str(log)}),
    }
    if kind_of(launcher) == "ccache":
        # Found by the headers that the compiler names, where else ccache would preprocess what
        # distcc preprocesses once more; hits are the same
        depend = {} if "CCACHE_NODEPEND" in env else {"CCACHE_DEPEND": "1"}
        given |= {_PREFIX: asked.script, **depend}
    return given
