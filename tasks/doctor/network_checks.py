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
        reason = "nobody was asked" if profile else "the profile does not open"
        yield from (
            check_result.report_unchecked(check, reason) for check in ("index", "git-hosts")
        )
        return
    yield from (_check_index(result) for result in s.reach if result.subject == INDEX)
    hosts = [result for result in s.reach if result.subject != INDEX]
    yield from (_check_git_host(s, result) for result in hosts)
    if not hosts:
        yield check_result.report_ok("git-hosts", "nothing comes from one")


def _check_index(found: Connectivity) -> check_result.CheckResult:
    replaced_url = f", asked instead of {found.instead_of}," if found.instead_of else ""
    if found.answers:
        return check_result.report_ok("index", f"{found.url}{replaced_url} answers", found.subject)
    mirror_hint = (
        "take the mirror out of mirrors or source.mirrors, or another; " if replaced_url else ""
    )
    hint = mirror_hint + (
        "check network and proxy, or name an index that can be reached: PIP_INDEX_URL and "
        f"UV_INDEX_URL for all packages, torch.index for torch's wheel; {OFFLINE_HINT}"
    )
    report = check_result.report_warning if found.optional else check_result.report_problem
    optional_note = "; what is built already needs nothing from it" if found.optional else ""
    return report(
        "index", f"{found.url}{replaced_url} does not answer{optional_note}", hint, found.subject
    )


def _check_git_host(s: HostFacts, found: Connectivity) -> check_result.CheckResult:
    if found.answers:
        return check_result.report_ok(
            "git-hosts", f"{found.subject}: {found.url} answers", found.subject
        )
    message = f"{found.subject}: {found.url} does not answer"
    setting = "source.path" if found.subject == TREE else "path instead of git"
    hint = f"check network and proxy, or build from a checkout that is here: {setting}; "
    hint += OFFLINE_HINT
    if found.optional:
        consequence = "what is there is used" if s.begun else "it is optional and will be left out"
        return check_result.report_warning(
            "git-hosts", f"{message}; {consequence}", hint, found.subject
        )
    return check_result.report_problem("git-hosts", message, hint, found.subject)


def _check_proxies(s: HostFacts) -> check_result.CheckResult:
    """Check that the proxy variables agree.

    Programs disagree on the case: curl, and so git, prefers https_proxy, and reads http_proxy only
    in lower case (curl's manual).
    """
    if s.proxies is None:
        return check_result.report_unchecked("proxies")
    addresses = {proxy.variable: proxy.address for proxy in s.proxies}
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        lower_value, upper_value = addresses.get(name), addresses.get(name.upper())
        if lower_value is not None and upper_value is not None and lower_value != upper_value:
            message = f"{name} is {lower_value}, and {name.upper()} is {upper_value}"
            hint = "set both to the same: git and pip do not agree on which one counts"
            return check_result.report_warning("proxies", message, hint)
    if invalid := [name for name, address in addresses.items() if not address]:
        return check_result.report_warning(
            "proxies", f"{invalid[0]} names no host", "write it as http://host:port"
        )
    proxy_list = ", ".join(f"{name} is {address}" for name, address in addresses.items())
    return check_result.report_ok("proxies", proxy_list or "none")


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
        message = f"{DISTRIBUTOR_PROGRAMS[kind]} is not there: everything is compiled here"
        yield check_result.report_warning(
            "workers",
            message,
            check_result.format_install_hint(knowledge, s, kind),
            DISTRIBUTOR_PROGRAMS[kind],
        )
    else:
        yield from (_check_worker(kind, result) for result in s.workers)


def _check_worker(kind: str, found: Connectivity) -> check_result.CheckResult:
    if found.answers:
        return check_result.report_ok("workers", f"{found.url} answers", found.subject)
    hint = "start it there, in a network that you trust, or take it out of build.hosts"
    message = f"{found.url} does not answer: the build goes on without it"
    return check_result.report_warning(
        "workers", message, f"{hint}:\n  {_DAEMON_COMMANDS[kind]}", found.subject
    )
