"""Proxies, the package index, and the hosts of what comes from git."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.checks.ids import CheckId
from tasks.checks.symptom import Symptom, ok, problem, unchecked, warning

if TYPE_CHECKING:
    from tasks.knowledge import Knowledge
    from tasks.reports.subject import Profile
    from tasks.surroundings import Reach, Surroundings

INDEX = "the package index"


def judge(s: Surroundings, _: Profile | None, __: Knowledge) -> Iterator[Symptom]:
    """proxies, index, git-hosts."""
    yield from _proxies(s)
    if s.reach is None:
        yield from (unchecked(check, "nobody was asked") for check in ("index", "git-hosts"))
        return
    index = [found for found in s.reach if found.what == INDEX]
    yield from _all("index", index, "nothing is asked of one") if index else _no_index()
    hosts = [found for found in s.reach if found.what != INDEX]
    for found in hosts:
        yield _host(s, found)
    if not hosts:
        yield ok("git-hosts", "nothing comes from one")


def _no_index() -> Iterator[Symptom]:
    yield ok("index", "a folder on this machine")


def _all(check: CheckId, found: list[Reach], none: str) -> Iterator[Symptom]:
    yield from (_index(check, reach) for reach in found)
    if not found:
        yield ok(check, none)


def _index(check: CheckId, found: Reach) -> Symptom:
    if found.answers:
        return ok(check, f"{found.url} answers", found.what)
    todo = (
        "check network and proxy, or name an index that can be reached: PIP_INDEX_URL and "
        "UV_INDEX_URL for all packages, torch.index for torch's wheel"
    )
    level = warning if found.optional else problem
    more = "; what is built already needs nothing from it" if found.optional else ""
    return level(check, f"{found.url} does not answer{more}", todo, found.what)


def _host(s: Surroundings, found: Reach) -> Symptom:
    if found.answers:
        return ok("git-hosts", f"{found.what}: {found.url} answers", found.what)
    seen = f"{found.what}: {found.url} does not answer"
    todo = "check network and proxy, or build from a local checkout: path instead of git"
    if found.optional:
        left = "what is there is used" if s.begun else "it is optional and will be left out"
        return warning("git-hosts", f"{seen}; {left}", todo, found.what)
    return problem("git-hosts", f"{seen}; the build will stop there", todo, found.what)


def _proxies(s: Surroundings) -> Iterator[Symptom]:
    """Programs disagree on capitals: curl, and so git, takes https_proxy first, and http_proxy in
    small letters alone (curl's manual).
    """
    if s.proxies is None:
        yield unchecked("proxies")
        return
    given = {proxy.variable: proxy.address for proxy in s.proxies}
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        small, large = given.get(name), given.get(name.upper())
        if small is not None and large is not None and small != large:
            seen = f"{name} is {small}, and {name.upper()} is {large}"
            todo = "set both to the same: git and pip do not agree on which one counts"
            yield warning("proxies", seen, todo)
            return
    if broken := [name for name, address in given.items() if not address]:
        todo = "write it as http://host:port"
        yield warning("proxies", f"{broken[0]} names no host", todo)
        return
    named = ", ".join(f"{name} is {address}" for name, address in given.items())
    yield ok("proxies", named or "none")
