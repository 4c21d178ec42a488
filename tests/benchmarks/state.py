"""What a tree holds, against `git status`: that is most of what a run with nothing to do takes.

The tree has submodules, as PyTorch's has. Ours names commits of submodules and new files as well.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tasks.system.git import checkout_state
from tests.benchmarks.rows import RUNS, Row, table

REACH = 1.2
SIZES = (20_000, 100_000, 400_000)[: 2 if RUNS == 1 else 3]  # CI has no room for the largest
SUBMODULES = 8
_A_FOLDER, _RUNS = 40, 7
_FASTER = 1.3  # than the tree, with what a machine does beside
_GIT = (
    "git",
    "-c",
    "gc.auto=0",
    "-c",
    "core.compression=0",
    "-c",
    "user.name=bench",
    "-c",
    "user.email=bench@example.invalid",
)


def measure() -> Row:
    """The size at which we are worst; each is printed. It has to grow no faster than the tree."""
    with tempfile.TemporaryDirectory(prefix="torchyard-state-") as folder:
        rows = [_row(Path(folder) / str(size), size) for size in SIZES]
    print(table(rows))
    worst = max(rows, key=lambda row: row.ratio or 0)
    grew = (rows[-1].ours or 0) / (rows[0].ours or 1)
    linear = grew <= _FASTER * SIZES[-1] / SIZES[0]
    return replace(worst, name="state", failed="" if linear else f"{grew:.0f} times as long")


def _row(tree: Path, size: int) -> Row:
    _make(tree, size)
    kept = tree.with_name(f"{size}.json")
    argv = ["git", "-C", str(tree), "status", "--porcelain", "--untracked-files=no"]
    ways: dict[str, Callable[[], object]] = {
        "ours": lambda: checkout_state.read_git_state(tree, kept),
        "other": lambda: subprocess.run(argv, check=True, capture_output=True),
    }
    ways["other"]()  # which writes the index of a new checkout once more
    time.sleep(2.1)  # until nothing is so fresh that it may change again and look the same
    ways["ours"]()
    took: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(_RUNS):
        for way, act in ways.items():
            started = time.perf_counter()
            act()
            took[way].append(time.perf_counter() - started)
    ours, other = (statistics.median(took[way]) for way in ways)
    return Row(f"state {size // 1000} k", REACH, ours, other)


def _make(tree: Path, size: int) -> None:
    for number in range(size):
        folder = tree / f"part{number // 4000}" / f"folder{number // _A_FOLDER}"
        if number % _A_FOLDER == 0:
            folder.mkdir(parents=True)
        (folder / f"file{number}.cpp").write_text(f"int number{number % 100};\n", encoding="ascii")
    _commit(tree)
    for number in range(SUBMODULES):
        inner = tree / "third_party" / f"sub{number}"
        inner.mkdir(parents=True)
        (inner / "a.h").write_text("#define A\n", encoding="ascii")
        _commit(inner)
        subprocess.run([*_GIT, "checkout", "-q", "--detach"], cwd=inner, check=True)
        url = f"https://example.invalid/sub{number}.git"
        section = f'[submodule "sub{number}"]\n\tpath = third_party/sub{number}\n\turl = {url}\n'
        with (tree / ".gitmodules").open("a", encoding="ascii") as stream:
            stream.write(section)
    _commit(tree)


def _commit(tree: Path) -> None:
    for argv in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "files")):
        if argv != ("init", "-q") or not (tree / ".git").exists():
            subprocess.run([*_GIT, *argv], cwd=tree, check=True, capture_output=True)
