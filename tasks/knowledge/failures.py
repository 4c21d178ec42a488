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
    met = (failure for failure in knowledge.failures if failure.phase == "run")
    return next((failure for failure in met if _tells(failure, text)), None)


def _tells(failure: Failure, text: str) -> bool:
    flags = re.IGNORECASE | re.MULTILINE
    return any(re.search(pattern, text, flags) for pattern in failure.patterns)
