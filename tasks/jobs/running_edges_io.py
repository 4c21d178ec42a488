"""Find the running Ninja edges among all processes, and measure the memory of each.

A Ninja uses the jobserver if its MAKEFLAGS contain the jobserver's auth value, whichever process
started it and even if that has ended. A child of Ninja is an edge; its descendants belong to the
edge and count towards its memory. A process is inspected only while it is new, so that a sample
costs one process listing and one read per compiler.
"""

from __future__ import annotations

import re
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tasks.core.build_activity import (
    Job,
    JobKind,
    classify_command,
    classify_output,
    find_output_path,
)
from tasks.jobs import job_processes_io as processes
from tasks.settings.compile_workers import DISTRIBUTE_VARIABLE
from tasks.system import process_group

_SETTLES = 1.0  # seconds after which a process has called exec
_MIB = 2**20
_MAKE_NAMES = {"make", "gmake"}
_COMPILER_NAMES = re.compile(r"cc1(plus)?|clang.*")  # the processes that compile in GCC and clang


@dataclass(frozen=True)
class JobsSnapshot:
    """The jobs at one moment.

    `least` and `most` are bounds of the tokens that they hold: a Ninja may use its implicit slot,
    which has no token, for any of its jobs or for none, and a Ninja that has not opened the
    jobserver yet holds no tokens. `unsure`: a make, as a job or beside the Ninjas, may hold more.
    """

    jobs: tuple[Job, ...]
    ninjas: int
    idle: int  # Ninjas without a job
    least: int
    most: int
    unsure: bool


@dataclass
class _RunningEdge:
    ninja: int
    run: str
    since: float
    job: Job
    members: set[int] = field(default_factory=set)
    makes: bool = False
    nests: bool = False


