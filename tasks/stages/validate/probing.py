"""A program that says line by line how its checks went, begun again after each that ended it.

A check that hangs or crashes takes those after it with it: they are asked for in a new process. A
card that hung twice is asked for no more, and neither is one that was not found within the time.
Pure: `once` is who runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tasks.stages.validate.checks import parse_probe_lines

MAX_HANGS = 2  # of one card are enough
_FIRST_LINES = ("import", "gpu", "archs")  # what each process says before it makes a check
GPU_HUNG = "the card hung before"
EXIT_CHECK = "exit"  # the name of what happens after the last check


@dataclass(frozen=True)
class ProbeRun:
    """One process: all that it printed, and how it ended ("" where it ended well)."""

    lines: tuple[str, ...]
    failure: str = ""
    hung: bool = False


@dataclass(frozen=True)
class ProbeCrash:
    """How a process ended at a check, and all that it printed."""

    detail: str
    output: str


@dataclass(frozen=True)
class ProbeOutput:
    """What was reported, by name, and which checks ended their process; `hung` of them took too
    long. `left` is why those that are missing were not asked for again.
    """

    lines: Mapping[str, Mapping[str, str]]
    crashes: Mapping[str, ProbeCrash] = field(default_factory=dict)
    stop_reason: str = ""
    hung: int = 0

    @property
    def no_gpu_reason(self) -> str | None:
        """Why there is no card to try, "" where there is one, None where that was not told."""
        return self.lines["gpu"]["detail"] if "gpu" in self.lines else None


def collect_probe_output(
    once: Callable[[Sequence[str]], ProbeRun], checks: Sequence[str]
) -> ProbeOutput:
    """Every check of the program in its order, by as many processes as that takes. `once` is given
    the checks that are to be made.
    """
    lines: dict[str, Mapping[str, str]] = {}
    lost: dict[str, ProbeCrash] = {}
    hung, left = 0, list(checks)
    while True:
        run = once(left)
        now = parse_probe_lines(run.lines)
        lines.update(now)
        at = next((name for name in (*_FIRST_LINES, *left) if name not in now), None)
        no_torch = lines.get("import", {}).get("status") == "failed" or at == "import"
        if at is not None and not (no_torch and "import" in now):
            lost[at] = ProbeCrash(
                run.failure or "it ended without a word on it", "\n".join(run.lines)
            )
            hung += run.hung
        elif run.failure and at is None:
            lost[EXIT_CHECK] = ProbeCrash(run.failure, "\n".join(run.lines))
        left = left[left.index(at) + 1 :] if at in left else []
        if no_torch:
            return ProbeOutput(lines, lost, "torch does not import", hung)
        if at in _FIRST_LINES or hung >= MAX_HANGS:
            return ProbeOutput(
                lines, lost, GPU_HUNG if hung else "the card could not be asked", hung
            )
        if not left:
            return ProbeOutput(lines, lost, "", hung)
