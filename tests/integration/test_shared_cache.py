"""Two machines, as two users in two folders, and a redis that both know."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.machines import Machine
from tests.support.redisserver import kept_port, redis

pytestmark = [pytest.mark.integration, pytest.mark.needs("ccache", "redis-server")]
_MANY = 30


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with redis(tmp_path, "--requirepass", "hunter2") as url:
        yield url.replace("//", "//:hunter2@")


def test_what_one_machine_compiled_serves_the_other_and_without_redis_each_has_its_own(
    tmp_path: Path, server: str
) -> None:
    alice = Machine(tmp_path / "alice", server, _MANY)
    alice.build()
    learned = alice.last()["cache"]
    assert learned["hits"] == 0
    assert learned["misses"] >= _MANY  # and what CMake compiles to try the compiler

    bob = Machine(tmp_path / "home" / "bob" / "work", server, _MANY)
    out = bob.build()
    served = bob.last()["cache"]
    assert served["hits"] >= 0.95 * _MANY, out
    assert served["shared"] == served["hits"], "and none of them was his own"
    assert f"{served['shared']} of them from the shared cache" in out

    changed = bob.source(0)
    changed.write_text(changed.read_text(encoding="utf-8") + "int more;\n", encoding="utf-8")
    with kept_port() as nobody:
        out = bob.build(f"redis://:hunter2@127.0.0.1:{nobody}")
    assert out.count("is not used, so compilations are cached on this machine only") == 1
    assert bob.last()["cache"]["misses"] == 1
    folders = (tmp_path / "alice" / "checkout" / "build", bob.yard.folder / "build")
    kept = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert kept
    assert not [path for path in kept if b"hunter2" in path.read_bytes()], "it is written nowhere"
    assert "hunter2" not in out