class RunningEdges:
    """The running edges, updated from sample to sample.

    `peaks` and `shown` grow as edges end: `peaks` by output, for the builds of this run and local
    compilations; `shown` by kind, in ascending order, for all builds.
    """

    def __init__(self, auth: str, expected: Mapping[str, int]) -> None:
        self.peaks: dict[str, int] = {}
        self.shown: defaultdict[JobKind, list[int]] = defaultdict(list)
        for output, peak in expected.items():
            insort(self.shown[classify_output(output)], peak)
        self._auth = auth
        self._expected = expected
        self._known: dict[int, float] = {}
        self._ninjas: dict[int, str] = {}
        self._sending: set[int] = set()  # Ninjas whose C and C++ other machines compile
        self._joined: set[int] = set()
        self._makes: set[int] = set()  # makes that no Ninja started
        self._owner: dict[int, int] = {}
        self._edges: dict[int, _RunningEdge] = {}

    def sample_jobs(self, now: float, paused: Mapping[int, float] | None = None) -> JobsSnapshot:
        """Return the running jobs at `now`, in seconds of a monotonic clock.

        `paused` maps process ids to the start of their pause.
        """
        alive = processes.list_pids()
        for pid in self._known.keys() - alive:
            self._forget_process(pid)
        recent = [pid for pid, since in self._known.items() if now - since < _SETTLES]
        for pid in recent:
            self._inspect_process(pid, now)
        for pid in sorted(alive - self._known.keys()):
            self._assign_to_edge(pid, now)
        for edge in self._edges.values():
            self._measure_memory(edge, now, paused or {})
        # Before Ninja opens the jobserver, it builds the inputs of build.ninja (PyTorch's generated
        # sources) with any number of jobs
        path = self._auth.removeprefix("fifo:")
        waiting = self._ninjas.keys() - self._joined
        self._joined.update(ninja for ninja in waiting if processes.has_open_file(ninja, path))
        return self._build_snapshot()

    def _assign_to_edge(self, pid: int, now: float) -> None:
        """Assign a process to the edge of its parent, after the parent itself.

        Process ids wrap around, so that a child may have a smaller one than its parent.
        """
        if pid in self._known:
            return
        self._known[pid] = now
        parent = processes.find_parent_pid(pid)
        if parent > 1 and parent not in self._known:
            self._assign_to_edge(parent, now)
        if parent in self._ninjas:
            job = Job(pid, "", "other", 0, 0)
            self._edges[pid] = _RunningEdge(parent, self._ninjas[parent], now, job)
            self._owner[pid] = pid
        elif parent in self._owner:
            self._owner[pid] = self._owner[parent]
        if pid in self._owner:
            self._edges[self._owner[pid]].members.add(pid)
        self._inspect_process(pid, now)

    def _inspect_process(self, pid: int, now: float) -> None:
        """Update the record of a process: until exec it has its parent's command line."""
        edge = self._edges.get(pid)
        if edge and not edge.job.output:
            command = " ".join(processes.read_arguments(pid))
            output, kind = find_output_path(command), classify_command(command)
            if kind == "c++" and edge.ninja in self._sending:
                kind = "remote"
            expected = 0 if kind == "remote" else self._expected.get(output, 0)
            edge.job = replace(edge.job, output=output, kind=kind, expected_mib=expected)
        program = processes.read_program_name(pid)
        self._detect_local_compile(pid, program)
        if program in _MAKE_NAMES and pid in self._owner:
            self._edges[self._owner[pid]].makes = True
        elif program in _MAKE_NAMES and self._has_jobserver_flag(pid):
            self._makes.add(pid)
        is_new_ninja = program.startswith("ninja") and pid not in self._ninjas
        if is_new_ninja and self._is_jobserver_client(pid):
            self._ninjas[pid] = processes.read_variable(pid, process_group.RUN_VARIABLE)
            if processes.read_variable(pid, DISTRIBUTE_VARIABLE):
                self._sending.add(pid)
            if pid in self._owner:
                self._edges[self._owner[pid]].nests = True
            self._adopt_children(pid, now)

    def _detect_local_compile(self, pid: int, program: str) -> None:
        """Change a remote job to a local one if its compiler runs here: no worker took the job.

        The preprocessor, with -E, runs here for remote jobs, too.
        """
        edge = self._edges.get(self._owner.get(pid, 0))
        if not edge or edge.job.kind != "remote" or not _COMPILER_NAMES.fullmatch(program):
            return
        if "-E" not in processes.read_arguments(pid):
            expected = self._expected.get(edge.job.output, 0)
            edge.job = replace(edge.job, kind="c++", expected_mib=expected)

    def _is_jobserver_client(self, pid: int) -> bool:
        """Return True if this Ninja uses the jobserver: a Ninja with -j ignores it.

        A child of Ninja that has not called exec yet still looks like a Ninja and does not count.
        """
        arguments, parent = processes.read_arguments(pid), processes.find_parent_pid(pid)
        if parent in self._ninjas and arguments == processes.read_arguments(parent):
            return False
        has_own_limit = any(argument.startswith("-j") for argument in arguments)
        return self._has_jobserver_flag(pid) and not has_own_limit

    def _has_jobserver_flag(self, pid: int) -> bool:
        flag = f"--jobserver-auth={self._auth}"
        return flag in processes.read_variable(pid, "MAKEFLAGS").split()

    def _adopt_children(self, ninja: int, now: float) -> None:
        """Assign the children again that this Ninja started before it was recognized."""
        start = self._known[ninja]
        recent = [pid for pid, since in self._known.items() if since >= start]
        for pid in [pid for pid in recent if processes.find_parent_pid(pid) == ninja]:
            self._forget_process(pid)
            self._assign_to_edge(pid, now)

    def _measure_memory(self, edge: _RunningEdge, now: float, paused: Mapping[int, float]) -> None:
        size = sum(map(processes.read_resident_bytes, edge.members)) // _MIB
        peak, waits = max(size, edge.job.peak_mib), now - paused.get(edge.job.pid, now)
        age = now - edge.since
        edge.job = replace(edge.job, resident_mib=size, peak_mib=peak, age=age, waits=waits)

    def _forget_process(self, pid: int) -> None:
        """Remove an ended process; an edge ends with its first process, which records its peak."""
        self._known.pop(pid, None)
        self._ninjas.pop(pid, None)
        for pids in (self._joined, self._sending, self._makes):
            pids.discard(pid)
        if edge := self._edges.pop(pid, None):
            for (
                member
            ) in edge.members:  # those that remain, such as servers, serve other edges, too
                self._owner.pop(member, None)
            job = edge.job
            insort(self.shown[job.kind], job.peak_mib)
            if job.output and edge.run == process_group.RUN_ID and job.kind != "remote":
                self.peaks[job.output] = max(job.peak_mib, self.peaks.get(job.output, 0))
        elif pid in self._owner:
            self._edges[self._owner[pid]].members.discard(pid)
        self._owner.pop(pid, None)

    def _build_snapshot(self) -> JobsSnapshot:
        opening = self._ninjas.keys() - self._joined  # their jobs need no token
        busy = Counter(e.ninja for e in self._edges.values() if e.ninja not in opening)
        idle = len(self._joined - busy.keys())
        return JobsSnapshot(
            # A job that runs a nested Ninja is no candidate for a pause
            jobs=tuple(edge.job for edge in self._edges.values() if not edge.nests),
            ninjas=len(busy) + idle,
            idle=idle,
            least=busy.total() - len(busy),
            most=busy.total(),
            unsure=bool(self._makes) or any(edge.makes for edge in self._edges.values()),
        )
