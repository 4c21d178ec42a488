"""Generate the page of known failures, with an example message for each regular expression.

In an example such as `CUDA capability sm_0 is not compatible`, "0" stands for a digit and "…" for
any text.
"""

import importlib
import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from tasks.diagnosis.diagnosis_text import find_placeholders
from tasks.knowledge import Knowledge
from tasks.knowledge.facts import Failure
from tasks.knowledge.knowledge_page import format_evidence_mark

_ELLIPSIS = "…"


def generate_examples(pattern: str) -> tuple[str, ...]:
    """Return example messages for a regular expression, one for each top-level alternative."""
    parser: Any = importlib.import_module("re._parser")  # sre_parse, which is not public
    parsed = list(parser.parse(pattern))
    is_alternation = len(parsed) == 1 and str(parsed[0][0]) == "BRANCH"
    alternatives = parsed[0][1][1] if is_alternation else [parsed]
    texts = ("".join(map(_render_node, nodes)) for nodes in alternatives)
    return tuple(re.sub(f"{_ELLIPSIS}+", _ELLIPSIS, text).strip() for text in texts)


def _render_node(node: Any) -> str:
    """Return example text for a node of a parsed expression: an operation and its argument."""
    kind, value = str(node[0]), node[1]
    match kind:
        case "LITERAL" | "ANY" | "NOT_LITERAL":
            return chr(value) if kind == "LITERAL" else _ELLIPSIS
        case "IN":
            return _render_set(*value[0])
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


def _render_set(kind: Any, value: Any) -> str:
    match str(kind):
        case "LITERAL":
            return chr(value)
        case "CATEGORY":
            return {"CATEGORY_DIGIT": "0", "CATEGORY_SPACE": " "}.get(str(value), _ELLIPSIS)
        case "RANGE" if chr(value[0]).isdigit():
            return "0"
    return _ELLIPSIS


_PAGE_HEAD = """\
# Known failures

<!-- Made of config/knowledge/failures.yaml: python -m tasks.cli.generated_files
     Change the facts, not this page. -->

`doit diagnose` finds the cause in the log of your last build, and prints the remedy for your
machine and profile. `doit diagnose --log FILE` finds the cause in any log, and prints commands of
pip, conda and CMake. Without torchyard, search this page for a word of the message.

Where no known failure fits, the diagnosis names the *kind* of the first error, with what the
names in its line say: which package has a missing header, whose an undefined symbol is, which torch
last had a name ([why](adr/0041-kinds-of-errors.md)).

`…` stands for any text, `0` for any number. **✓** We saw this cause print this message. **?** The
message is reported or inferred. Reports and `validate.json` name the cause by the title below.

## How often it is right

Independent examiners collected logs, and labelled each before the tool saw it. Others judged the
answers. "Right" means the true cause, and a step that leads to the fix. The last column has false
alarms in logs of builds that went well. Up to the seventh round the logs are of public threads. For
the eighth and ninth they were written after threads, or made on a Linux machine. Those of the last
five are real logs that people keep in public repositories: in notes, READMEs and log files.

| logs (November 2026) | right | vague | silent | wrong | first error | false alarms |
|---|---|---|---|---|---|---|
| 143, of the kinds that the rules were written for | 87 % | | | | | 0 in 25 |
| 69 with more variety, before there were kinds | 42 % | 12 % | 38 % | 9 % | 91 % | 3 in 12 |
| 90 others, with kinds: first round | 76 % | 8 % | 7 % | 10 % | 98 % | 0 in 26 |
| 72 others: second round, after corrections | 71 % | 14 % | 8 % | 7 % | 93 % | 2 in 21 |
| 80 others: third round, after corrections | 74 % | 10 % | 6 % | 10 % | 95 % | 0 in 21 |
| 80 others: fourth round, after corrections | 73 % | 21 % | 0 % | 6 % | 93 % | 0 in 25 |
| 49 others: fifth round, amid corrections | 76 % | 8 % | 2 % | 14 % | 98 % | |
| 80 others: sixth round, after corrections | 79 % | 8 % | 4 % | 9 % | 96 % | 1 in 37 |
| 90 others: seventh round, after corrections | 83 % | 9 % | 1 % | 7 % | 94 % | 1 in 27 |
| 92 others: eighth round, after corrections | 86 % | 5 % | 0 % | 9 % | 98 % | 2 in 28 |
| 145 others: ninth round, after corrections | 81 % | 6 % | 3 % | 10 % | 94 % | 1 in 42 |
| 108 real ones of repositories: tenth round | 62 % | 18 % | 7 % | 13 % | 91 % | 5 in 27 |
| 109 less usual ones: eleventh round, corrected | 49 % | 14 % | 17 % | 19 % | 91 % | 1 in 27 |
| 44 usual ones: twelfth round, corrected | 66 % | 20 % | 5 % | 9 % | 91 % | |
| 89 usual ones: thirteenth round, corrected | 70 % | 11 % | 3 % | 16 % | 90 % | 1 in 26 |
| 59 usual ones: fourteenth round, corrected | 64 % | 20 % | 7 % | 9 % | 87 % | 0 in 16 |

Where it said anything, it was right in 81, 77, 79, 73, 77, 82, 84, 86, 84, 67, 59, 69, 73 and 69 %
of the rounds. Since the sixth, two judges rated each log, and the table has their mean. Logs that
were written after threads are easier than real ones, which are often wrapped, truncated or in other
languages, with the cause far above the last line. The examiners of the eleventh round passed over
messages that had been used before; those of the last three took what is common. Expect a right
answer for two thirds of usual failures, and for half of the others. What the last rounds showed to
be wrong is corrected since.
"""
_TITLES = {
    "run": "While torch or an extension is used",
    "build": "While torch or an extension is built",
}
_RANKS = {
    "consequence": "A consequence of an earlier failure: named only if no cause is found.",
    "notice": "A build may continue after this message: named only if the log ends with it.",
    "hint": "Only a candidate, never named as the cause.",
    "rest": "The end of a log that lacks the cause.",
}
_AUTO_FIXES = {
    "fewer-jobs": "halves the jobs",
    "submodules": "fetches the submodules",
    "no-build-isolation": "disables build isolation",
}


