"""PyTorch 2.6.0's own tree, as far as target c10: built once, pulled, edited, interrupted.

One tree serves all tests of this file. Each begins with one that is up to date and leaves one that
is; what was compiled in between is read from Ninja's log.
"""

from __future__ import annotations

import json
import shutil
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen

import pytest

from tests.real.debian import Debian, InsideYard, Upstream, profile
from tests.support.ninjalog import Made, made, remade
from tests.support.yard import NAME, processes_with

pytestmark = pytest.mark.real

OBJECTS = "c10/CMakeFiles/c10.dir"
ONE = "c10/util/Backtrace.cpp"
_NAMES = ("Allocator", "AutogradState", "CPUAllocator", "DispatchKey", "Stream", "TensorImpl")
SEVERAL = tuple(f"c10/core/{name}.cpp" for name in _NAMES)
SIGNALS = (signal.SIGINT, signal.SIGKILL)


@dataclass
class Bench:
    """A checkout of torchyard, the tree it builds, and what Ninja had made when we last looked."""

    yard: InsideYard
    upstream: Upstream
    seen: Made = field(default_factory=dict)

    def write_profile(self, **source: object) -> None:
        here = {"path": str(self.upstream.clone), "submodules": True, **source}
        self.yard.profile(
            **profile("debian-trixie-cpu", source=here, build={"target": "c10", "jobs": 2})
        )

    @property
    def folder(self) -> Path:
        return self.upstream.mine("build")

    def news(self) -> set[str]:
        """What Ninja made since the last look."""
        before, self.seen = self.seen, made(self.folder)
        return remade(before, self.seen)

    def rebuilt(self) -> set[str]:
        """Build, and say what Ninja made for it."""
        self.news()
        self.yard.must("build")
        return self.news()


@pytest.fixture(scope="module")
def bench(debian: Debian) -> Bench:
    made_here = Bench(InsideYard(debian, "c10"), Upstream(debian, "c10"))
    made_here.write_profile()
    made_here.yard.must("build")
    return made_here


def compiled_and_linked(*sources: str) -> set[str]:
    """What Ninja makes where these sources of c10 changed."""
    objects = {f"{OBJECTS}/{source.removeprefix('c10/')}.o" for source in sources}
    return {*objects, "lib/libc10.so"}


def test_one_target_of_the_real_tree_is_compiled(bench: Bench) -> None:
    manifest = bench.yard.manifest("compile")
    assert manifest["backend"] == "setup_py"
    assert manifest["target"] == "c10"
    assert bench.upstream.mine("build/lib/libc10.so").is_file()
    assert compiled_and_linked(ONE, *SEVERAL) <= made(bench.folder).keys()
    assert not [name for name in made(bench.folder) if name.startswith("caffe2/CMakeFiles/torch")]
    log = (bench.yard.build / "logs" / "compile.log").read_text(encoding="utf-8")
    assert "libc10.so" in log


def test_by_hand_in_env_sh_the_tree_is_configured_as_by_us(bench: Bench) -> None:
    """Also from a shell that is full of what would lead CMake astray."""
    astray = {"CXX": "clang++", "CFLAGS": "-O0", "CMAKE_PREFIX_PATH": "/nowhere", "USE_NUMPY": "0"}
    ours = bench.folder.rename(bench.folder.with_name("build.ours"))
    env_sh = f"{bench.yard.inside}/build/{NAME}/env.sh"
    line = f"set -eu; . {env_sh}; python setup.py build --cmake-only"
    try:
        bench.folder.mkdir()
        with bench.yard.debian.start(("bash", "-c", line), bench.upstream.clone, astray) as child:
            out, _ = child.communicate(timeout=600)
        assert child.returncode == 0, out
        by_hand = cache_of(bench.folder)
    finally:
        shutil.rmtree(bench.folder)
        ours.rename(bench.folder)
    assert by_hand == cache_of(bench.folder)
    assert len(by_hand) > 400


