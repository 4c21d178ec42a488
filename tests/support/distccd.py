"""Machines that compile for this one, small: each a distccd in a network namespace of its own,
which has one address that only this machine can reach, and perhaps another compiler and a limit.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

PORT = 3632
_PROGRAM = ("distccd", "--daemon", "--no-detach", "--log-stderr", "--log-level", "info")
_NUMBERS = itertools.count()


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


def why_not(*programs: str, package: str = "distcc") -> str:
    """Why there can be none here, "" where there can: `programs` of the Debian `package`."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "network namespaces need root on Linux"
    wanted = (*(programs or ("distcc", "distccd")), "ip")
    missing = [name for name in wanted if not shutil.which(name)]
    return f"no {missing[0]} (apt install {package} iproute2)" if missing else ""


@contextmanager
def distccds(folder: Path, count: int) -> Iterator[list[Distccd]]:
    """`count` of them, with two jobs each."""
    with ExitStack() as stack:
        yield [stack.enter_context(distccd(folder)) for _ in range(count)]


@contextmanager
def distccd(
    folder: Path, *, options: str = "", by: Sequence[str] = (), root: Path | None = None
) -> Iterator[Distccd]:
    """One. With `options` its C++ compiler is called with these as well, which makes it another;
    `by` is what starts it, `root` where its programs are.
    """
    with tempfile.TemporaryDirectory(prefix="torchyard-distccd-") as place, namespace() as found:
        name, near, far = found
        log = folder / f"{name}.log"
        argv = ["--listen", far, "--allow", f"{near}/30", "--jobs", "2"]
        starts = ["chroot", str(root)] if root else _other(options, place) if options else []
        with log.open("wb") as stream:
            child = subprocess.Popen(
                [*by, "ip", "netns", "exec", name, *starts, *_PROGRAM, *argv],
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


@contextmanager
def namespace() -> Iterator[tuple[str, str, str]]:
    """A network namespace: its name, this machine's address in its network, and its own."""
    mark = os.getpid() * 16 + next(_NUMBERS) % 16  # a namespace is not gone at once
    name, net = f"ty{mark}", f"100.{64 + mark // 16384 % 64}.{mark // 64 % 256}"
    near, far = (f"{net}.{mark % 64 * 4 + last}" for last in (1, 2))
    _ip("netns", "add", name)
    try:
        _ip("link", "add", f"{name}v", "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("addr", "add", f"{near}/30", "dev", f"{name}v")
        _ip("link", "set", f"{name}v", "up")
        _ip("-n", name, "addr", "add", f"{far}/30", "dev", "eth0")
        for device in ("eth0", "lo"):
            _ip("-n", name, "link", "set", device, "up")
        yield name, near, far
    finally:
        _ip("netns", "delete", name)


def _other(options: str, place: str) -> list[str]:
    """What starts a program for which GCC compiles C++ with these options, by mounts that nobody
    else has (`ip netns exec`), one of them at `place`.
    """
    asked = subprocess.run(
        ["g++", "-print-prog-name=cc1plus"], check=True, capture_output=True, text=True
    )
    script = f"""
folder="{place}" && mount -t tmpfs -o mode=755 tmpfs "$folder"
touch "$folder/real" && mount --bind "$1" "$folder/real"
printf '#!/bin/sh\nexec %s "$@" {options}\n' "$folder/real" >"$folder/other"
chmod 755 "$folder/other" && mount --bind "$folder/other" "$1"
shift && exec "$@"
"""
    return ["sh", "-euc", script, "sh", asked.stdout.strip()]


def _await(log: Path, child: subprocess.Popen[bytes]) -> None:
    for _ in range(2400):
        if b"daemon started" in log.read_bytes():
            return
        assert child.poll() is None, log.read_text(encoding="utf-8")
        time.sleep(0.05)
    raise AssertionError(log.read_text(encoding="utf-8"))


def _ip(*argv: str) -> None:
    subprocess.run(["ip", *argv], check=True, capture_output=True)
