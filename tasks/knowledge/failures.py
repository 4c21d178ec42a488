"""What went wrong where torch is used, told by what was printed. failures.yaml has the patterns;
the first decides. What a log of a build tells is a matter of tasks/diagnosis.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.knowledge.facts import Failure
    from tasks.knowledge.load import Knowledge


def recognise(knowledge: Knowledge, text: str) -> Failure | None:
    """The first failure of the facts that a line of `text` tells; None where no one is known."""
    sure = (one for one in knowledge.failures if one.phase == "run" and one.rank != "hint")
    return next((failure for failure in sure if _tells(failure, text)), None)


def _tells(failure: Failure, text: str) -> bool:
    return any(
        _found(failure.patterns, line) and not _found(failure.unless, line)
        for line in text.splitlines()
    )


def _found(patterns: tuple[str, ...], line: str) -> bool:
    return any(re.search(pattern, line, re.IGNORECASE) for pattern in patterns)
