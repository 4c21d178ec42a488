"""Tokens in a Windows semaphore, and the leader lock as a named event."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from tests.support.systems import windows_only

pytestmark = windows_only

if sys.platform == "win32":
    from tasks.jobs import windows_tokens_io
    from tasks.jobs.windows_tokens_io import (
        EventLeaderLock,
        TokenSemaphore,
        compute_semaphore_name,
        open_tokens,
    )

    def test_released_token_is_acquired_once() -> None:
        one, other = TokenSemaphore("torchyard-test-once"), TokenSemaphore("torchyard-test-once")
        one.return_tokens(3)
        assert other.count_tokens() == 3
        assert other.take_tokens(2) == 2
        assert one.take_tokens(9) == 1
        assert (one.count_tokens(), one.take_tokens(1)) == (0, 0)
        one.close()
        other.close()

    def test_waiting_process_gets_released_token_at_once() -> None:
        tokens = TokenSemaphore("torchyard-test-wait")
        threading.Timer(0.3, tokens.return_tokens, (2,)).start()
        started = time.monotonic()
        assert tokens.wait_for_tokens(20, 5) == 2
        assert time.monotonic() - started < 10
        assert tokens.wait_for_tokens(0.01, 5) == 0
        tokens.close()

    def test_stop_ends_waiting() -> None:
        tokens = TokenSemaphore("torchyard-test-stop")
        tokens.return_tokens(1)
        threading.Timer(0.3, tokens.stop_waiting).start()
        started = time.monotonic()
        assert tokens.wait_for_tokens(20, 0) == 0
        assert time.monotonic() - started < 10
        assert tokens.stopped
        assert tokens.count_tokens() == 1
        tokens.close()

    def test_tokens_vanish_with_last_participant(tmp_path: Path) -> None:
        with open_tokens(tmp_path) as (first, _):
            first.return_tokens(4)
            with open_tokens(tmp_path) as (second, _):
                assert second.count_tokens() == 4
        with open_tokens(tmp_path) as (third, _):
            assert third.count_tokens() == 0

    def test_leader_keeps_lock_until_it_leaves() -> None:
        first, second = (
            EventLeaderLock("torchyard-test-leader"),
            EventLeaderLock("torchyard-test-leader"),
        )
        assert first.acquire_lead()
        assert first.acquire_lead()
        assert not second.acquire_lead()
        first.close()
        assert second.acquire_lead()
        assert not first.acquire_lead()
        second.close()

    def test_inaccessible_jobserver_is_replaced_by_private_one(tmp_path: Path) -> None:
        real, name = windows_tokens_io._create_semaphore, compute_semaphore_name(tmp_path)

        def refuse(*args: object) -> int:
            if args[-1] == name:
                raise PermissionError("access is denied")
            return real(*args)

        windows_tokens_io._create_semaphore = refuse
        try:
            with open_tokens(tmp_path) as (tokens, leader):
                assert tokens.auth.startswith(f"{name}-")
                assert leader.acquire_lead()
        finally:
            windows_tokens_io._create_semaphore = real

    def test_spellings_of_one_folder_share_one_jobserver(tmp_path: Path) -> None:
        (tmp_path / "Pool").mkdir()
        assert compute_semaphore_name(tmp_path / "Pool") == compute_semaphore_name(
            tmp_path / "pool" / ".." / "POOL"
        )
        assert compute_semaphore_name(tmp_path / "Pool") != compute_semaphore_name(
            tmp_path / "other"
        )
        assert " " not in compute_semaphore_name(Path("C:/with a space"))
