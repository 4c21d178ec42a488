"""Checks as a table for people: plain lines, or rich's on a terminal."""

from __future__ import annotations

import io
from collections.abc import Sequence

from tasks.stages.validate.job import Check, Validation

_COLOUR = {"passed": "green", "failed": "bold red", "not run": "yellow"}


def plain(found: Validation) -> str:
    """What puts all of it in doubt; then a line a check: status, name, detail, and below a failure
    what to do.
    """
    doubts = [f"warning  {warning}" for warning in found.warnings]
    return "\n".join([*doubts, *rows(found.checks), summary(found)])


def rows(checks: Sequence[Check]) -> list[str]:
    """The lines of the checks alone."""
    width = max((len(check.name) for check in checks), default=0)
    return [line for check in checks for line in _lines(check, width)]


def _lines(check: Check, width: int) -> list[str]:
    remedy = [f"{'':9}{'':{width}}  → {check.remedy}"] if check.remedy else []
    return [f"{check.status:<8} {check.name:<{width}}  {check.detail}".rstrip(), *remedy]


def summary(found: Validation) -> str:
    """`torch 2.15.0+cu132: 9 passed, 0 failed, 3 not run`."""
    return f"torch {found.torch}: " + ", ".join(
        f"{number} {status}" for status, number in found.counts.items()
    )


def coloured(found: Validation, width: int) -> str:
    """The same for a terminal of `width` columns."""
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, show_header=False)
    for check in found.checks:
        table.add_row(_styled(check.status), check.name, _safe(_with_remedy(check)))
    console = Console(file=io.StringIO(), force_terminal=True, width=width)
    with console.capture() as captured:
        for warning in found.warnings:
            console.print(f"[bold yellow]warning[/]  {_safe(warning)}", highlight=False)
        console.print(table)
        console.print(summary(found), markup=False, highlight=False)
    return captured.get().rstrip("\n")


def _styled(status: str) -> str:
    return f"[{_COLOUR[status]}]{status}[/]"


def _safe(text: str) -> str:
    from rich.markup import escape  # noqa: PLC0415

    return escape(text)


def _with_remedy(check: Check) -> str:
    return f"{check.detail}\n→ {check.remedy}" if check.remedy else check.detail


def remedies(failed: Sequence[Check]) -> str:
    """What to do about the failures, each thing once."""
    return "; ".join(dict.fromkeys(check.remedy for check in failed if check.remedy))
