"""The servers by which machines share a compiler cache: one of HTTP, and those that go wrong while
compilers are at work, which costs a build what they would have served, and is told once.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.faultyredis import Fault, faulty_redis
from tests.support.machines import Machine
from tests.support.webserver import storage

pytestmark = [pytest.mark.integration, pytest.mark.needs("ccache")]
_MANY = 6
# of each object: what it is known by, twice, then itself, and both are kept
_REQUESTS = 4


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    made = Machine(tmp_path_factory.mktemp("machine"), "", _MANY)
    made.build()
    return made


def test_any_server_that_takes_put_and_get_serves(machine: Machine, tmp_path: Path) -> None:
    _change_all(machine, "http")
    with storage(tmp_path / "kept") as url:
        machine.build(f"{url}/torch")
        assert machine.last()["cache"]["misses"] == _MANY
        shutil.rmtree(machine.home / ".cache")  # as another machine has none
        shutil.rmtree(machine.tree / "build")
        (machine.yard.build / "compile.json").unlink()
        out = machine.build(f"{url}/torch")
    assert machine.last()["cache"]["shared"] >= _MANY, out
    assert (tmp_path / "kept" / "torch").is_dir()


@pytest.mark.parametrize("fault", ["gone", "silent", "rubbish"])
def test_one_that_is_lost_in_the_midst_is_one_warning_and_a_local_build(
    machine: Machine, fault: Fault
) -> None:
    _change_all(machine, fault)
    with faulty_redis(fault, good=_MANY * _REQUESTS // 2) as server:
        out = machine.build(server.url)
    cache = machine.last()["cache"]
    assert cache["misses"] == _MANY, out
    assert server.asked > server.good, "it was lost in the midst, and not before"
    assert 0 < cache["unreached"] <= _MANY
    told = f"{server.url} failed: {cache['unreached']} of {_MANY} compilations"
    assert out.count(told) == 1
    assert out.count(server.url) == 1


def test_what_it_says_that_is_not_what_was_kept_is_compiled(machine: Machine) -> None:
    _change_all(machine, "lies")
    with faulty_redis("lies", good=0) as server:
        out = machine.build(server.url)
    assert machine.last()["cache"]["misses"] == _MANY, out
    objects = list((machine.tree / "build").rglob("m*.cpp.o"))
    assert len(objects) == _MANY
    assert {path.read_bytes()[:4] for path in objects} == {b"\x7fELF"}


def _change_all(machine: Machine, word: str) -> None:
    for number in range(_MANY):
        source = machine.source(number)
        text = source.read_text(encoding="utf-8")
        source.write_text(f"{text}int {word}_{number};\n", encoding="utf-8")
