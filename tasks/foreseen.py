"""What is known to fail with the sources of a release, said before hours are spent on it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tasks.choice import Choice
from tasks.knowledge import Knowledge
from tasks.knowledge.combinations import Combination, judge
from tasks.knowledge.minimums import below
from tasks.model import Host

_NOTHING_SEEN = Combination()


def foreseen(
    knowledge: Knowledge, host: Host, choice: Choice, seen: Combination = _NOTHING_SEEN
) -> Iterator[str]:
    """A warning for each known-bad combination that a source build meets, and for what is too old.

    `seen` is what the caller knows of this machine besides: its glibc, the compiler that deps chose
    the last time, whether extensions are built. `doctor` looks at all of them. What a stage cures
    is no warning.
    """
    if choice.strategy != "source":
        return
    combination = replace(
        seen,
        system=host.system,
        cuda=choice.toolkit.full(host),
        torch=choice.torch,
        archs=choice.targets,
        strategy=choice.strategy,
        python=choice.python.version,
    )
    for finding in (*judge(knowledge, combination), *below(knowledge, combination)):
        if finding.level != "info":
            yield f"known not to work: {finding.what}. What helps: {finding.fix}"
