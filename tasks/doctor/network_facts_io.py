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
from tasks.core.errors import redact_secrets
from tasks.doctor.folder_facts_io import has_started_build
from tasks.doctor.host_facts import Connectivity, ProbeRequest, Proxy, RequiredUrl
from tasks.settings.compile_workers import Worker
from tasks.system import git
from tasks.system.network import package_indexes

DEADLINE = 1.5  # seconds for all hosts together
_PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy")


def start_network_probes(
    asked: ProbeRequest, wanted: frozenset[CheckId]
) -> Callable[[], dict[str, Any]]:
    """Begin to ask; what is returned waits, and gives `proxies`, `reach` and `workers`."""
    found: dict[str, Any] = {}
    if "proxies" in wanted:
        found["proxies"] = tuple(_read_proxies())
    waiting: dict[str, Callable[[], tuple[Connectivity, ...]]] = {}
    if wanted & {"index", "git-hosts"}:
        waiting["reach"] = _start_required_url_probes(asked)
    if "workers" in wanted and asked.workers.hosts:
        waiting["workers"] = _start_worker_probes(asked.workers.hosts)
    return lambda: {**found, **{name: wait() for name, wait in waiting.items()}}


def _start_worker_probes(hosts: Iterable[Worker]) -> Callable[[], tuple[Connectivity, ...]]:
    ways = {one: one.url for one in hosts}
    answers = start_url_probes(ways.values(), DEADLINE)

    def wait_for_workers() -> tuple[Connectivity, ...]:
        by_url = answers()
        return tuple(
            Connectivity(one.name, url, by_url.get(url, False)) for one, url in ways.items()
        )

    return wait_for_workers


def _start_required_url_probes(asked: ProbeRequest) -> Callable[[], tuple[Connectivity, ...]]:
    settled = tuple(dict.fromkeys(map(_apply_user_index, asked.urls)))
    answers = start_url_probes([url.url for url in settled], DEADLINE)
    there = has_started_build(asked)

    def wait_for_urls() -> tuple[Connectivity, ...]:
        by_url = answers()
        return tuple(
            Connectivity(
                url.subject,
                redact_secrets(url.url),
                by_url.get(url.url, False),
                url.optional or there,
                redact_secrets(url.instead_of),
            )
            for url in settled
        )

    return wait_for_urls


def start_url_probes(urls: Iterable[str], deadline: float) -> Callable[[], dict[str, bool]]:
    """Ask all of them; what is returned gives what is known when `deadline` is over."""
    told: queue.SimpleQueue[tuple[str, bool]] = queue.SimpleQueue()
    until = time.monotonic() + deadline
    waiting = set(urls)
    for url in waiting:
        threading.Thread(target=_probe_url, args=(url, told), daemon=True).start()

    def wait_for_answers() -> dict[str, bool]:
        answers: dict[str, bool] = {}
        while len(answers) < len(waiting):
            try:
                url, answer = told.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            answers[url] = answer
        return answers

    return wait_for_answers


def _probe_url(url: str, told: queue.SimpleQueue[tuple[str, bool]]) -> None:
    try:
        told.put((url, git.is_reachable(url)))
    except (OSError, ValueError):  # a name or a port that cannot be one
        told.put((url, False))


def _apply_user_index(wanted: RequiredUrl) -> RequiredUrl:
    """The index that uv and pip would ask: theirs, where a person has set one."""
    if not wanted.usual:
        return wanted
    own = package_indexes.find_uv_index() or (
        "" if wanted.instead_of else package_indexes.find_pip_index()
    )
    return replace(wanted, url=own, instead_of="") if own else wanted


def _read_proxies() -> Iterator[Proxy]:
    names = [name for small in _PROXY_VARIABLES for name in (small, small.upper())]
    for name in names:
        if text := os.environ.get(name, ""):
            yield Proxy(name, _parse_proxy_host(text))


def _parse_proxy_host(text: str) -> str:
    """Host and port without user and password; "" where there is no host."""
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ""
    return f"{parts.hostname}{port}" if parts.hostname else ""
