"""Count how many of a fixed sample of mutants the plain unit tests find.

    python -m tests.benchmarks.mutants [--json FILE] [--area NAME]

The mutants are those of cosmic-ray (`pip install cosmic-ray`): 75 from each of planning, compile
decisions, lock and diagnosis, chosen with a fixed seed. The unit tests of the area run until the
first failure. A mutant is in the checkout while its tests run, so use a separate clone. To compare
two suites, run this file in two clones that differ in tests/ only.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import resource
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

# By name: the sources, and the tests of them
AREAS = {
    "lock": (("tasks/lock",), ("tests/unit/lock",)),
    "compile": (("tasks/stages/compile",), ("tests/unit/stages/compile",)),
    "diagnosis": (("tasks/diagnosis",), ("tests/unit/diagnosis",)),
    "planning": (("tasks/planning",), ("tests/unit/planning",)),
}
OF_EACH = 75
# The others change annotations, or are found by any import
OPERATORS = (
    *("ReplaceComparison", "AddNot", "ReplaceTrue", "ReplaceFalse", "ReplaceAnd", "ReplaceOr"),
    *("ReplaceUnaryOperator_Delete_Not", "ReplaceBreak", "ReplaceContinue", "NumberReplacer"),
    *("ZeroIterationForLoop", "ExceptionReplacer"),
)
SEED = 19
CPU_SECONDS = 300  # after which an endless loop counts as found
LOADED_BEFORE = ("pytest", "pydantic", "yaml", "jinja2", "rich.console", "psutil")


@dataclass(frozen=True)
class Mutant:
    """One change of one line; `occurrence` counts within the operator and the file."""

    area: str
    path: str
    operator: str
    occurrence: int
    line: int


def list_mutants(area: str) -> Iterator[Mutant]:
    """Yield every mutant of an area's sources."""
    from cosmic_ray import plugins  # noqa: PLC0415 - not a dependency of the tests
    from cosmic_ray.ast import ast_nodes, get_ast  # noqa: PLC0415

    names = [name for name in plugins.operator_names() if name.split("/")[1].startswith(OPERATORS)]
    for place in map(Path, AREAS[area][0]):
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            nodes = list(ast_nodes(get_ast(file.read_text(encoding="utf-8"))))
            for name in names:
                operator = plugins.get_operator(name)()
                found = [at for node in nodes for at in operator.mutation_positions(node)]
                for number, ((line, _), _end) in enumerate(found):
                    yield Mutant(area, file.as_posix(), name, number, line)


def choose_mutants(area: str) -> list[Mutant]:
    """Return the sample: at most one mutant for a line and family of operators."""
    every = list(list_mutants(area))
    random.Random(SEED).shuffle(every)
    by_place = {(one.path, one.line, one.operator.split("_")[0]): one for one in reversed(every)}
    return list(reversed(by_place.values()))[:OF_EACH]


def is_found(mutant: Mutant) -> bool:
    """Return whether a test of the area fails with the mutant."""
    from cosmic_ray import plugins  # noqa: PLC0415
    from cosmic_ray.mutating import mutate_code  # noqa: PLC0415

    file = Path(mutant.path)
    original = file.read_text(encoding="utf-8")
    mutated = mutate_code(original, plugins.get_operator(mutant.operator)(), mutant.occurrence)
    try:
        file.write_text(mutated, encoding="utf-8")
        return run_forked(AREAS[mutant.area][1]) != 0
    finally:
        file.write_text(original, encoding="utf-8")


def run_forked(tests: tuple[str, ...]) -> int:
    """Run the tests in a child of this process, which has loaded what they import."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return status
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    sys.dont_write_bytecode = True
    import pytest  # noqa: PLC0415

    argv = ["-x", "-q", "-n0", "-p", "no:cacheprovider", "--hypothesis-seed=0", *tests]
    os._exit(int(pytest.main(argv)))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.mutants")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcomes there, too")
    parser.add_argument("--area", choices=AREAS, action="append", help="of one area only")
    given = parser.parse_args()
    for module in LOADED_BEFORE:
        importlib.import_module(module)
    outcomes: dict[Mutant, str] = {}
    for area in given.area or AREAS:
        if run_forked(AREAS[area][1]):
            parser.error(f"the tests of {area} fail without a mutant")
        for mutant in choose_mutants(area):
            outcomes[mutant] = "found" if is_found(mutant) else "not found"
            print(f"{mutant.path}:{mutant.line} {mutant.operator} {outcomes[mutant]}", flush=True)
    for area, number in Counter(one.area for one in outcomes).items():
        found = sum(one.area == area and outcomes[one] == "found" for one in outcomes)
        print(f"{area}: {found} of {number} mutants were found")
    if given.json:
        rows = [asdict(mutant) | {"outcome": outcome} for mutant, outcome in outcomes.items()]
        given.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