def cache_of(folder: Path) -> dict[str, str]:
    """What CMake settled on, but for how often it had to look."""
    lines = (folder / "CMakeCache.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.partition("=") for line in lines if "=" in line and line[0] not in "#/")
    return {name: value for name, _, value in pairs}


def test_second_run_is_a_no_op(bench: Bench) -> None:
    bench.yard.must("build")
    bench.news()
    assert "Up to date" in bench.yard.must("build")
    assert not bench.news()


def test_after_clean_the_second_run_is_ninjas_no_op(bench: Bench) -> None:
    before = bench.yard.manifest("compile")
    bench.news()
    bench.yard.must("clean")
    bench.yard.must("build")
    assert not bench.news()
    assert bench.yard.manifest("compile") == before


def test_a_pulled_commit_rebuilds_the_object_that_changed_and_what_links_it(bench: Bench) -> None:
    bench.upstream.append(ONE, "static int added_upstream [[maybe_unused]] = 1;")
    commit = bench.upstream.push("one source of c10")
    bench.upstream.pull()
    assert bench.rebuilt() == compiled_and_linked(ONE)
    assert bench.yard.manifest("source")["commit"] == commit


def test_a_docs_only_commit_rebuilds_nothing(bench: Bench) -> None:
    before = bench.yard.manifest("compile")
    bench.upstream.append("docs/README.md", "More words.")
    bench.upstream.push("words only")
    bench.upstream.pull()
    assert not bench.rebuilt()
    assert bench.yard.manifest("compile") == before


def test_an_uncommitted_edit_is_built_and_survives(bench: Bench) -> None:
    mine = bench.upstream.mine(ONE)
    original = mine.read_text(encoding="utf-8")
    edited = original + "static int added_by_hand [[maybe_unused]] = 2;\n"
    mine.write_text(edited, encoding="utf-8")
    assert bench.rebuilt() == compiled_and_linked(ONE)
    assert mine.read_text(encoding="utf-8") == edited
    assert bench.yard.manifest("source")["edits"]
    mine.write_text(original, encoding="utf-8")
    assert bench.rebuilt() == compiled_and_linked(ONE)
    assert not bench.yard.manifest("source")["edits"]


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_signal_in_the_middle_of_compile_costs_only_what_was_under_way(
    bench: Bench, number: signal.Signals
) -> None:
    bench.upstream.append_each(SEVERAL, f"static int sent_{number.name} [[maybe_unused]] = 3;")
    bench.upstream.push("several sources of c10")
    bench.upstream.pull()
    bench.news()
    code, out = interrupt(bench, number)
    assert code == (-number if number == signal.SIGKILL else 128 + number)
    assert "Traceback" not in out
    assert not (bench.yard.build / "compile.json").exists()
    if number != signal.SIGKILL:
        assert not compilers_of(bench)
    first = bench.news()
    out = bench.yard.must("build")
    assert not compilers_of(bench)
    assert "processes of a killed run" not in out or number == signal.SIGKILL
    second = bench.news()
    assert first < compiled_and_linked(*SEVERAL)
    assert first | second == compiled_and_linked(*SEVERAL)
    assert not first & second
    assert "Up to date" in bench.yard.must("build")


def test_settings_that_changed_and_changed_back_around_an_interruption_end_as_they_began(
    bench: Bench,
) -> None:
    bench.upstream.append_each(SEVERAL, "static int patched [[maybe_unused]] = 4;")
    patch = bench.yard.folder / "several.patch"
    patch.write_text(bench.upstream.diff(), encoding="utf-8")
    bench.upstream.undo()
    first = bench.yard.manifest("compile")
    bench.write_profile(patches=[patch.name])
    bench.news()
    interrupt(bench, signal.SIGTERM)
    assert bench.news()
    bench.write_profile()
    bench.yard.must("build")
    assert bench.yard.manifest("compile") == first
    assert "patched" not in bench.upstream.mine(SEVERAL[0]).read_text(encoding="utf-8")
    assert "Up to date" in bench.yard.must("build")


def test_a_switch_that_changes_no_command_recompiles_nothing(bench: Bench) -> None:
    bench.yard.must("build")
    bench.news()
    code, out = bench.yard.doit("build", env={"TORCHYARD__BUILD__FLAGS__USE_NUMPY": "false"})
    assert code == 0, out
    assert "reconfigure the build folder: build.flags.USE_NUMPY 1 → false" in out
    cache = bench.upstream.mine("build/CMakeCache.txt").read_text(encoding="utf-8")
    assert "USE_NUMPY:BOOL=false" in cache
    assert not bench.news()
    bench.yard.must("build")
    assert not bench.news()


def test_after_a_changed_setting_exactly_what_has_another_command_is_made(bench: Bench) -> None:
    bench.yard.must("build")
    bench.news()
    before = commands(bench)
    setting = {"TORCHYARD__BUILD__ENV__CMAKE_SHARED_LINKER_FLAGS": "-Wl,--build-id=sha1"}
    code, out = bench.yard.doit("build", env=setting)
    assert code == 0, out
    changed = {output for output, one in commands(bench).items() if before.get(output) != one}
    assert bench.news() & before.keys() == changed
    assert not any(output.endswith(".o") for output in changed)
    assert "lib/libc10.so" in changed
    bench.yard.must("build")
    assert commands(bench) == before


def commands(bench: Bench) -> dict[str, str]:
    """The command of every output of target c10, by Ninja's own word."""
    ninja = bench.yard.manifest("deps")["ninja"]["path"]
    folder = str(bench.upstream.clone / "build")
    text = bench.upstream.debian.must(ninja, "-C", folder, "-t", "compdb-targets", "c10")
    found = json.loads(text[text.index("[\n") :])
    return {entry["output"]: entry["command"] for entry in found}


def test_a_submodule_that_moved_upstream_is_brought_along(bench: Bench) -> None:
    small = "third_party/small"
    bench.upstream.add_submodule(small, {"small.h": "#define SMALL 1\n"})
    bench.upstream.push("a submodule")
    bench.upstream.pull()
    bench.yard.must("build")
    held = bench.upstream.mine(f"{small}/small.h")
    assert held.read_text(encoding="utf-8") == "#define SMALL 1\n"

    moved = bench.upstream.move_submodule(small, {"small.h": "#define SMALL 2\n"})
    bench.upstream.push("the submodule moves")
    bench.upstream.pull()
    assert not bench.rebuilt()
    assert held.read_text(encoding="utf-8") == "#define SMALL 2\n"
    assert bench.yard.manifest("source")["submodules"] == {small: moved}


def test_an_archive_of_the_tree_is_unpacked_and_built_and_an_edit_in_it_as_well(
    bench: Bench, debian: Debian
) -> None:
    archive = bench.upstream.archive("pytorch-2.6.0")
    yard = InsideYard(debian, "archive")
    source = {"path": None, "tarball": str(archive), "submodules": False}
    yard.profile(**profile("debian-trixie-cpu", source=source, build={"target": "c10"}))
    yard.must("build")
    assert "Up to date" in yard.must("build")
    tree = yard.build / "src" / "pytorch"
    before = made(tree / "build")
    with (tree / ONE).open("a", encoding="utf-8") as stream:
        stream.write("static int added_by_hand [[maybe_unused]] = 5;\n")
    yard.must("build")
    assert remade(before, made(tree / "build")) == compiled_and_linked(ONE)


def compilers_of(bench: Bench) -> list[str]:
    """Command lines that are at work on a source of this tree, and of no other test's."""
    return processes_with(str(bench.upstream.clone / "c10"))


def interrupt(bench: Bench, number: signal.Signals) -> tuple[int, str]:
    """Build without help of the compiler cache, and send the signal once Ninja has made one object
    of several.
    """
    child = bench.yard.start("build", env={"CCACHE_RECACHE": "1"})
    wait_for_one(bench, child)
    child.send_signal(number)
    out, _ = child.communicate(timeout=120)
    return child.returncode, out


def wait_for_one(bench: Bench, child: Popen[str]) -> None:
    for _ in range(6000):
        if remade(bench.seen, made(bench.folder)):
            return
        assert child.poll() is None, child.communicate()[0]
        time.sleep(0.02)
    raise AssertionError("Ninja made nothing")
