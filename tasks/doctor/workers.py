"""Other machines that compile: the program that hands on, and whether they answer. Whether they
have the same compiler, a build finds out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.doctor.symptom import Symptom, install, ok, unchecked, warning
from tasks.settings.workers import PROGRAMS

if TYPE_CHECKING:
    from tasks.doctor.host_facts import Reach, Surroundings
    from tasks.knowledge import Knowledge
    from tasks.lock.profile import Profile

# distcc asks nobody for a password: whoever reaches the port has programs run there
_DAEMON = {
    "distcc": "distccd --daemon --jobs N --allow YOUR-NETWORK/24 --listen ITS-ADDRESS",
    "icecream": "icecc-scheduler there, and iceccd --scheduler-host THAT-HOST on each machine",
}


def judge(s: Surroundings, profile: Profile | None, knowledge: Knowledge) -> Iterator[Symptom]:
    """workers."""
    kind = profile.loaded.settings.build.distribute if profile else "off"
    if kind == "off":
        yield ok("workers", "nothing is handed to other machines")
    elif s.hands_on is None or s.workers is None:
        yield unchecked("workers", "nobody was asked")
    elif not s.hands_on.path:
        seen = f"{PROGRAMS[kind]} is not there: everything is compiled here"
        yield warning("workers", seen, install(knowledge, s, kind), PROGRAMS[kind])
    else:
        yield from (_host(kind, found) for found in s.workers)


def _host(kind: str, found: Reach) -> Symptom:
    if found.answers:
        return ok("workers", f"{found.url} answers", found.what)
    todo = "start it there, in a network that you trust, or take it out of build.hosts"
    seen = f"{found.url} does not answer: the build goes on without it"
    return warning("workers", seen, f"{todo}:\n  {_DAEMON[kind]}", found.what)
