"""Check proxies, the package index, git hosts and the workers of distributed compilation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.core.errors import OFFLINE_HINT
from tasks.doctor.check_result import (
    NO_PROFILE,
    CheckResult,
    Results,
    format_command,
    format_install_hint,
    report_ok,
    report_problem,
    report_unchecked,
    report_warning,
)
from tasks.settings.compile_workers import DISTRIBUTOR_PROGRAMS

if TYPE_CHECKING:
    from tasks.doctor.host_facts import HostFacts, RequiredUrl
    from tasks.knowledge import Knowledge
    from tasks.lock.opened_profile_io import Profile

INDEX = "the package index"
TREE = "PyTorch's tree"


def check_network(s: HostFacts, profile: Profile | None, _: Knowledge) -> Results:
    """Yield the results of the checks proxies, index and git-hosts."""
    yield _check_proxies(s)
    if profile and (bundle := profile.loaded.settings.offline):
        message = f"offline: everything comes from {bundle}"
        yield from (report_ok(check, message) for check in ("index", "git-hosts"))
        return
    if s.reach is None or profile is None:
        reason = "no host was contacted" if profile else NO_PROFILE
        yield from (report_unchecked(check, reason) for check in ("index", "git-hosts"))
        return
    for url in s.reach:
        yield _check_index(url) if url.subject == INDEX else _check_git_host(s, url)
    if all(url.subject == INDEX for url in s.reach):
        yield report_ok("git-hosts", "no source comes from a git host")


def _check_index(found: RequiredUrl) -> CheckResult:
    url = found.url + (f" (mirror of {found.instead_of})" if found.instead_of else "")
    if found.answers:
        return report_ok("index", f"{url} answers", found.subject)
    variables = "PIP_INDEX_URL and UV_INDEX_URL for all packages, torch.index for torch's wheel"
    hint = f"check network and proxy\nor set another index: {variables}\n{OFFLINE_HINT}"
    if found.instead_of:
        hint = f"remove the mirror from mirrors or source.mirrors, or choose another\nor {hint}"
    if found.optional:
        message = f"{url} does not answer; the finished stages do not need it"
        return report_warning("index", message, hint, found.subject)
    return report_problem("index", f"{url} does not answer", hint, found.subject)


def _check_git_host(s: HostFacts, found: RequiredUrl) -> CheckResult:
    message = f"{found.subject}: {found.url}"
    if found.answers:
        return report_ok("git-hosts", f"{message} answers", found.subject)
    message += " does not answer"
    setting = "source.path" if found.subject == TREE else "path instead of git"
    hint = f"check network and proxy\nor set {setting} to build a local checkout\n{OFFLINE_HINT}"
    if found.optional:
        existing = "the build uses the existing files"
        message += f"; {existing if s.begun else 'this optional source will be left out'}"
        return report_warning("git-hosts", message, hint, found.subject)
    return report_problem("git-hosts", message, hint, found.subject)


def _check_proxies(s: HostFacts) -> CheckResult:
    """Check that the upper-case and lower-case proxy variables have the same value.

    Programs prefer different ones: curl, which git uses, prefers https_proxy to HTTPS_PROXY, and
    never reads HTTP_PROXY (curl's manual).
    """
    if s.proxies is None:
        return report_unchecked("proxies")
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        lower, upper = s.proxies.get(name), s.proxies.get(name.upper())
        if lower is not None and upper is not None and lower != upper:
            message = f"{name} is {lower}, but {name.upper()} is {upper}"
            hint = "set both to the same value: git and pip prefer different ones"
            return report_warning("proxies", message, hint)
    if invalid := next((name for name, address in s.proxies.items() if not address), ""):
        message = f"the variable {invalid} has no host"
        return report_warning("proxies", message, f"set {invalid} to http://host:port")
    proxies = ", ".join(f"{name} is {address}" for name, address in s.proxies.items())
    return report_ok("proxies", proxies or "no proxy is set")


# distcc has no authentication: anyone who can reach the port can run programs
_DAEMON_COMMANDS = {
    "distcc": "distccd --daemon --jobs N --allow YOUR-NETWORK/24 --listen ITS-ADDRESS",
    "icecream": "icecc-scheduler there, and iceccd --scheduler-host THAT-HOST on each machine",
}


def check_workers(s: HostFacts, profile: Profile | None, knowledge: Knowledge) -> Results:
    """Check workers: whether the workers of distributed compilation answer."""
    kind = profile.loaded.settings.build.distribute if profile else "off"
    if kind == "off":
        yield report_ok("workers", "nothing is compiled on other machines")
    elif s.hands_on is None or s.workers is None:
        yield report_unchecked("workers", "no worker was contacted")
    elif not s.hands_on.path:
        program = DISTRIBUTOR_PROGRAMS[kind]
        message = f"{program} is not installed, so everything is compiled on this machine"
        yield report_warning("workers", message, format_install_hint(knowledge, s, kind), program)
    else:
        steps = "remove it from build.hosts, or start it in a network that you trust:"
        hint = format_command(_DAEMON_COMMANDS[kind], steps)
        for host in s.workers:
            message = f"{host.url} does not answer: the build continues without it"
            if host.answers:
                yield report_ok("workers", f"{host.url} answers", host.subject)
            else:
                yield report_warning("workers", message, hint, host.subject)
