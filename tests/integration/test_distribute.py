"""Two machines that compile for a third, each with an address of its own."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.runlog import build_history_io
from tests.integration.conftest import source_profile
from tests.support import iceccd
from tests.support.distccd import Distccd, distccd, distccds, why_not
from tests.support.machines import Machine
from tests.support.yard import Yard

pytestmark = [pytest.mark.integration, pytest.mark.needs("distcc", "ccache")]
_MANY = 24
_NOBODY = "127.0.0.9"  # nothing listens there
_SHORT = {"CCACHE_DISABLE": "1"}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    if why := why_not():
        pytest.skip(f"not run: {why}")
    return Machine(tmp_path_factory.mktemp("distribute"), "", _MANY)


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[list[Distccd]]:
    with distccds(tmp_path, 2) as found:
        yield found


def among(*hosts: str, by: str = "distcc") -> dict[str, str]:
    return {
        "TORCHYARD__BUILD__DISTRIBUTE": by,
        "TORCHYARD__BUILD__HOSTS": json.dumps(hosts),
    }


def objects(machine: Machine) -> list[bytes]:
    return [machine.object(number).read_bytes() for number in range(_MANY)]


def objects_made(machine: Machine) -> int:
    """In all runs so far: one with nothing to do may leave no line."""
    past = build_history_io.read_history(machine.yard.build / "records" / "compile.jsonl")
    return sum(len(run["objects"]) for run in past)


def forget(machine: Machine) -> None:
    """All is to be compiled again."""
    for path in (machine.tree / "build").rglob("m*.cpp.o"):
        path.unlink()


def test_two_workers_share_the_objects_and_off_compiles_nothing_again(
    machine: Machine, workers: list[Distccd]
) -> None:
    out = machine.build(**among(*(one.host(2) for one in workers)))
    by_host = machine.last()["workers"]["by_host"]
    assert sum(by_host.values()) >= _MANY, out
    for one in workers:
        assert by_host[one.address] >= _MANY // 4, "both have their part"
        assert f"{by_host[one.address]} to {one.address}" in out
    assert machine.last()["jobs"] > 4, "jobs of this machine and of both"
    assert not [item for item in machine.last()["objects"] if "peak_mib" in item]
    there, made = objects(machine), objects_made(machine)

    machine.build()
    machine.build(**among(workers[0].host(8)))
    assert objects_made(machine) == made, "with workers and without, the commands are the same"

    forget(machine)
    machine.build(TORCHYARD__BUILD__CACHE="off")
    assert "workers" not in machine.last()
    assert objects(machine) == there, "what a worker makes is what is made here"


def test_a_worker_that_is_lost_costs_only_its_jobs(
    machine: Machine, workers: list[Distccd]
) -> None:
    forget(machine)
    env = {**among(*(one.host(2) for one in workers)), "TORCHYARD__BUILD__CACHE": "off"}
    stays, goes = workers
    with machine.yard.start("compile", env=env) as child:
        before = goes.compiled
        for _ in range(1200):
            if goes.compiled > before + 4 or child.poll() is not None:
                break
            time.sleep(0.1)
        goes.kill()
        out, _ = child.communicate(timeout=300)
    assert child.returncode == 0, out
    by_host = machine.last()["workers"]["by_host"]
    assert sum(by_host.values()) == _MANY, out
    assert 0 < by_host[goes.address] < _MANY // 2
    assert by_host[stays.address] > by_host[goes.address]
    assert len(objects(machine)) == _MANY


def test_who_has_another_compiler_or_is_not_there_is_left_out(
    machine: Machine, tmp_path: Path
) -> None:
    forget(machine)
    with distccd(tmp_path, options="-fno-inline") as other:
        out = machine.build(**among(other.host(2), f"{_NOBODY}/4"), **_SHORT)
        assert f"{other.address} is not used in this build: its" in out, out
        assert "object code than the compiler of this machine" in out
        assert f"{_NOBODY} is not used in this build: it cannot compile" in out
        assert "no worker can be used, so this machine compiles everything" in out
        assert "workers" not in machine.last()
        assert len(machine.last()["objects"]) == _MANY


def test_without_a_cache_a_new_folder_and_an_extension_hand_on_as_well(
    yard: Yard, tree: Path, extension: Path, tmp_path: Path
) -> None:
    if why := why_not():
        pytest.skip(f"not run: {why}")
    yard.profile(**source_profile(tree, extension))
    with distccd(tmp_path) as one:
        code, out = yard.doit("build", env=among(one.host(2)))
        assert code == 0, out
        (compiled,) = build_history_io.read_history(yard.build / "records" / "compile.jsonl")
        assert compiled["workers"]["by_host"][one.address] > 0
        (built,) = build_history_io.read_history(
            yard.build / "records" / "extensions" / "toy.jsonl"
        )
        assert built["workers"]["by_host"][one.address] > 0, out
        (record,) = (yard.build / "records" / "runs").glob("*.jsonl")
        done = map(json.loads, record.read_text(encoding="utf-8").splitlines())
        told = {event["stage"]: event for event in done if event["event"] == "done"}
        assert told["compile"]["workers"][one.address] > 0

        code, out = yard.doit("build")
        assert code == 0, out
        _, *later = build_history_io.read_history(yard.build / "records" / "compile.jsonl")
        assert not [run for run in later if run["objects"]], "the same commands without workers"


def test_icecream_has_torch_and_an_extension_compiled_by_a_worker(
    yard: Yard, tree: Path, extension: Path
) -> None:
    if why := iceccd.why_not():
        pytest.skip(f"not run: {why}")
    with iceccd.icecream() as worker:
        item = {"name": "toy", "path": str(extension), "imports": ["toyext"]}
        profile = {**source_profile(tree), "build": {"env": dict(worker.env)}}
        yard.profile(**{**profile, "extensions": [{**item, "env": dict(worker.env)}]})
        code, out = yard.doit("build", env=among(worker.host(4), by="icecream"))
        assert code == 0, out
        (compiled,) = build_history_io.read_history(yard.build / "records" / "compile.jsonl")
        (built,) = build_history_io.read_history(
            yard.build / "records" / "extensions" / "toy.jsonl"
        )
        sent = [run["workers"]["by_host"].get(worker.address, 0) for run in (compiled, built)]
        assert min(sent) > 0, out
        assert sum(sent) <= worker.compiled
        assert f"icecc distributed the compilations: {sent[0]} to {worker.address}, " in out

        code, out = yard.doit("build")
        assert code == 0, out
        _, *later = build_history_io.read_history(yard.build / "records" / "compile.jsonl")
        assert not [run for run in later if run["objects"]], "the same commands without workers"
