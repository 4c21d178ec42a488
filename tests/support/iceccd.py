"""An icecream network: a scheduler and a worker in a network namespace of their own, and the daemon
that this machine needs to reach them.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.distccd import namespace
from tests.support.distccd import why_not as _why_not

PORT, _ASKING = 8765, 8766
_NETWORK = "torchyard"
_PATIENCE = 120.0  # seconds; a daemon looks for its scheduler every few seconds
# A worker on a busy machine takes no job. This one has a machine of its own, which has nothing else
# to do: the times in /proc/stat stay as they are.
_IDLE = 'cp /proc/stat "$0" && mount --bind "$0" /proc/stat && exec "$@"'


@dataclass(frozen=True)
class Icecream:
    """`address` is that of the scheduler and the worker, `env` what icecc needs to find the daemon
    of this machine, `log` the worker's.
    """

    address: str
    env: dict[str, str]
    log: Path

    def host(self, slots: int) -> str:
        return f"{self.address}:{PORT}/{slots}"

    @property
    def compiled(self) -> int:
        """Sources that the worker compiled."""
        return self.log.read_text(encoding="utf-8").count("compilation completed with exit code 0")


def why_not() -> str:
    """Why there can be none here, "" where there can."""
    return _why_not("icecc", "iceccd", "icecc-scheduler", package="icecc")


@contextmanager
def icecream() -> Iterator[Icecream]:
    """Start it; the worker takes two jobs at once."""
    with ExitStack() as stack:
        # The daemons become the user icecc, which cannot enter a folder of pytest's
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="torchyard-icecc-")))
        shutil.chown(folder, "icecc")
        folder.chmod(0o755)
        name, _, far = stack.enter_context(namespace())
        inside = ("ip", "netns", "exec", name)

        def start(program: str, *options: str, by: tuple[str, ...] = (), own: str) -> Path:
            log = folder / f"{own}.log"
            argv = [*by, program, "-n", _NETWORK, "-l", str(log), "-vvv", *options]
            env = {**os.environ, "ICECC_TEST_SOCKET": str(folder / f"{own}.socket")}
            child = subprocess.Popen(
                argv,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            stack.callback(_end, child)
            return log

        start("icecc-scheduler", "-p", str(PORT), by=inside, own="scheduler")
        idle = (*inside, "sh", "-c", _IDLE, str(folder / "stat"))
        of = ("-s", f"{far}:{PORT}")
        options = (*of, "-m", "2", "-N", "worker", "-b", str(folder / "worker"))
        log = start("iceccd", *options, by=idle, own="worker")
        start("iceccd", *of, "--no-remote", "-N", "here", "-b", str(folder / "here"), own="here")
        _await(far)
        yield Icecream(far, {"ICECC_TEST_SOCKET": str(folder / "here.socket")}, log)


def _await(scheduler: str) -> None:
    """Until the scheduler knows both daemons, and that the worker has nothing to do."""
    until, known = time.monotonic() + _PATIENCE, ""
    while time.monotonic() < until:
        known = _known(scheduler)
        worker = [line for line in known.splitlines() if line.startswith(" worker ")]
        if worker and "load=1000" not in worker[0] and " here " in known:
            return
        time.sleep(0.5)
    raise AssertionError(f"icecream did not come up: {known}")


def _known(scheduler: str) -> str:
    """What the scheduler says of its daemons, "" as long as it does not answer."""
    try:
        with socket.create_connection((scheduler, _ASKING), 5) as asking:
            asking.sendall(b"listcs\nquit\n")
            return b"".join(iter(lambda: asking.recv(4096), b"")).decode()
    except OSError:
        return ""


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
