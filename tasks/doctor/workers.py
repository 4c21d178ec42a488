"""Other machines that compile: the program that hands on, and whether they answer. Whether they
have the same compiler, a build finds out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.doctor.symptom import (
    CheckResult,
    format_install_hint,
    report_ok,
    report_unchecked,
    report_warning,
)
from tasks.settings.workers import DISTRIBUTOR_PROGRAMS

if TYPE_CHECKING:
    from tasks.doctor.host_facts import Connectivity, HostFacts
    from tasks.knowledge import Knowledge
    from tasks.lock.profile import Profile

# distcc asks nobody for a password: whoever reaches the port has programs run there
_DAEMON_COMMANDS = {
    "distcc": "distccd --daemon --jobs N --allow YOUR-NETWORK/24 --listen ITS-ADDRESS",
    "icecream": "icecc-scheduler there, and iceccd --scheduler-host THAT-HOST on each machine",
}


def check_workers(
    s: HostFacts, profile: Profile | None, knowledge: Knowledge
) -> Iterator[CheckResult]:
    """workers."""
    kind = profile.loaded.settings.build.distribute if profile else "off"
    if kind == "off":
        yield report_ok("workers", "nothing is handed to other machines")
    elif s.hands_on is None or s.workers is None:
        yield report_unchecked("workers", "nobody was asked")
    elif not s.hands_on.path:
        seen = f"{DISTRIBUTOR_PROGRAMS[kind]} is not there: everything is compiled here"
        yield report_warning(
            "workers", seen, format_install_hint(knowledge, s, kind), DISTRIBUTOR_PROGRAMS[kind]
        )
    else:
        yield from (_check_worker(kind, found) for found in s.workers)


def _check_worker(kind: str, found: Connectivity) -> CheckResult:
    if found.answers:
        return report_ok("workers", f"{found.url} answers", found.subject)
    todo = "start it there, in a network that you trust, or take it out of build.hosts"
    seen = f"{found.url} does not answer: the build goes on without it"
    return report_warning("workers", seen, f"{todo}:\n  {_DAEMON_COMMANDS[kind]}", found.subject)
