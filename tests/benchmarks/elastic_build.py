"""One elastic build: `elastic_build.py FOLDER EXPECTED NINJA [TARGET]` runs Ninja in FOLDER with
our pool and governor, with the peaks that the file EXPECTED holds, and writes there what it saw.
Run apart, so that it lies within the control group that is measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tasks.jobs import governor, jobserver_io
from tasks.system import process_group

MOST = 8
TICK = 0.05  # jobs are a few seconds here and a minute in a real build


def main() -> int:
    folder, record, ninja = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    expected = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    with jobserver_io.join_jobserver(
        folder / "pool", MOST, governor.decide_jobs, expected, tick=TICK
    ) as pool:
        env = {
            **os.environ,
            **pool.build_environment(),
            process_group.RUN_VARIABLE: process_group.RUN_ID,
        }
        argv = [ninja, "-C", str(folder), "--quiet", *sys.argv[4:]]
        done = subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, check=False)
    record.write_text(json.dumps({**expected, **pool.peaks}), encoding="utf-8")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
