"""`doit diagnose` on a log of 500 MB, against 15 s.

The log is that of a build whose compilers warn at great length, of errors too; the cause stands in
the midst. It has to be found, in seconds and with memory that the log's size does not move.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.rows import Row
from tests.support.checkout import ROOT

SIZE = 500_000_000
_MOST_SECONDS, _MOST_MIB = 15.0, 300
_CAUSE = "nvcc fatal   : Unsupported gpu architecture 'compute_120'\n"
_BLOCK = 4_000  # edges


def measure() -> Row:
    """Processor seconds, process start included."""
    with tempfile.TemporaryDirectory(prefix="torchyard-longlog-") as folder:
        log, out = Path(folder) / "build.log", Path(folder) / "out.json"
        write(log, SIZE)
        ours, mib = _spent(
            sys.executable, "-m", "doit", "diagnose", "--log", str(log), "--json", str(out)
        )
        found = json.loads(out.read_text(encoding="utf-8"))["cause"]
    print(f"{SIZE // 1_000_000} MB: {ours:.1f} s, {mib} MiB at the most")
    failed = "" if found == "nvcc-arch-unsupported" else f"told {found}"
    if mib > _MOST_MIB:
        failed = f"{mib} MiB"
    return Row("longlog", 1.0, ours, _MOST_SECONDS, failed)


def write(log: Path, size: int) -> None:
    """Commands with their warnings, each line another, and after half of them the cause."""
    written, number = 0, 0
    with log.open("w", encoding="utf-8") as file:
        for half in (1, 2):
            while written < half * size // 2:
                written += file.write("".join(map(_edge, range(number, number + _BLOCK))))
                number += _BLOCK
            if half == 1:
                written += file.write(f"FAILED: k.o\nnvcc -c k.cu -o k.o\n{_CAUSE}")
        file.write("ninja: build stopped: subcommand failed.\n")


def _edge(n: int) -> str:
    path = f"/src/aten/src/ATen/native/cpu/Kernel{n % 977}.cpp"
    return (
        f"[{n}/900000] /usr/bin/c++ -DNDEBUG -Werror=return-type -I/src/build/{n} -O3 -std=gnu++17 "
        f"-Wno-error=pedantic -o objects/{n}.o -c {path}\n"
        f"{path}: In function 'void at::native::error_kernel_{n}(Tensor&)':\n"
        f"{path}:{n % 4000}:17: warning: unused variable 'error_{n}' [-Wunused-variable]\n"
        f"{n % 4000:>5} |   int error_{n} = cannot_fail(failed_{n});\n      |       ^~~~~~~\n"
        f"note: the code fatal{n}z{n % 71} is not an error here, {n * 7919 % 10007}\n"
    )


def _spent(*argv: str) -> tuple[float, int]:
    """Processor seconds, and MiB at the most, of a command and its children."""
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL) as child:
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, argv
    return used.ru_utime + used.ru_stime, used.ru_maxrss // 1024
