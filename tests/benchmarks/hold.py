"""A stand-in for a compiler: `hold.py -c SOURCE -o OUTPUT MIB SECONDS` grows to so many MiB over
two thirds of its time, keeps them, and is done. It does next to nothing but hold memory.
"""

import mmap
import sys
import time
from pathlib import Path

STEPS = 24


def main() -> None:
    output, size, seconds = sys.argv[-3], int(sys.argv[-2]) << 20, float(sys.argv[-1])
    began = time.monotonic()
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages = size // mmap.PAGESIZE
    for step in range(STEPS):
        first, last = (pages * at // STEPS * mmap.PAGESIZE for at in (step, step + 1))
        memory[first : last : mmap.PAGESIZE] = bytes(len(range(first, last, mmap.PAGESIZE)))
        time.sleep(max(0.0, began + seconds * 2 / 3 * (step + 1) / STEPS - time.monotonic()))
    time.sleep(max(0.0, began + seconds - time.monotonic()))
    Path(output).touch()


main()
