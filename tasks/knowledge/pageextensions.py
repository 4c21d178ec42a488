"""The part of docs/knowledge.md on extensions: each with its source and what its build needs. Pure.

The reasons are read from extensions.yaml as it is written: the facts hold only what a build needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tasks.knowledge import Knowledge
from tasks.knowledge.pagecards import format_evidence_mark

_EXTENSIONS_HEAD = """\
## Extensions that are known

Their name is enough: `extensions: [simple-knn]`. What a profile sets for one goes before what
stands here, key by key. A **✓** beside a name says that its setup.py was read; which of them were
built stands in `config/knowledge/extensions.yaml`.
"""
_COMPANIONS_HEAD = """\
## Companions of a torch

`companions: [torchvision, triton]` takes the wheel that is made for this torch where there is one,
and else builds it. Which goes with which torch stands in `config/knowledge/pytorch.yaml`.
"""
_CONDITION_LABELS = {
    "torch": "torch",
    "cuda": "CUDA",
    "system": "",
    "archs": "a card of",
    "python": "Python",
}


def render_extensions(knowledge: Knowledge) -> Iterator[str]:
    """Both sections, a subsection for each entry."""
    notes = knowledge.extension_notes
    yield _EXTENSIONS_HEAD
    for name, row in notes["extensions"].items():
        yield _render_extension(name, row)
    yield _COMPANIONS_HEAD
    for name, row in notes["companions"].items():
        yield _render_extension(name, row)


def _render_extension(name: str, row: Mapping[str, Any]) -> str:
    imports = ", ".join(f"`{module}`" for module in row["imports"])
    lines = [
        f"### {name} {format_evidence_mark(row['status'])}",
        "",
        f"{_format_source(row)}; imports {imports}.",
        "",
    ]
    lines += [f"- {line}" for line in _list_build_needs(row)]
    return "\n".join(lines).rstrip() + "\n"


def _format_source(row: Mapping[str, Any]) -> str:
    if "packages" in row:
        return " and ".join(f"`{name}` ({system})" for system, name in row["packages"].items())
    if "sdist" in row:
        return f"`{row['sdist']}` of PyPI"
    ref = row.get("ref", "the tag of its release")
    return f"<{row['git']}>" + ("" if ref == "HEAD" else f" at {ref}")


def _list_build_needs(row: Mapping[str, Any]) -> Iterator[str]:
    for each in row.get("force_include", ()):
        yield _format_note(each, f"`<{each['header']}>` before every source")
    for each in row.get("settings", ()):
        words = [*(f"{name}={value}" for name, value in each.get("env", {}).items())]
        options = [f"nvcc {option}" for option in each.get("nvcc", ())]
        named = ", ".join(f"`{word}`" for word in (*words, *options))
        yield _format_note(each, f"{named}{_format_conditions(each)}")
    if "archs" in row:
        yield _format_note(row["archs"], f"`{row['archs']['variable']}` from the targets")
    for each in row.get("requires", ()):
        yield _format_note(each, f"`{each['package']}` before the build")
    if "own_jobs" in row:
        yield _format_note(row["own_jobs"], "a number of jobs")
    if row.get("after"):
        yield f"After {', '.join(row['after'])}"
    yield from _list_notes(row)


def _list_notes(row: Mapping[str, Any]) -> Iterator[str]:
    for each in row.get("independent", ()):
        yield _format_note(
            each, f"`{each['wheel']}` with any torch {each['torch']}, CUDA {each['cuda']}"
        )
    for each in row.get("fails", ()):
        when = _format_conditions(each).removeprefix(" for ")
        yield f"{format_evidence_mark(each['status'])} **{when}**: {each['what']}. Way out: {each['fix']}"
    yield from (
        f"{format_evidence_mark(each['status'])} {each['text']}" for each in row["warnings"]
    )


def _format_note(each: Mapping[str, Any], what: str) -> str:
    return f"{format_evidence_mark(each['status'])} {what}: {each['why']}"


def _format_conditions(each: Mapping[str, Any]) -> str:
    """` for torch >=2.14, linux`; nothing where it is for all."""
    parts = [_format_condition(key, wanted) for key, wanted in each.get("when", {}).items()]
    return f" for {', '.join(parts)}" if parts else ""


def _format_condition(key: str, wanted: Any) -> str:
    if key == "cuda" and wanted == ">=0":
        return "CUDA builds"
    text = " or ".join(wanted) if isinstance(wanted, list) else wanted
    return f"{_CONDITION_LABELS.get(key, key)} {text}".strip()
