"""What a ref of a repository stands for now."""

from __future__ import annotations

import re
import socket
import urllib.request
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from tasks.core.errors import CommandFailedError
from tasks.knowledge.mirrors import apply_mirror
from tasks.system import shell
from tasks.system.git.git_command import build_git_command, is_local_url
from tasks.system.output import print_line


def resolve_remote_commit(url: str, ref: str, mirrors: Mapping[str, str]) -> str:
    """The commit of a tag or branch, or HEAD; "" for what the repository has no name for, as a
    commit. Raises `CommandFailedError` where it does not answer.
    """
    asked = build_git_command(
        *("ls-remote", "--quiet", "--", url, ref, f"{ref}^{{}}"),
        what=f"ask {url} for {ref}",
        mirrors=mirrors,
        local=is_local_url(url),
    )
    lines = (line.split("\t") for line in shell.capture_output(asked).splitlines() if "\t" in line)
    found = {name: commit for commit, name in lines}
    tag = f"refs/tags/{ref}"
    names = (ref, f"{tag}^{{}}", tag, f"refs/heads/{ref}")
    return next((found[name] for name in names if name in found), "")


def report_newer_commit(url: str, ref: str, locked: str, mirrors: Mapping[str, str]) -> None:
    """Say that the ref has moved on from what torchyard.lock holds, where that is known without
    asking the network.
    """
    if not locked or locked.startswith(ref) or not is_local_url(apply_mirror(url, mirrors)):
        return
    try:
        now = resolve_remote_commit(url, ref, mirrors)
    except CommandFailedError:
        return  # the repository may be gone: what is locked is here perhaps
    if now not in ("", locked):
        print_line(f"torchyard.lock holds {ref} at {locked[:7]}; newer: doit lock --update")


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
