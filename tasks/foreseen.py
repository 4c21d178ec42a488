"""What is known to fail with the sources of a release, said before hours are spent on it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tasks.choice import Choice
from tasks.knowledge import Knowledge
from tasks.knowledge.combinations import Combination, judge
from tasks.model import Host


def foreseen(knowledge: Knowledge, host: Host, choice: Choice) -> Iterator[str]:
    """A warning for each known-bad combination that a source build meets.

    Compilers are not known before deps looked; `doctor` looks, and judges them as well.
    """
    if choice.strategy != "source":
        return
    combination = Combination(
        system=host.system,
        cuda=choice.toolkit.version or None,
        torch=choice.torch,
        archs=choice.targets,
        strategy=choice.strategy,
    )
    for finding in judge(knowledge, combination):
        if finding.level != "info":
            yield f"known not to work: {finding.what}. What helps: {finding.fix}"
