"""Proxies, the package index, and the hosts of what comes from git."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.core.errors import WITHOUT_NETWORK
from tasks.doctor.symptom import Symptom, ok, problem, unchecked, warning

if TYPE_CHECKING:
    from tasks.doctor.host_facts import Reach, Surroundings
    from tasks.knowledge import Knowledge
    from tasks.lock.profile import Profile

INDEX = "the package index"
TREE = "PyTorch's tree"


def judge(s: Surroundings, profile: Profile | None, _: Knowledge) -> Iterator[Symptom]:
    """proxies, index, git-hosts."""
    yield _proxies(s)
    if profile and (bundle := profile.loaded.settings.offline):
        yield from (ok(check, f"offline: from {bundle}") for check in ("index", "git-hosts"))
        return
    if s.reach is None or profile is None:
        why = "nobody was asked" if profile else "the profile does not open"
        yield from (unchecked(check, why) for check in ("index", "git-hosts"))
        return
    yield from (_index(found) for found in s.reach if found.what == INDEX)
    hosts = [found for found in s.reach if found.what != INDEX]
    yield from (_host(s, found) for found in hosts)
    if not hosts:
        yield ok("git-hosts", "nothing comes from one")


def _index(found: Reach) -> Symptom:
    instead = f", asked instead of {found.instead_of}," if found.instead_of else ""
    if found.answers:
        return ok("index", f"{found.url}{instead} answers", found.what)
    mirror = "take the mirror out of mirrors or source.mirrors, or another; " if instead else ""
    todo = mirror + (
        "check network and proxy, or name an index that can be reached: PIP_INDEX_URL and "
        f"UV_INDEX_URL for all packages, torch.index for torch's wheel; {WITHOUT_NETWORK}"
    )
    level = warning if found.optional else problem
    more = "; what is built already needs nothing from it" if found.optional else ""
    return level("index", f"{found.url}{instead} does not answer{more}", todo, found.what)


def _host(s: Surroundings, found: Reach) -> Symptom:
    if found.answers:
        return ok("git-hosts", f"{found.what}: {found.url} answers", found.what)
    seen = f"{found.what}: {found.url} does not answer"
    local = "source.path" if found.what == TREE else "path instead of git"
    todo = f"check network and proxy, or build from a checkout that is here: {local}; "
    todo += WITHOUT_NETWORK
    if found.optional:
        left = "what is there is used" if s.begun else "it is optional and will be left out"
        return warning("git-hosts", f"{seen}; {left}", todo, found.what)
    return problem("git-hosts", seen, todo, found.what)


def _proxies(s: Surroundings) -> Symptom:
    """Programs disagree on capitals: curl, and so git, takes https_proxy first, and http_proxy in
    small letters alone (curl's manual).
    """
    if s.proxies is None:
        return unchecked("proxies")
    given = {proxy.variable: proxy.address for proxy in s.proxies}
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        small, large = given.get(name), given.get(name.upper())
        if small is not None and large is not None and small != large:
            seen = f"{name} is {small}, and {name.upper()} is {large}"
            todo = "set both to the same: git and pip do not agree on which one counts"
            return warning("proxies", seen, todo)
    if broken := [name for name, address in given.items() if not address]:
        return warning("proxies", f"{broken[0]} names no host", "write it as http://host:port")
    named = ", ".join(f"{name} is {address}" for name, address in given.items())
    return ok("proxies", named or "none")
