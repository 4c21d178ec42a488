"""Whether the host of a URL answers, in a second at most, and asked once in a run."""

from __future__ import annotations

import re
import socket
import urllib.request
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from tasks.system.git.command import is_local_url

_DEFAULT_PORTS = {
    "https": 443,
    "http": 80,
    "ssh": 22,
    "git+ssh": 22,
    "git": 9418,
    "socks5": 1080,
    "socks5h": 1080,
}
_SCP_ADDRESS = re.compile(r"(?:[^@/:]+@)?(?P<host>[^/:]+):")


def is_reachable(url: str, timeout: float = 1.0) -> bool:
    """Whether the URL's host, or its proxy, takes a TCP connection within `timeout` seconds.

    A path on this machine is reachable where it exists.
    """
    if is_local_url(url):
        return Path(url2pathname(urlsplit(url).path) if url.startswith("file:") else url).exists()
    host, port = resolve_host_port(url)
    return bool(host) and _can_connect(host, port, timeout)


def resolve_host_port(url: str) -> tuple[str, int]:
    """Host and port that a client of `url` connects to first; "" and 0 for no URL of git's."""
    if "://" not in url:
        found = _SCP_ADDRESS.match(url)
        return (found["host"], 22) if found else ("", 0)
    parts = urlsplit(url)
    proxy = _find_proxy(parts.scheme, parts.hostname or "")
    if proxy:
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    return parts.hostname or "", parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)


def _find_proxy(scheme: str, host: str) -> str:
    if scheme not in ("http", "https") or urllib.request.proxy_bypass(host):
        return ""
    proxies = urllib.request.getproxies()
    return proxies.get(scheme) or proxies.get("all", "")


@cache
def _can_connect(host: str, port: int, timeout: float) -> bool:
    try:
        with socket.create_connection((host, port), timeout):
            return True
    except OSError:
        return False
