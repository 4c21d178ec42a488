"""docs/knowledge.md: the facts as a page that a person reads, "which CUDA for my card?" first.

`python -m tasks.knowledge.page > docs/knowledge.md` writes it; a test keeps it fresh. Nothing here
is a fact: each stands in config/knowledge, with its evidence. Pure.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tasks.core.model import Arch
from tasks.knowledge import Knowledge, load_knowledge
from tasks.knowledge.facts import KnownBad
from tasks.knowledge.gpus import shorten_gpu_name
from tasks.knowledge.pagecards import (
    format_evidence_mark,
    format_markdown_table,
    render_generations,
)
from tasks.knowledge.pageextensions import render_extensions

_PAGE_HEAD = """\
# Which CUDA for my card?

<!-- Made of config/knowledge: python -m tasks.knowledge.page > docs/knowledge.md.
     Change the facts, not this page. -->

Find your card by its generation. What counts is its *capability*: CUDA and torch hold code for
capabilities, not for names. `doit settings` tells what a profile makes of it, and `doit doctor`
what this machine has.

**✓** Somebody opened the file, ran the program or read the vendor's page.
**?** Nobody did: it is inferred or reported.
How each fact is known stands beside it in `config/knowledge`. They are as of {date}.
"""
_DRIVER_SECTION = """\
## Drivers

