"""Machines that compile for this one, small: each a distccd in a network namespace of its own,
which has one address that only this machine can reach, and perhaps another compiler and a limit.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

PORT = 3632
_WRAPPER = '#!/bin/sh\nexec "{real}" "$@" {options}\n'


@dataclass(frozen=True)
class Distccd:
    """`address` is what it listens on, `log` what it says, `child` its first process."""

    address: str
    log: Path
    child: subprocess.Popen[bytes]

    def host(self, slots: int) -> str:
        return f"{self.address}:{PORT}/{slots}"

    @property
    def compiled(self) -> int:
        """Jobs that it has done, the probes among them."""
        return self.log.read_text(encoding="utf-8").count("COMPILE_OK")

    def kill(self) -> None:
        """As when the power goes: compilers and all."""
        os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait()


def why_not() -> str:
    """Why there can be none here, "" where there can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "network namespaces need root on Linux"
    missing = [name for name in ("distcc", "distccd", "ip") if not shutil.which(name)]
    return f"no {missing[0]} (apt install distcc iproute2)" if missing else ""


@contextmanager
def distccds(
    folder: Path, count: int, jobs: int = 2, *, options: str = "", by: tuple[str, ...] = ()
) -> Iterator[list[Distccd]]:
    """`count` of them. With `options` their C++ compiler is called with these as well, which makes
    it another one; `by` is what starts each.
    """
    with ExitStack() as stack:
        made = (stack.enter_context(_distccd(folder, n, jobs, options, by)) for n in range(count))
        yield list(made)


@contextmanager
def _distccd(
    folder: Path, number: int, jobs: int, options: str, by: tuple[str, ...]
) -> Iterator[Distccd]:
    mark = os.getpid() * 4 + number
    name, net = f"ty{mark}", f"100.{64 + mark // 16384 % 64}.{mark // 64 % 256}.{mark % 64 * 4}"
    near, far = (f"{net.rpartition('.')[0]}.{mark % 64 * 4 + last}" for last in (1, 2))
    log = folder / f"{name}.log"
    _ip("netns", "add", name)
    try:
        _ip("link", "add", f"{name}v", "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("addr", "add", f"{near}/30", "dev", f"{name}v")
        _ip("link", "set", f"{name}v", "up")
        _ip("-n", name, "addr", "add", f"{far}/30", "dev", "eth0")
        for device in ("eth0", "lo"):
            _ip("-n", name, "link", "set", device, "up")
        argv = _argv(folder, far, f"{near}/30", jobs, options)
        with log.open("wb") as stream:
            child = subprocess.Popen(
                [*by, "ip", "netns", "exec", name, *argv],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )
        _await(log, child)
        one = Distccd(far, log, child)
        try:
            yield one
        finally:
            if child.poll() is None:
                one.kill()
    finally:
        _ip("netns", "delete", name)


def _argv(folder: Path, address: str, allowed: str, jobs: int, options: str) -> list[str]:
    argv = ["distccd", "--daemon", "--no-detach", "--log-stderr", "--log-level", "info"]
    argv += ["--listen", address, "--allow", allowed, "--jobs", str(jobs)]
    if not options:
        return argv
    real = Path(shutil.which("g++") or "g++").resolve()
    folder.chmod(0o755)
    wrapper = folder / "other" / real.name
    wrapper.parent.mkdir(exist_ok=True)
    kept = wrapper.with_name("kept")
    kept.touch()
    wrapper.write_text(_WRAPPER.format(real=kept, options=options), encoding="utf-8")
    wrapper.chmod(0o755)
    # `ip netns exec` has mounts of its own
    mounts = f'mount --bind "{real}" "{kept}" && mount --bind "{wrapper}" "{real}"'
    return ["sh", "-c", f'{mounts} && exec "$@"', "sh", *argv]


def _await(log: Path, child: subprocess.Popen[bytes]) -> None:
    for _ in range(200):
        if b"daemon started" in log.read_bytes():
            return
        assert child.poll() is None, log.read_text(encoding="utf-8")
        time.sleep(0.05)
    raise AssertionError(log.read_text(encoding="utf-8"))


def _ip(*argv: str) -> None:
    subprocess.run(["ip", *argv], check=True, capture_output=True)
