"""Network access is retried: how often, after which pauses, and with which messages."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tasks.system.network import index_client
from tasks.system.network.network_access import RETRY_PAUSES, retry_action
from tests.support.checkout import Heard


@dataclass
class Failing:
    """An action that fails a given number of times."""

    times: int
    error: type[Exception] = OSError
    done: int = 0

    def __call__(self) -> str:
        self.done += 1
        if self.done <= self.times:
            raise self.error("cut")
        return "came"


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the pauses instead of waiting, without jitter."""
    seconds: list[float] = []
    monkeypatch.setattr("time.sleep", seconds.append)
    monkeypatch.setattr("random.random", lambda: 0.0)
    return seconds


def passing(error: Exception) -> str:
    return str(error) if isinstance(error, OSError) else ""


@pytest.mark.parametrize(("spread", "seconds"), [(0.0, [2.0, 8.0]), (1.0, [3.0, 12.0])])
def test_retry_pauses_grow_with_jitter(
    heard: Heard,
    slept: list[float],
    monkeypatch: pytest.MonkeyPatch,
    spread: float,
    seconds: list[float],
) -> None:
    monkeypatch.setattr("random.random", lambda: spread)
    assert retry_action("the file", Failing(2), passing) == "came"
    assert slept == seconds
    assert list(heard) == [
        f"the file: cut; trying again in {seconds[0]:.0f} s (2 of 3)",
        f"the file: cut; trying again in {seconds[1]:.0f} s (3 of 3)",
    ]


def test_retries_stop_after_last_attempt(heard: Heard, slept: list[float]) -> None:
    action = Failing(9)
    with pytest.raises(OSError, match="cut"):
        retry_action("the file", action, passing)
    assert action.done == len(RETRY_PAUSES) + 1 == 3
    assert slept == [*RETRY_PAUSES]


def test_permanent_error_is_not_retried(heard: Heard, slept: list[float]) -> None:
    action = Failing(1, ValueError)
    with pytest.raises(ValueError, match="cut"):
        retry_action("the file", action, passing)
    assert (action.done, slept, list(heard)) == (1, [], [])


def test_user_timeouts_override_client_defaults() -> None:
    ours = index_client.add_client_defaults({"PATH": "/bin"})
    assert (ours["UV_HTTP_TIMEOUT"], ours["PIP_RESUME_RETRIES"]) == ("60", "10")
    theirs = {"UV_HTTP_TIMEOUT": "5", "PIP_TIMEOUT": "7", "UV_HTTP_RETRIES": "0"}
    defaults = index_client.add_client_defaults(theirs)
    assert {**defaults, **theirs} == defaults
    assert "PIP_DEFAULT_TIMEOUT" not in defaults, "the same under its other name"
    assert "UV_HTTP_TIMEOUT" not in index_client.add_client_defaults({"UV_REQUEST_TIMEOUT": "9"})


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            (
                "DEBUG Transient failure while handling response from "
                "`https://me:x@i.example/files/a-1%2Bcu132.whl`; retrying after 1.9s..."
            ),
            "a-1+cu132.whl: the connection broke or stalled; uv fetches the file again",
        ),
        (
            (
                "DEBUG Transient request failure for `https://i.example/simple/foo/`, retrying: "
                "error sending request for url (https://i.example/simple/foo/)"
            ),
            "foo: the connection broke or stalled; uv fetches the file again",
        ),
        ("DEBUG Transient request failure for: https://i.example/simple/foo/", ""),
        (
            "WARNING: Attempting to resume incomplete download (1.2 GB/2.5 GB, attempt 1)",
            "fetch torch: the connection broke or stalled; pip continues at 1.2 GB of 2.5 GB",
        ),
        ("Resolved 1 package in 10ms", ""),
    ],
)
def test_retries_are_recognized_in_client_output(line: str, expected: str) -> None:
    assert index_client.format_retry_message(line, "fetch torch") == expected
