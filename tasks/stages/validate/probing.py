"""A program that says line by line how its checks went, begun again after each that ended it.

A check that hangs or crashes takes those after it with it: they are asked for in a new process. A
card that hung twice is asked for no more, and neither is one that was not found within the time.
Pure: `once` is who runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tasks.stages.validate.checks import reported

HANGS = 2  # of one card are enough
_FIRST = ("import", "gpu", "archs")  # what each process says before it makes a check
HUNG = "the card hung before"
EXIT = "exit"  # the name of what happens after the last check


@dataclass(frozen=True)
class Run:
    """One process: all that it printed, and how it ended ("" where it ended well)."""

    lines: tuple[str, ...]
    ended: str = ""
    hung: bool = False


@dataclass(frozen=True)
class Lost:
    """How a process ended at a check, and all that it printed."""

    detail: str
    said: str


@dataclass(frozen=True)
class Said:
    """What was reported, by name, and which checks ended their process; `hung` of them took too
    long. `left` is why those that are missing were not asked for again.
    """

    lines: Mapping[str, Mapping[str, str]]
    lost: Mapping[str, Lost] = field(default_factory=dict)
    left: str = ""
    hung: int = 0

    @property
    def no_gpu(self) -> str | None:
        """Why there is no card to try, "" where there is one, None where that was not told."""
        return self.lines["gpu"]["detail"] if "gpu" in self.lines else None


def ask(once: Callable[[Sequence[str]], Run], checks: Sequence[str]) -> Said:
    """Every check of the program in its order, by as many processes as that takes. `once` is given
    the checks that are to be made.
    """
    lines: dict[str, Mapping[str, str]] = {}
    lost: dict[str, Lost] = {}
    hung, left = 0, list(checks)
    while True:
        run = once(left)
        now = reported(run.lines)
        lines.update(now)
        at = next((name for name in (*_FIRST, *left) if name not in now), None)
        no_torch = lines.get("import", {}).get("status") == "failed" or at == "import"
        if at is not None and not (no_torch and "import" in now):
            lost[at] = Lost(run.ended or "it ended without a word on it", "\n".join(run.lines))
            hung += run.hung
        elif run.ended and at is None:
            lost[EXIT] = Lost(run.ended, "\n".join(run.lines))
        left = left[left.index(at) + 1 :] if at in left else []
        if no_torch:
            return Said(lines, lost, "torch does not import", hung)
        if at in _FIRST or hung >= HANGS:
            return Said(lines, lost, HUNG if hung else "the card could not be asked", hung)
        if not left:
            return Said(lines, lost, "", hung)
