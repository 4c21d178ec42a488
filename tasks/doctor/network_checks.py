"""Check proxies, the package index, git hosts and workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.core.errors import OFFLINE_HINT
from tasks.doctor import check_result
from tasks.settings.compile_workers import DISTRIBUTOR_PROGRAMS

if TYPE_CHECKING:
    from tasks.doctor.host_facts import Connectivity, HostFacts
    from tasks.knowledge import Knowledge
    from tasks.lock.opened_profile_io import Profile

INDEX = "the package index"
TREE = "PyTorch's tree"


def check_network(
    s: HostFacts, profile: Profile | None, _: Knowledge
) -> Iterator[check_result.CheckResult]:
    """Check proxies, index and git-hosts."""
    yield _check_proxies(s)
    if profile and (bundle := profile.loaded.settings.offline):
        yield from (
            check_result.report_ok(check, f"offline: from {bundle}")
            for check in ("index", "git-hosts")
        )
        return
    if s.reach is None or profile is None:
        why = "nobody was asked" if profile else "the profile does not open"
        yield from (check_result.report_unchecked(check, why) for check in ("index", "git-hosts"))
        return
    yield from (_check_index(found) for found in s.reach if found.subject == INDEX)
    hosts = [found for found in s.reach if found.subject != INDEX]
    yield from (_check_git_host(s, found) for found in hosts)
    if not hosts:
        yield check_result.report_ok("git-hosts", "nothing comes from one")


def _check_index(found: Connectivity) -> check_result.CheckResult:
    instead = f", asked instead of {found.instead_of}," if found.instead_of else ""
    if found.answers:
        return check_result.report_ok("index", f"{found.url}{instead} answers", found.subject)
    mirror = "take the mirror out of mirrors or source.mirrors, or another; " if instead else ""
    todo = mirror + (
        "check network and proxy, or name an index that can be reached: PIP_INDEX_URL and "
        f"UV_INDEX_URL for all packages, torch.index for torch's wheel; {OFFLINE_HINT}"
    )
    level = check_result.report_warning if found.optional else check_result.report_problem
    more = "; what is built already needs nothing from it" if found.optional else ""
    return level("index", f"{found.url}{instead} does not answer{more}", todo, found.subject)


def _check_git_host(s: HostFacts, found: Connectivity) -> check_result.CheckResult:
    if found.answers:
        return check_result.report_ok(
            "git-hosts", f"{found.subject}: {found.url} answers", found.subject
        )
    seen = f"{found.subject}: {found.url} does not answer"
    local = "source.path" if found.subject == TREE else "path instead of git"
    todo = f"check network and proxy, or build from a checkout that is here: {local}; "
    todo += OFFLINE_HINT
    if found.optional:
        left = "what is there is used" if s.begun else "it is optional and will be left out"
        return check_result.report_warning("git-hosts", f"{seen}; {left}", todo, found.subject)
    return check_result.report_problem("git-hosts", seen, todo, found.subject)


def _check_proxies(s: HostFacts) -> check_result.CheckResult:
    """Check that the proxy variables agree.

    Programs disagree on the case: curl, and so git, prefers https_proxy, and reads http_proxy only
    in lower case (curl's manual).
    """
    if s.proxies is None:
        return check_result.report_unchecked("proxies")
    given = {proxy.variable: proxy.address for proxy in s.proxies}
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        small, large = given.get(name), given.get(name.upper())
        if small is not None and large is not None and small != large:
            seen = f"{name} is {small}, and {name.upper()} is {large}"
            todo = "set both to the same: git and pip do not agree on which one counts"
            return check_result.report_warning("proxies", seen, todo)
    if broken := [name for name, address in given.items() if not address]:
        return check_result.report_warning(
            "proxies", f"{broken[0]} names no host", "write it as http://host:port"
        )
    named = ", ".join(f"{name} is {address}" for name, address in given.items())
    return check_result.report_ok("proxies", named or "none")


# distcc has no authentication: anyone who can reach the port can run programs there
_DAEMON_COMMANDS = {
    "distcc": "distccd --daemon --jobs N --allow YOUR-NETWORK/24 --listen ITS-ADDRESS",
    "icecream": "icecc-scheduler there, and iceccd --scheduler-host THAT-HOST on each machine",
}


def check_workers(
    s: HostFacts, profile: Profile | None, knowledge: Knowledge
) -> Iterator[check_result.CheckResult]:
    """Check the workers of distributed compilation."""
    kind = profile.loaded.settings.build.distribute if profile else "off"
    if kind == "off":
        yield check_result.report_ok("workers", "nothing is handed to other machines")
    elif s.hands_on is None or s.workers is None:
        yield check_result.report_unchecked("workers", "nobody was asked")
    elif not s.hands_on.path:
        seen = f"{DISTRIBUTOR_PROGRAMS[kind]} is not there: everything is compiled here"
        yield check_result.report_warning(
            "workers",
            seen,
            check_result.format_install_hint(knowledge, s, kind),
            DISTRIBUTOR_PROGRAMS[kind],
        )
    else:
        yield from (_check_worker(kind, found) for found in s.workers)


def _check_worker(kind: str, found: Connectivity) -> check_result.CheckResult:
    if found.answers:
        return check_result.report_ok("workers", f"{found.url} answers", found.subject)
    todo = "start it there, in a network that you trust, or take it out of build.hosts"
    seen = f"{found.url} does not answer: the build goes on without it"
    return check_result.report_warning(
        "workers", seen, f"{todo}:\n  {_DAEMON_COMMANDS[kind]}", found.subject
    )
