"""What went wrong where torch is used, told by what was printed. failures.yaml has the patterns;
the first decides. What a log of a build tells is a matter of tasks/diagnosis.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.knowledge.facts import Failure
    from tasks.knowledge.load import Knowledge


def find_run_failure(knowledge: Knowledge, text: str) -> Failure | None:
    """The first failure of the facts that a line of `text` tells; None where no one is known."""
    sure = (one for one in knowledge.failures if one.phase == "run" and one.rank != "hint")
    return next((failure for failure in sure if _is_failure_in_text(failure, text)), None)


def _is_failure_in_text(failure: Failure, text: str) -> bool:
    return any(
        _is_pattern_in_line(failure.patterns, line)
        and not _is_pattern_in_line(failure.unless, line)
        for line in text.splitlines()
    )


def _is_pattern_in_line(patterns: tuple[str, ...], line: str) -> bool:
    return any(re.search(pattern, line, re.IGNORECASE) for pattern in patterns)
