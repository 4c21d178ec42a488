"""Run the benchmarks that are named, or all, and print the table."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks import (
    built,
    distributed,
    elastic_real,
    elastic_synthetic,
    longlog,
    part,
    quickstart,
    shared,
    shared_real,
    state,
)
from tests.benchmarks.rows import Row, table

BENCHMARKS: dict[str, Callable[[], Row]] = {
    "noop": built.noop,
    "install": built.install,
    "compile": built.compile_stage,
    "flag": part.flag,
    "cold": part.cold,
    "warm": part.warm,
    "eta": part.eta,
    "elastic-synthetic": elastic_synthetic.measure,
    "elastic-real": elastic_real.measure,
    "state": state.measure,
    "longlog": longlog.measure,
    "shared": shared.measure,
    "shared-real": shared_real.measure,
    "shared-cuda": shared_real.kernels,
    "distributed": distributed.measure,
    "quickstart": quickstart.measure,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, too")
    asked = parser.parse_args()
    unknown = sorted(set(asked.names) - BENCHMARKS.keys())
    if unknown:
        parser.error(
            f"no benchmark is called {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}"
        )
    rows = []
    for name in asked.names or BENCHMARKS:
        rows.append(BENCHMARKS[name]())
        print(table(rows[-1:]), flush=True)
    print(table(rows))
    if asked.json:
        text = json.dumps([row.record() for row in rows], indent=2)
        asked.json.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
