"""The full tier: PyTorch 2.6.0 from its own tree, completely. By hand, as root, in the background:

    nohup python -m tests.full cpu >cpu.log &      an hour on two cores
    nohup python -m tests.full cuda >cuda.log &    hours; what was compiled is kept, start it again

It works in the Debian root of tests/real/debian-root (folder: TORCHYARD_TEST_DEBIAN), keeps its
trees and its compiler cache there, and prints a line for each step, for docs/measurements.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.core.text_formatting import format_duration
from tests.real.debian import Debian, InsideYard, Upstream, profile, where
from tests.support.ninjalog import made, remade

EXTENSION = {
    "name": "full-cpp",
    "path": "extension",
    "imports": ["full_cpp"],
    "smoke": {"script": "extension/check.py", "gpu": False},
}
SMOKE = {"name": "smoke", "path": "templates/smoke", "imports": ["torchyard_smoke"]}
KERNEL = "aten/src/ATen/native/TensorShape.cpp"


@dataclass(frozen=True)
class Bench:
    """A checkout of torchyard, a person's clone of the tree, and where it comes from."""

    yard: InsideYard
    upstream: Upstream

    def step(self, what: str, *argv: str) -> str:
        """Run doit, and print what it took and what Ninja made for it."""
        before, started = made(self.folder), time.monotonic()
        out = self.yard.must(*argv)
        took = format_duration(time.monotonic() - started)
        news = remade(before, made(self.folder))
        objects = sum(name.endswith(".o") for name in news)
        kernels = sum(name.endswith(".cu.o") for name in news)
        wheel = self.yard.manifest("wheel")
        rebuilt = "yes" if "extensions:" in out else "no"
        cells = (what, took, f"{objects} ({kernels} of nvcc)", wheel["version"], rebuilt)
        print(f"| {' | '.join(cells)} |", flush=True)
        return out

    @property
    def folder(self) -> Path:
        return self.upstream.mine("build")


def start(name: str, extensions: list[Mapping[str, Any]]) -> Bench:
    """The yard, its profile, and a clone of the tree that is kept."""
    debian = Debian(where())
    debian.prepare()
    if name == "cuda":
        debian.script("cuda")
    bench = Bench(
        InsideYard(debian, f"full-{name}", keep=True), Upstream(debian, f"full-{name}", keep=True)
    )
    bench.yard.patience = None  # hours
    bench.yard.add(Path(__file__).parent / "extension")
    shipped = profile(f"debian-trixie-{name}", extensions=extensions)
    # one compiler for both: the CUDA build then takes C++ objects of the other from the cache, all
    # but those that CMake wraps by an absolute path
    cuda = profile("debian-trixie-cuda")["build"]["env"]
    shipped["build"]["env"].update(CC="/usr/bin/gcc-13", CXX="/usr/bin/g++-13", **cuda)
    bench.yard.profile(
        **{**shipped, "source": {"path": str(bench.upstream.clone), "submodules": False}}
    )
    return bench


def build(bench: Bench) -> None:
    """Everything once, and once again with nothing to do."""
    print("| step | took | objects compiled | torch | extension rebuilt |", flush=True)
    print("|---|---|---|---|---|", flush=True)
    bench.step("doit build", "build")
    assert "Up to date" in bench.step("again", "build")
    print(bench.yard.must("validate"), flush=True)


def pull(bench: Bench) -> None:
    """What each kind of commit costs, and whether extensions are built again for it."""
    print("| step | took | objects compiled | torch | extension rebuilt |", flush=True)
    print("|---|---|---|---|---|", flush=True)
    changes = {
        "a docs-only commit": ("docs/README.md", "More words."),
        "a Python-only commit": ("torch/hub.py", "\n\nADDED = 1"),
        "the body of one source of ATen": (KERNEL, "namespace { volatile int kept = 1; }"),
        "one more function in it, exported": (KERNEL, "TORCH_API int added() { return 1; }"),
        "a public header": ("c10/util/DynamicCounter.h", "// more words"),
    }
    for what, (name, text) in changes.items():
        bench.upstream.append(name, text)
        bench.upstream.push(what)
        bench.upstream.pull()
        bench.step(f"git pull of {what}, doit build", "build")


def main() -> int:
    """`cpu` or `cuda`, from the command line."""
    match sys.argv[1:]:
        case ["cpu"]:
            bench = start("cpu", [EXTENSION])
            build(bench)
            pull(bench)
        case ["cuda"]:
            build(start("cuda", [EXTENSION, SMOKE]))
        case _:
            print(__doc__)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
