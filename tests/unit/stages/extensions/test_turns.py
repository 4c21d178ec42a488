"""A build outside of the jobserver runs alone and is not starved."""

from __future__ import annotations

import threading

from tasks.jobs.job_scheduler_io import reserve_build_slot

PATIENCE = 120.0  # seconds until it counts as a hang


def start_build(alone: bool, go: threading.Event) -> tuple[threading.Thread, threading.Event]:
    """Start a build in a thread that ends at `go`; return it and an event set while it runs."""
    inside = threading.Event()

    def work() -> None:
        with reserve_build_slot(alone=alone):
            inside.set()
            assert go.wait(PATIENCE)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, inside


def test_exclusive_build_waits_for_shared_builds_and_is_not_starved() -> None:
    go, go_alone = threading.Event(), threading.Event()
    pooled = [start_build(alone=False, go=go) for _ in range(2)]
    assert all(inside.wait(PATIENCE) for _, inside in pooled)
    alone, inside = start_build(alone=True, go=go_alone)
    assert not inside.wait(0.05)
    late, late_inside = start_build(alone=False, go=go)  # arrives after the waiting build
    assert not late_inside.wait(0.05)
    go.set()
    assert inside.wait(PATIENCE)
    assert not late_inside.is_set()
    go_alone.set()
    assert late_inside.wait(PATIENCE)
    for thread in (alone, late, *(thread for thread, _ in pooled)):
        thread.join(PATIENCE)
        assert not thread.is_alive()
