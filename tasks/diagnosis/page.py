"""docs/diagnosis.md: every failure that is known, as a page that a person searches with words of a
log: what is seen, why, what to do.

`python -m tasks.diagnosis.page > docs/diagnosis.md` writes it; a test keeps it fresh. Nothing here
is a fact: each stands in config/knowledge/failures.yaml. Pure.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from tasks.diagnosis.wording import generate_examples
from tasks.knowledge import Knowledge, load_knowledge
from tasks.knowledge.facts import Failure
from tasks.knowledge.pagecards import format_evidence_mark

_PAGE_HEAD = """\
# Known failures

<!-- Made of config/knowledge/failures.yaml: python -m tasks.diagnosis.page > docs/diagnosis.md.
     Change the facts, not this page. -->

`doit diagnose` finds the cause in the log of your last build, and says what to do in the words of
your machine and profile. `doit diagnose --log FILE` does it for any log. By hand: search this page
for a word of the message.

`…` stands for anything, `0` for any number. **✓** Somebody saw this text come of this cause.
**?** Nobody did: it is reported or inferred. An id is what reports and `validate.json` carry.
"""
_TITLES = {
    "run": "When torch, or an extension, is used",
    "build": "When something is made",
}
_RANKS = {
    "consequence": "Told only where no cause is found: it follows from something earlier.",
    "notice": "A build may go on after it: told only where the log ends with it.",
    "hint": "A candidate, never told as the cause.",
    "rest": "What is left of a log without its cause.",
}
_AUTO_FIXES = {
    "fewer-jobs": "tries again with half the jobs",
    "submodules": "brings the submodules along",
    "no-build-isolation": "builds without isolation",
}


def render_diagnosis_page(knowledge: Knowledge) -> str:
    """The page."""
    parts = [_PAGE_HEAD]
    for phase, title in _TITLES.items():
        parts.append(f"## {title}\n")
        of_phase = sorted(
            (one for one in knowledge.failures if one.phase == phase), key=lambda one: one.slug
        )
        for slug, entries in groupby(of_phase, key=lambda one: one.slug):
            parts.extend(_render_cause(slug, list(entries)))
    return "\n".join(parts)


def _render_cause(slug: str, entries: list[Failure]) -> Iterator[str]:
    yield f"### {slug}\n"
    for entry in entries:
        yield f"{_format_sentence(entry.cause)} {format_evidence_mark(entry.status)}\n"
        told = dict.fromkeys(_list_messages(entry))
        yield "```text\n" + "".join(f"{line}\n" for line in told) + "```\n"
        yield f"**Do:** {_escape_markdown(entry.remedy)}.{_format_auto_fix(entry)}\n"
        notes = [_RANKS.get(entry.rank, ""), "Windows only." if entry.platform else ""]
        if any(notes):
            yield f"*{' '.join(filter(None, notes))}*\n"


def _format_sentence(cause: str) -> str:
    return f"{_escape_markdown(cause[0].upper() + cause[1:])}."


def _escape_markdown(told: str) -> str:
    """Text that Markdown takes for nothing else."""
    return told.replace("<", "&lt;").replace("*", "\\*")


def _list_messages(entry: Failure) -> Iterator[str]:
    for pattern in entry.patterns:
        yield from generate_examples(pattern)
    for pattern in entry.headers:
        for header in generate_examples(pattern):
            yield f"fatal error: {header}: No such file or directory"


def _format_auto_fix(entry: Failure) -> str:
    if not entry.heal:
        return ""
    kind, _, header = entry.heal.partition(" ")
    what = f"forces `#include <{header}>` in" if header else _AUTO_FIXES[kind]
    return f" With `build.heal: true` a build {what}, once."


if __name__ == "__main__":
    page = render_diagnosis_page(load_knowledge(Path(__file__).parents[2] / "config" / "knowledge"))
    sys.stdout.buffer.write(page.encode())  # whatever a terminal or a pipe is in otherwise
