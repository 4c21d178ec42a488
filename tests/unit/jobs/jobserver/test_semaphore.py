"""Tokens in a semaphore of Windows, and the governor's chair as a name."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from tests.support.systems import windows_only

pytestmark = windows_only

if sys.platform == "win32":
    from tasks.jobs.jobserver import semaphore
    from tasks.jobs.jobserver.semaphore import Chair, Semaphore, joined, name_of

    def test_what_is_put_there_can_be_taken_once() -> None:
        one, other = Semaphore("torchyard-test-once"), Semaphore("torchyard-test-once")
        one.put(3)
        assert other.count() == 3
        assert other.take(2) == 2
        assert one.take(9) == 1
        assert (one.count(), one.take(1)) == (0, 0)
        one.close()
        other.close()

    def test_who_waits_has_what_is_put_there_at_once() -> None:
        tokens = Semaphore("torchyard-test-wait")
        threading.Timer(0.3, tokens.put, (2,)).start()
        started = time.monotonic()
        assert tokens.wait(20, 5) == 2
        assert time.monotonic() - started < 10
        assert tokens.wait(0.01, 5) == 0
        tokens.close()

    def test_nobody_waits_after_a_stop() -> None:
        tokens = Semaphore("torchyard-test-stop")
        tokens.put(1)
        threading.Timer(0.3, tokens.stop).start()
        started = time.monotonic()
        assert tokens.wait(20, 0) == 0
        assert time.monotonic() - started < 10
        assert tokens.stopped
        assert tokens.count() == 1
        tokens.close()

    def test_tokens_are_gone_with_the_last_who_builds(tmp_path: Path) -> None:
        with joined(tmp_path) as (first, _):
            first.put(4)
            with joined(tmp_path) as (second, _):
                assert second.count() == 4
        with joined(tmp_path) as (third, _):
            assert third.count() == 0

    def test_one_has_the_chair_until_it_leaves() -> None:
        first, second = Chair("torchyard-test-chair"), Chair("torchyard-test-chair")
        assert first.take()
        assert first.take()
        assert not second.take()
        first.close()
        assert second.take()
        assert not first.take()
        second.close()

    def test_a_pool_that_may_not_be_opened_is_left_to_others(tmp_path: Path) -> None:
        real, name = semaphore._semaphore, name_of(tmp_path)

        def refused(*taken: object) -> int:
            if taken[-1] == name:
                raise PermissionError("access is denied")
            return real(*taken)

        semaphore._semaphore = refused
        try:
            with joined(tmp_path) as (tokens, chair):
                assert tokens.auth.startswith(f"{name}-")
                assert chair.take()
        finally:
            semaphore._semaphore = real

    def test_a_folder_is_one_pool_however_it_is_written(tmp_path: Path) -> None:
        (tmp_path / "Pool").mkdir()
        assert name_of(tmp_path / "Pool") == name_of(tmp_path / "pool" / ".." / "POOL")
        assert name_of(tmp_path / "Pool") != name_of(tmp_path / "other")
        assert " " not in name_of(Path("C:/with a space"))
