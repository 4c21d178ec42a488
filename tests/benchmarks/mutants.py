"""Count how many of a fixed sample of mutants the unit tests find.

    python -m tests.benchmarks.mutants [--json FILE] [--limit N]

The mutants are those of cosmic-ray (`pip install cosmic-ray pytest-cov`), 75 from each of planning,
compile decisions, lock and diagnosis, chosen with a fixed seed. For each one, the tests that run
its line are run until the first failure. The mutant is in the checkout while its tests run, so
use a separate clone. To compare two suites, run this file in two clones that differ in tests/ only.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

AREAS = {
    "planning": ("tasks/plan.py", "tasks/deciding", "tasks/remedies"),
    "compile": ("tasks/stages/compile",),
    "lock": ("tasks/locking",),
    "diagnosis": ("tasks/diagnosis",),
}
OF_EACH = 75
# The others change annotations, or are found by any import
OPERATORS = (
    *("ReplaceComparison", "AddNot", "ReplaceTrue", "ReplaceFalse", "ReplaceAnd", "ReplaceOr"),
    *("ReplaceUnaryOperator_Delete_Not", "ReplaceBreak", "ReplaceContinue", "NumberReplacer"),
    *("ZeroIterationForLoop", "ExceptionReplacer"),
)
SEED = 19
SECONDS = 600  # after which an endless loop counts as found
LOADED_BEFORE = ("pytest", "hypothesis", "pydantic", "yaml", "jinja2", "rich.console", "psutil")


@dataclass(frozen=True)
class Mutant:
    """One change of one line; `occurrence` counts within the operator and the file."""

    area: str
    path: str
    operator: str
    occurrence: int
    line: int


def list_mutants(root: Path) -> Iterator[Mutant]:
    """Yield every mutant of the areas."""
    from cosmic_ray import plugins  # noqa: PLC0415 - not a dependency of the tests
    from cosmic_ray.ast import ast_nodes, get_ast  # noqa: PLC0415

    names = [name for name in plugins.operator_names() if name.split("/")[1].startswith(OPERATORS)]
    for area, places in AREAS.items():
        found = [root / place for place in places]
        files = [f for p in found for f in (sorted(p.rglob("*.py")) if p.is_dir() else [p])]
        for file in files:
            tree = get_ast(file.read_text(encoding="utf-8"))
            path = file.relative_to(root).as_posix()
            for name in names:
                operator = plugins.get_operator(name)()
                places_of = [
                    at for node in ast_nodes(tree) for at in operator.mutation_positions(node)
                ]
                for number, ((line, _), _end) in enumerate(places_of):
                    yield Mutant(area, path, name, number, line)


def choose_mutants(root: Path) -> list[Mutant]:
    """Return the sample: at most one mutant for a place and operator family."""
    by_area: dict[str, list[Mutant]] = defaultdict(list)
    seen = set()
    every = list(list_mutants(root))
    random.Random(SEED).shuffle(every)
    for mutant in every:
        place = (mutant.path, mutant.line, mutant.operator.split("_")[0])
        if place not in seen and len(by_area[mutant.area]) < OF_EACH:
            seen.add(place)
            by_area[mutant.area].append(mutant)
    return [mutant for area in AREAS for mutant in by_area[area]]


def record_coverage(root: Path, database: Path) -> None:
    """Run the unit tests once and record which of them execute which line."""
    argv = (sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider")
    options = ("--hypothesis-seed=0", "--cov=tasks", "--cov-context=test", "--cov-report=")
    subprocess.run(
        [*argv, *options, "tests/unit"],
        cwd=root,
        env={**os.environ, "COVERAGE_FILE": str(database)},
        check=False,
        stdout=subprocess.DEVNULL,
    )


class Coverage:
    """The tests that execute each line, the most specific first."""

    def __init__(self, root: Path, database: Path) -> None:
        from coverage.numbits import numbits_to_nums  # noqa: PLC0415

        self._of_line: dict[tuple[str, int], set[str]] = defaultdict(set)
        self._of_file: dict[str, set[str]] = defaultdict(set)
        self._size: dict[str, int] = defaultdict(int)
        rows = sqlite3.connect(database).execute(
            "select file.path, context.context, numbits from line_bits"
            " join file on file.id = file_id join context on context.id = context_id"
        )
        for path, context, bits in rows:
            test = context.partition("|")[0]
            if not test:
                continue
            relative = Path(path).relative_to(root).as_posix()
            lines = numbits_to_nums(bits)
            self._size[test] += len(lines)
            self._of_file[relative].add(test)
            for line in lines:
                self._of_line[relative, line].add(test)

    def tests(self, mutant: Mutant) -> list[str]:
        """Return node ids; those of the whole file for a line that runs at import."""
        found = self._of_line.get((mutant.path, mutant.line)) or self._of_file[mutant.path]
        return sorted(found, key=lambda test: (self._size[test], test))


def try_mutant(root: Path, mutant: Mutant, tests: list[str], scratch: Path) -> str:
    """Return `killed`, `survived` or `not covered`."""
    from cosmic_ray import plugins  # noqa: PLC0415
    from cosmic_ray.mutating import mutate_code  # noqa: PLC0415

    if not tests:
        return "not covered"
    file = root / mutant.path
    original = file.read_text(encoding="utf-8")
    mutated = mutate_code(original, plugins.get_operator(mutant.operator)(), mutant.occurrence)
    listed = scratch / "tests.txt"
    listed.write_text("\n".join(tests), encoding="utf-8")
    try:
        file.write_text(mutated, encoding="utf-8")
        return "survived" if run_forked(root, listed) == 0 else "killed"
    finally:
        file.write_text(original, encoding="utf-8")


def run_forked(root: Path, listed: Path) -> int:
    """Run the listed tests in a child of this process, which has loaded what they import."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return status
    os.setsid()
    signal.alarm(SECONDS)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.chdir(root)
    sys.dont_write_bytecode = True
    import pytest  # noqa: PLC0415

    argv = ["-x", "-q", "-n0", "-p", "no:cacheprovider", "--hypothesis-seed=0", f"@{listed}"]
    os._exit(int(pytest.main(argv)) != 0)


def summarize(outcomes: Mapping[Mutant, str]) -> dict[str, Any]:
    """Return counts for each area and the mutants that no test found."""
    areas: dict[str, dict[str, int]] = {}
    for mutant, outcome in outcomes.items():
        areas.setdefault(mutant.area, defaultdict(int))[outcome] += 1
    left = [asdict(m) | {"outcome": o} for m, o in outcomes.items() if o != "killed"]
    killed = sum(outcome == "killed" for outcome in outcomes.values())
    return {"killed": killed, "of": len(outcomes), "areas": areas, "left": left}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.mutants")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write counts and survivors to it"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="try the first N only")
    given = parser.parse_args()
    root = Path.cwd()
    scratch = root / "build" / "mutants"
    scratch.mkdir(parents=True, exist_ok=True)
    database = scratch / "coverage.sqlite"
    if not database.exists():
        record_coverage(root, database)
    coverage = Coverage(root, database)
    for module in LOADED_BEFORE:
        importlib.import_module(module)
    outcomes: dict[Mutant, str] = {}
    for mutant in choose_mutants(root)[: given.limit]:
        outcomes[mutant] = try_mutant(root, mutant, coverage.tests(mutant), scratch)
        print(f"{mutant.path}:{mutant.line} {mutant.operator} {outcomes[mutant]}", flush=True)
    result = summarize(outcomes)
    print(f"{result['killed']} of {result['of']} mutants were found")
    if given.json:
        given.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
