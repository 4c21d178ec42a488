"""A stand-in for a compiler: `hold.py -c SOURCE -o OUTPUT MIB SECONDS` grows to so many MiB over
two thirds of its time, keeps them, and is done. It does next to nothing but hold memory, and makes
up for nothing when it was stopped for a while.
"""

import mmap
import sys
import time
from pathlib import Path

STEPS = 48  # of which a third is spent at the peak


def main() -> None:
    output, size, seconds = sys.argv[-3], int(sys.argv[-2]) << 20, float(sys.argv[-1])
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages, grows = size // mmap.PAGESIZE, STEPS * 2 // 3
    for step in range(STEPS):
        began = time.monotonic()
        if step < grows:
            first, last = (pages * at // grows * mmap.PAGESIZE for at in (step, step + 1))
            memory[first : last : mmap.PAGESIZE] = bytes(len(range(first, last, mmap.PAGESIZE)))
        time.sleep(max(0.0, seconds / STEPS - (time.monotonic() - began)))
    Path(output).touch()


main()