A driver has to know the card: *its driver* above came with the first CUDA that does.
It also has to know the CUDA that torch was built with. {floors} {mark}
"""
_LEVEL_TITLES = {
    "error": "It will not build",
    "warning": "It may not build, or only with the way out",
    "info": "It builds: worth knowing",
}


def render_page(knowledge: Knowledge) -> str:
    """The page."""
    parts = [
        _PAGE_HEAD.format(date=knowledge.pytorch_notes["compiled"]["date"]),
        *_render_recommendations(knowledge),
        *render_generations(knowledge),
        *_render_binary_rules(knowledge),
        _render_drivers(knowledge),
        *_render_toolkits(knowledge),
        *render_extensions(knowledge),
        *_render_mirrors(knowledge),
        *_render_known_bad(knowledge),
        *_render_misleading_names(knowledge),
    ]
    return "\n".join(parts)


def _render_recommendations(knowledge: Knowledge) -> Iterator[str]:
    yield "## In short\n"
    yield format_markdown_table(
        ("card", "arch list", "CUDA", "torch", ""),
        (
            (
                *(row.get(key, "–") for key in ("gpu", "arch_list", "cuda", "torch")),
                format_evidence_mark(row["status"]),
            )
            for row in knowledge.toolkit_notes["recommendations"]
        ),
    )


def _render_drivers(knowledge: Knowledge) -> str:
    rows = dict(knowledge.toolkit_notes["driver_floor"])
    status = rows.pop("status")
    floors = " ".join(f"CUDA {major}: {floor} or later." for major, floor in rows.items())
    return _DRIVER_SECTION.format(floors=floors, mark=format_evidence_mark(status))


def _render_toolkits(knowledge: Knowledge) -> Iterator[str]:
    yield "## Toolkits and compilers\n"
    yield (
        "GCC and clang are the newest that nvcc takes; `_MSC_VER` is the range. "
        f"{knowledge.toolkit_notes['msvc_versions']['text'].split('. ')[0]}.\n"
        "Where PyPI has the toolkit, nothing needs to be installed on the system.\n"
    )
    head = ("CUDA", "new", "gone", "GCC", "clang", "`_MSC_VER`", "driver: Linux", "Windows")
    yield format_markdown_table((*head, "PyPI"), _list_toolkit_rows(knowledge))
    for row in knowledge.toolkit_notes["never_shipped"]:
        yield f"CUDA {row['cuda']}: {row['text']} {format_evidence_mark(row['status'])}\n"


def _list_toolkit_rows(knowledge: Knowledge) -> Iterator[tuple[str, ...]]:
    before: set[Arch] | None = None
    for cuda, kit in knowledge.toolkits.items():
        plain = {arch for arch in kit.makes if not arch.suffix}
        row = knowledge.toolkit_notes["releases"][cuda]
        drivers = [
            f"{kit.driver[system]} {format_evidence_mark(row['driver']['status'])}"
            if kit.driver[system]
            else "–"
            for system in ("linux", "windows")
        ]
        yield (
            f"**{cuda}** {format_evidence_mark(kit.status)}",
            _format_archs(plain - before)
            if before is not None
            else f"{min(plain)} to {max(plain)}",
            _format_archs(before - plain) if before is not None else "–",
            str(kit.gcc_max),
            str(kit.clang_max),
            f"{kit.msvc[0]}–{kit.msvc[1] - 1}",
            *drivers,
            f"{'yes' if kit.pypi else 'no'} {format_evidence_mark(row['pypi_status'])}",
        )
        before = plain


def _format_archs(archs: Iterable[Arch]) -> str:
    return ", ".join(map(str, sorted(archs))) or "–"


def _render_binary_rules(knowledge: Knowledge) -> Iterator[str]:
    yield "## Which code runs on which card\n"
    rules = knowledge.toolkit_notes["binary_rules"]
    yield "".join(f"- {format_evidence_mark(row['status'])} {row['rule']}\n" for row in rules)


def _render_mirrors(knowledge: Knowledge) -> Iterator[str]:
    yield "## Mirrors\n"
    yield (
        "`mirrors: [sjtu]` has one asked in the place of the index it mirrors "
        "([offline.md](offline.md)).\nWhat is built stays the same. No address was fetched here.\n"
    )
    yield format_markdown_table(
        ("name", "who", "for", "asked instead", ""),
        (
            (
                f"`{one.name}`",
                one.who,
                f"`{prefix}…`",
                f"`{place}…`",
                format_evidence_mark(one.status),
            )
            for one in knowledge.mirrors.values()
            for prefix, place in one.instead.items()
        ),
    )


def _render_known_bad(knowledge: Knowledge) -> Iterator[str]:
    yield "## Known not to work\n"
    for level, title in _LEVEL_TITLES.items():
        found = [bad for bad in knowledge.known_bad if bad.level == level]
        if found:
            yield f"### {title}\n"
            yield "".join(map(_render_known_bad_item, found))


def _render_known_bad_item(bad: KnownBad) -> str:
    lines = [f"- **{bad.id}** {format_evidence_mark(bad.status)} {bad.what}"]
    lines += [f"  - Symptom: {bad.symptom}"] if bad.symptom else []
    lines += [f"  - Way out: {bad.fix}"]
    return "".join(f"{line}\n" for line in lines)


def _render_misleading_names(knowledge: Knowledge) -> Iterator[str]:
    yield "## Names that mislead\n"
    yield format_markdown_table(
        ("name", "capability", "why", ""),
        (
            (
                ", ".join(map(shorten_gpu_name, row["names"])),
                ", ".join(row["cc"]),
                row["why"],
                format_evidence_mark(row["status"]),
            )
            for row in knowledge.gpu_notes["traps"]
        ),
    )
    yield "## Cards that no toolkit makes code for any more\n"
    yield format_markdown_table(
        ("name", "capability", "generation", "last CUDA", ""),
        (
            (
                ", ".join(row["names"]),
                row["cc"],
                row["generation"],
                row["last_toolkit"],
                format_evidence_mark(row["status"]),
            )
            for row in knowledge.gpu_notes["too_old"]
        ),
    )
    yield "## What is told, and wrong\n"
    yield format_markdown_table(
        ("told", "true", ""),
        (
            (row["claim"], row["truth"], format_evidence_mark(row["status"]))
            for row in knowledge.gpu_notes["contradictions_settled"]
        ),
    )


if __name__ == "__main__":
    page = render_page(load_knowledge(Path(__file__).parents[2] / "config" / "knowledge"))
    sys.stdout.buffer.write(page.encode())  # whatever a terminal or a pipe is in otherwise