def render_diagnosis_page(knowledge: Knowledge) -> str:
    """Return the page of known failures as Markdown."""
    parts = [_PAGE_HEAD]
    by_slug = sorted(knowledge.failures, key=lambda one: one.slug)
    for phase, title in _TITLES.items():
        parts.append(f"## {title}\n")
        failures = (one for one in by_slug if one.phase == phase)
        for slug, entries in groupby(failures, key=lambda one: one.slug):
            parts.extend(_render_cause(slug, list(entries)))
    return "\n".join(parts)


def _render_cause(slug: str, entries: list[Failure]) -> Iterator[str]:
    yield f"### {slug}\n"
    for entry in entries:
        cause = _escape_markdown(entry.cause[0].upper() + entry.cause[1:])
        yield f"{cause}. {format_evidence_mark(entry.status)}\n"
        messages = [text for pattern in entry.patterns for text in generate_examples(pattern)]
        headers = (name for pattern in entry.headers for name in generate_examples(pattern))
        messages += [f"fatal error: {name}: No such file or directory" for name in headers]
        yield "```text\n" + "".join(f"{line}\n" for line in dict.fromkeys(messages)) + "```\n"
        steps = (_escape_markdown(one[0].upper() + one[1:]) for one in entry.remedy)
        yield "**Do:**\n\n" + "".join(f"- {one}.\n" for one in steps)
        if own := _format_own_remedy(entry):
            yield f"{own}\n"
        notes = [_RANKS.get(entry.rank, ""), "Windows only." if entry.platform else ""]
        if any(notes):
            yield f"*{' '.join(filter(None, notes))}*\n"


def _escape_markdown(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*")


def _format_own_remedy(entry: Failure) -> str:
    """Return what to do in a build of torchyard, "" if it is the same."""
    texts = [one for one in entry.here if not find_placeholders(one)]
    parts = [f"With torchyard: {_escape_markdown(one)}." for one in texts]
    if entry.auto_fix:
        kind, _, header = entry.auto_fix.partition(" ")
        action = f"force-includes `<{header}>`" if header else _AUTO_FIXES[kind]
        parts.append(f"With `build.auto_fix: true`, a build {action} and tries again once.")
    return " ".join(parts)
