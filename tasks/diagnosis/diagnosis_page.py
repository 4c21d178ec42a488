"""Generate the page of known failures, with an example message for each regular expression.

An example is the text that the expression matches: `CUDA capability sm_0 is not compatible`. It has
the first of inner alternatives, "0" for digits and "…" for arbitrary text; of optional parts only
words are kept. Python's `re` parser reads the expression.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from tasks.knowledge import Knowledge
from tasks.knowledge.facts import Failure
from tasks.knowledge.knowledge_page import format_evidence_mark

_ELLIPSIS = "…"


def generate_examples(pattern: str) -> tuple[str, ...]:
    """Return example messages, one for each top-level alternative."""
    parser: Any = importlib.import_module("re._parser")  # sre_parse, which is not public
    parsed = list(parser.parse(pattern))
    alternatives = parsed[0][1][1] if _is_alternation(parsed) else [parsed]
    return tuple(_merge_ellipses("".join(map(_render_node, nodes))) for nodes in alternatives)


def _is_alternation(parsed: list[Any]) -> bool:
    return len(parsed) == 1 and str(parsed[0][0]) == "BRANCH"


def _merge_ellipses(told: str) -> str:
    while _ELLIPSIS * 2 in told:
        told = told.replace(_ELLIPSIS * 2, _ELLIPSIS)
    return told.strip()


def _render_node(node: Any) -> str:
    """Render one element: an operation and its argument."""
    kind, value = str(node[0]), node[1]
    match kind:
        case "LITERAL" | "ANY" | "NOT_LITERAL":
            return chr(value) if kind == "LITERAL" else _ELLIPSIS
        case "IN":
            return _render_set(value)
        case "BRANCH" | "SUBPATTERN":
            return "".join(map(_render_node, value[1][0] if kind == "BRANCH" else value[3]))
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            return _render_repeat(*value)
    return ""  # anchors and lookarounds


def _render_repeat(least: int, most: int, what: Any) -> str:
    text = "".join(map(_render_node, what))
    if text in {_ELLIPSIS, "0"}:
        return text if least or text == _ELLIPSIS else ""
    is_word = most == 1 and any(map(str.isalpha, text))
    return text * (least or is_word)


def _render_set(members: Any) -> str:
    kind, value = str(members[0][0]), members[0][1]
    if kind == "LITERAL":
        return chr(value)
    if kind == "CATEGORY" and str(value) == "CATEGORY_DIGIT":
        return "0"
    if kind == "CATEGORY" and str(value) == "CATEGORY_SPACE":
        return " "
    if kind == "RANGE":
        return "0" if chr(value[0]).isdigit() else _ELLIPSIS
    return _ELLIPSIS


_PAGE_HEAD = """\
# Known failures

<!-- Made of config/knowledge/failures.yaml: python -m tasks.cli.generated_files
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
    """Return the page as Markdown."""
    parts = [_PAGE_HEAD]
    for phase, title in _TITLES.items():
        parts.append(f"## {title}\n")
        failures = sorted(
            (one for one in knowledge.failures if one.phase == phase), key=lambda one: one.slug
        )
        for slug, entries in groupby(failures, key=lambda one: one.slug):
            parts.extend(_render_cause(slug, list(entries)))
    return "\n".join(parts)


def _render_cause(slug: str, entries: list[Failure]) -> Iterator[str]:
    yield f"### {slug}\n"
    for entry in entries:
        yield f"{_format_sentence(entry.cause)} {format_evidence_mark(entry.status)}\n"
        messages = dict.fromkeys(_list_messages(entry))
        yield "```text\n" + "".join(f"{line}\n" for line in messages) + "```\n"
        yield f"**Do:** {_escape_markdown(entry.remedy)}.{_format_auto_fix(entry)}\n"
        notes = [_RANKS.get(entry.rank, ""), "Windows only." if entry.platform else ""]
        if any(notes):
            yield f"*{' '.join(filter(None, notes))}*\n"


def _format_sentence(cause: str) -> str:
    return f"{_escape_markdown(cause[0].upper() + cause[1:])}."


def _escape_markdown(told: str) -> str:
    """Escape the characters that Markdown would interpret."""
    return told.replace("<", "&lt;").replace("*", "\\*")


def _list_messages(entry: Failure) -> Iterator[str]:
    for pattern in entry.patterns:
        yield from generate_examples(pattern)
    for pattern in entry.headers:
        for header in generate_examples(pattern):
            yield f"fatal error: {header}: No such file or directory"


def _format_auto_fix(entry: Failure) -> str:
    if not entry.auto_fix:
        return ""
    kind, _, header = entry.auto_fix.partition(" ")
    action = f"forces `#include <{header}>` in" if header else _AUTO_FIXES[kind]
    return f" With `build.auto_fix: true` a build {action}, once."
