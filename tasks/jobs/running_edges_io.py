"""Find the running Ninja edges among all processes, and measure the memory of each."""

import re
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tasks.core import build_activity
from tasks.core.build_activity import Job, JobKind
from tasks.jobs import job_processes_io as processes
from tasks.settings.compile_workers import DISTRIBUTE_VARIABLE
from tasks.system import process_group

_SETTLES = 1.0  # seconds after which a new process has certainly called exec
_MIB = 2**20
_MAKE_NAMES = {"make", "gmake"}
_COMPILER_NAMES = re.compile(r"cc1(plus)?|clang.*")  # programs of GCC and clang that compile


@dataclass(frozen=True)
class JobsSnapshot:
    """The running jobs at one moment. They hold between `least` and `most` tokens.

    The exact number is unknown, because each Ninja may run one job without a token. `ninjas`
    counts the Ninja processes that use the jobserver, `idle` those of them that run no job.
    `unsure` is True if a make runs, which may hold further tokens.
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
    """The running edges of all builds that use one jobserver, updated by each sample.

    An edge is a child process of Ninja with its descendants. `peaks` maps each output that
    this build has finished on this machine to its peak MiB. `shown` maps each job kind to its
    known peaks in ascending order, including those of the last build.
    """

    def __init__(self, auth: str, expected: Mapping[str, int]) -> None:
        self.peaks: dict[str, int] = {}
        self.shown: defaultdict[JobKind, list[int]] = defaultdict(list)
        for output, peak in expected.items():
            insort(self.shown[build_activity.classify_output(output)], peak)
        self._auth = auth
        self._expected = expected
        self._known: dict[int, float] = {}
        self._ninjas: dict[int, str] = {}
        self._sending: set[int] = set()  # Ninjas that distribute C and C++ compilation to workers
        self._joined: set[int] = set()
        self._makes: set[int] = set()  # makes that no Ninja started
        self._owner: dict[int, int] = {}
        self._edges: dict[int, _RunningEdge] = {}

    def sample_jobs(self, now: float, paused: Mapping[int, float] | None = None) -> JobsSnapshot:
        """Return the running jobs; `paused` maps process ids to the times when the pauses began."""
        alive = processes.list_pids()
        for pid in self._known.keys() - alive:
            self._forget_process(pid)
        for pid in [pid for pid, since in self._known.items() if now - since < _SETTLES]:
            self._inspect_process(pid, now)
        for pid in sorted(alive - self._known.keys()):
            self._assign_to_edge(pid, now)
        for edge in self._edges.values():
            size = sum(map(processes.read_resident_bytes, edge.members)) // _MIB
            peak, age = max(size, edge.job.peak_mib), now - edge.since
            waits = now - (paused or {}).get(edge.job.pid, now)
            edge.job = replace(edge.job, resident_mib=size, peak_mib=peak, age=age, waits=waits)
        # Before Ninja opens the jobserver, it builds the inputs of build.ninja (PyTorch's generated
        # sources) without tokens
        path = self._auth.removeprefix("fifo:")
        waiting = self._ninjas.keys() - self._joined
        self._joined.update(ninja for ninja in waiting if processes.has_open_file(ninja, path))
        opening = self._ninjas.keys() - self._joined  # their jobs hold no tokens yet
        busy = Counter(e.ninja for e in self._edges.values() if e.ninja not in opening)
        idle = len(self._joined - busy.keys())
        return JobsSnapshot(
            # Omit a job that runs a nested Ninja: it must not be paused
            jobs=tuple(edge.job for edge in self._edges.values() if not edge.nests),
            ninjas=len(busy) + idle,
            idle=idle,
            least=busy.total() - len(busy),
            most=busy.total(),
            unsure=bool(self._makes) or any(edge.makes for edge in self._edges.values()),
        )

    def _assign_to_edge(self, pid: int, now: float) -> None:
        """Assign a process to the edge of its parent or, if the parent is Ninja, to a new edge."""
        if pid in self._known:
            return
        self._known[pid] = now
        parent = processes.find_parent_pid(pid)
        if parent > 1 and parent not in self._known:  # process ids wrap around
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
        """Classify a process by its command line, which may have changed since the last call."""
        edge = self._edges.get(pid)
        if edge and not edge.job.output:
            command = " ".join(processes.read_arguments(pid))
            output = build_activity.find_output_path(command)
            kind = build_activity.classify_command(command)
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
            self._add_ninja(pid, now)

    def _detect_local_compile(self, pid: int, program: str) -> None:
        """Count a remote job as local if it compiles on this machine after all."""
        edge = self._edges.get(self._owner.get(pid, 0))
        if not edge or edge.job.kind != "remote" or not _COMPILER_NAMES.fullmatch(program):
            return
        if "-E" not in processes.read_arguments(pid):  # remote jobs preprocess on this machine
            expected = self._expected.get(edge.job.output, 0)
            edge.job = replace(edge.job, kind="c++", expected_mib=expected)

    def _is_jobserver_client(self, pid: int) -> bool:
        """Return True if this Ninja uses the jobserver. A Ninja with -j does not use it."""
        arguments, parent = processes.read_arguments(pid), processes.find_parent_pid(pid)
        # a child of Ninja that has not called exec yet looks like a Ninja
        if parent in self._ninjas and arguments == processes.read_arguments(parent):
            return False
        has_own_limit = any(argument.startswith("-j") for argument in arguments)
        return self._has_jobserver_flag(pid) and not has_own_limit

    def _has_jobserver_flag(self, pid: int) -> bool:
        flag = f"--jobserver-auth={self._auth}"
        return flag in processes.read_variable(pid, "MAKEFLAGS").split()

    def _add_ninja(self, ninja: int, now: float) -> None:
        """Add a Ninja process, and make its existing child processes new edges."""
        self._ninjas[ninja] = processes.read_variable(ninja, process_group.RUN_VARIABLE)
        if processes.read_variable(ninja, DISTRIBUTE_VARIABLE):
            self._sending.add(ninja)
        if ninja in self._owner:
            self._edges[self._owner[ninja]].nests = True
        recent = [pid for pid, since in self._known.items() if since >= self._known[ninja]]
        for pid in [pid for pid in recent if processes.find_parent_pid(pid) == ninja]:
            self._forget_process(pid)
            self._assign_to_edge(pid, now)

    def _forget_process(self, pid: int) -> None:
        """Remove an ended process. If it was the first process of an edge, end the edge."""
        self._known.pop(pid, None)
        self._ninjas.pop(pid, None)
        for pids in (self._joined, self._sending, self._makes):
            pids.discard(pid)
        if edge := self._edges.pop(pid, None):
            for member in edge.members:  # a surviving process, such as a server, serves other edges
                self._owner.pop(member, None)
            job = edge.job
            insort(self.shown[job.kind], job.peak_mib)
            if job.output and edge.run == process_group.RUN_ID and job.kind != "remote":
                self.peaks[job.output] = max(job.peak_mib, self.peaks.get(job.output, 0))
        elif pid in self._owner:
            self._edges[self._owner[pid]].members.discard(pid)
        self._owner.pop(pid, None)
