"""Proxies, and which hosts answer: all are asked at once, and after a moment nobody waits any more.

A name that does not resolve can hold a thread for half a minute, and no timeout of a socket bounds
that: threads are daemons that are left behind.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from tasks.core.check_ids import CheckId
from tasks.core.errors import redact
from tasks.doctor.host_facts import Asked, Proxy, Reach, Wanted
from tasks.doctor.probes.places import begun
from tasks.settings.workers import Worker
from tasks.system import git
from tasks.system.network import ownindex

DEADLINE = 1.5  # seconds for all hosts together
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


def ask(asked: Asked, wanted: frozenset[CheckId]) -> Callable[[], dict[str, Any]]:
    """Begin to ask; what is returned waits, and gives `proxies`, `reach` and `workers`."""
    found: dict[str, Any] = {}
    if "proxies" in wanted:
        found["proxies"] = tuple(_proxies())
    waiting: dict[str, Callable[[], tuple[Reach, ...]]] = {}
    if wanted & {"index", "git-hosts"}:
        waiting["reach"] = _urls(asked)
    if "workers" in wanted and asked.workers.hosts:
        waiting["workers"] = _workers(asked.workers.hosts)
    return lambda: {**found, **{name: wait() for name, wait in waiting.items()}}


def _workers(hosts: Iterable[Worker]) -> Callable[[], tuple[Reach, ...]]:
    ways = {one: one.url for one in hosts}
    answers = answering(ways.values(), DEADLINE)

    def wait() -> tuple[Reach, ...]:
        by_url = answers()
        return tuple(Reach(one.name, url, by_url.get(url, False)) for one, url in ways.items())

    return wait


def _urls(asked: Asked) -> Callable[[], tuple[Reach, ...]]:
    settled = tuple(dict.fromkeys(map(_settled, asked.urls)))
    answers = answering([url.url for url in settled], DEADLINE)
    there = begun(asked)

    def wait() -> tuple[Reach, ...]:
        by_url = answers()
        return tuple(
            Reach(
                url.what,
                redact(url.url),
                by_url.get(url.url, False),
                url.optional or there,
                redact(url.instead_of),
            )
            for url in settled
        )

    return wait


def answering(urls: Iterable[str], deadline: float) -> Callable[[], dict[str, bool]]:
    """Ask all of them; what is returned gives what is known when `deadline` is over."""
    told: queue.SimpleQueue[tuple[str, bool]] = queue.SimpleQueue()
    until = time.monotonic() + deadline
    waiting = set(urls)
    for url in waiting:
        threading.Thread(target=_ask, args=(url, told), daemon=True).start()

    def wait() -> dict[str, bool]:
        answers: dict[str, bool] = {}
        while len(answers) < len(waiting):
            try:
                url, answer = told.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            answers[url] = answer
        return answers

    return wait


def _ask(url: str, told: queue.SimpleQueue[tuple[str, bool]]) -> None:
    try:
        told.put((url, git.reachable(url)))
    except (OSError, ValueError):  # a name or a port that cannot be one
        told.put((url, False))


def _settled(wanted: Wanted) -> Wanted:
    """The index that uv and pip would ask: theirs, where a person has set one."""
    if not wanted.usual:
        return wanted
    own = ownindex.of_uv() or ("" if wanted.instead_of else ownindex.of_pip())
    return replace(wanted, url=own, instead_of="") if own else wanted


def _proxies() -> Iterator[Proxy]:
    names = [name for small in _PROXIES for name in (small, small.upper())]
    for name in names:
        if text := os.environ.get(name, ""):
            yield Proxy(name, _host(text))


def _host(text: str) -> str:
    """Host and port without user and password; "" where there is no host."""
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ""
    return f"{parts.hostname}{port}" if parts.hostname else ""
