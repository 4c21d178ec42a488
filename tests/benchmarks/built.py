"""A PyTorch that `python -m tests.full` built completely, changed and built again: our way against
upstream's, in one tree.

    noop      `doit build` with nothing to do, all stages      `setup.py build`, which looks at one
    install   a changed c10 source until torch is installed    `setup.py bdist_wheel`, `pip install`
    compile   the stage alone, after a changed c10 source      `ninja install`

Both change the same file in turn, each time in another way.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from tests.benchmarks.rows import RUNS, Row
from tests.real.debian import CACHE, SYSTEM, Debian, InsideYard, Upstream, where

ONE = "c10/util/Backtrace.cpp"
_NAMES = ("full-cuda", "full-cpu")


@dataclass
class Built:
    """The checkout that built it, and the tree."""

    debian: Debian
    yard: InsideYard
    upstream: Upstream
    changes: int = field(default=0)

    @property
    def environment(self) -> Mapping[str, str]:
        """What upstream's own commands get: the switches that the tree was built with."""
        env = self.yard.manifest("env")
        path = ":".join([*env["prepend"]["PATH"], *SYSTEM])
        version = {"PYTORCH_BUILD_VERSION": "2.6.0+bench", "PYTORCH_BUILD_NUMBER": "0"}
        return {**CACHE, **env["set"], "PATH": path, **version}

    @property
    def python(self) -> str:
        return str(self.yard.manifest("deps")["python"])

    def change(self) -> None:
        """Another line in one source of c10."""
        self.changes += 1
        with self.upstream.mine(ONE).open("a", encoding="utf-8") as stream:
            stamp = f"{time.time_ns()}_{self.changes}"
            stream.write(f"static int bench_{stamp} [[maybe_unused]] = {self.changes};\n")

    def run(self, *argv: str, at: PurePosixPath | None = None) -> float:
        """Seconds of a command in the tree."""
        started = time.perf_counter()
        with self.debian.start(argv, at or self.upstream.clone, self.environment) as child:
            out, _ = child.communicate()
        assert child.returncode == 0, out
        return time.perf_counter() - started

    def doit(self, *argv: str) -> float:
        """Seconds of doit in the checkout."""
        started = time.perf_counter()
        self.yard.must(*argv)
        return time.perf_counter() - started


def opened() -> Built | None:
    """None where no such build is there."""
    debian = Debian(where())
    for name in _NAMES:
        yard = InsideYard(debian, name, keep=True) if _is_built(debian, name) else None
        if yard:
            yard.patience = None
            return Built(debian, yard, Upstream(debian, name, keep=True))
    return None


def _is_built(debian: Debian, name: str) -> bool:
    wheel = debian.outside(PurePosixPath("/src/yards") / name / "build" / "trial" / "wheel.json")
    return wheel.is_file()


def noop() -> Row:
    """Everything up to date."""
    return _compared("noop", 0.7, 0.0, _noop, _setup_build, before=lambda built: None)


def install() -> Row:
    """A changed source, until the torch that holds it is installed."""
    return _compared("install", 0.4, 0.0, _wheel, _pip_install, before=Built.change)


def compile_stage() -> Row:
    """A changed source, until it is compiled."""
    return _compared("compile", 1.05, 1.0, _compile, _ninja, before=Built.change)


def _noop(built: Built) -> float:
    return built.doit("build")


def _setup_build(built: Built) -> float:
    return built.run(built.python, "setup.py", "build")


def _wheel(built: Built) -> float:
    return built.doit("wheel")


def _pip_install(built: Built) -> float:
    dist, venv = "/src/bench/dist", "/src/bench/venv"
    if not built.debian.outside(PurePosixPath(venv)).exists():
        built.debian.must("python3", "-m", "venv", venv)
    packed = built.run(built.python, "setup.py", "bdist_wheel", "--dist-dir", dist)
    (wheel,) = built.debian.outside(PurePosixPath(dist)).glob("*.whl")
    options = ("--force-reinstall", "--no-deps")
    took = built.run(f"{venv}/bin/pip", "install", *options, f"{dist}/{wheel.name}")
    wheel.unlink()
    return packed + took


def _compile(built: Built) -> float:
    return built.doit("compile")


def _ninja(built: Built) -> float:
    ninja = str(built.yard.manifest("deps")["ninja"]["path"])
    return built.run(ninja, "install", at=built.upstream.clone / "build")


Way = Callable[[Built], float]


def _compared(  # noqa: PLR0917 - a row has as many sides
    name: str, reach: float, grace: float, ours: Way, other: Way, before: Callable[[Built], None]
) -> Row:
    built = opened()
    if not built:
        print(f"{name}: not run: no full build in {where()} (python -m tests.full cpu)")
        return Row(name, reach, grace=grace)
    took: dict[Way, list[float]] = {ours: [], other: []}
    for way in took:  # once for nothing: what the others' change left behind
        way(built)
    for _ in range(RUNS):
        for way, times in took.items():
            before(built)
            times.append(way(built))
            print(f"{name}: {way.__name__.strip('_')} {times[-1]:.2f} s", flush=True)
    mine, theirs = (statistics.median(took[way]) for way in (ours, other))
    return Row(name, reach, mine, theirs, grace=grace)
