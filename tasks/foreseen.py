"""What is known to fail with the sources of a release, said before hours are spent on it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tasks.choice import Choice
from tasks.knowledge import Knowledge
from tasks.knowledge.combinations import judge
from tasks.knowledge.minimums import below
from tasks.model import Host


def foreseen(knowledge: Knowledge, host: Host, choice: Choice) -> Iterator[str]:
    """A warning for each known-bad combination that a source build meets, and for what is too old,
    by what planning knows. Compilers and glibc are looked at by `doctor`, of which every build asks
    a part before it begins. What a stage cures is no warning.
    """
    if choice.strategy != "source":
        return
    combination = choice.combination(host)
    for finding in (*judge(knowledge, combination), *below(knowledge, combination)):
        if finding.level != "info":
            yield f"known not to work: {finding.what}. What helps: {finding.fix}"
