"""Render docs/knowledge.md, the facts as a page: "which CUDA for my card?" comes first.

`python -m tasks.cli.generated_files` writes it; a test checks that it is current. This module has
no facts: each is in config/knowledge, with its evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tasks.core.model import Arch
from tasks.knowledge import Knowledge
from tasks.knowledge.facts import KnownBad, OfficialWheel, Release
from tasks.knowledge.gpus import shorten_gpu_name
from tasks.knowledge.machine_code_rules import classify_compatibility
from tasks.knowledge.versions import parse_major_minor

Platform = tuple[str, str]  # a system and a machine


def format_evidence_mark(status: str) -> str:
    """Return the mark for verified or unverified facts."""
    return "✓" if status.startswith("verified") else "?"


def format_markdown_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    first = list(head)
    lines = [first, ["---"] * len(first), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def render_generations(knowledge: Knowledge) -> Iterator[str]:
    """Yield a section for each GPU generation, newest first.

    A section has a table of capabilities, and a folded list of GPUs.
    """
    for family in reversed(knowledge.families):
        archs = sorted(family.archs, reverse=True)
        yield f"## {family.name} {format_evidence_mark(family.status)}\n"
        yield format_markdown_table(
            ("capability", "CUDA", "its driver", "first torch", "Linux", "Windows", "Linux on ARM"),
            (_build_capability_row(knowledge, arch) for arch in archs),
        )
        cards = [folded for arch in archs if (folded := _render_gpu_list(knowledge, arch))]
        yield from cards or ["No card of it is among these facts.\n"]


def _build_capability_row(knowledge: Knowledge, arch: Arch) -> tuple[str, ...]:
    board = arch in knowledge.binary_rules.integrated
    desk = ("linux", "x86_64"), ("windows", "x86_64")
    arm = ("linux", "aarch64")
    return (
        f"**{arch}** `{arch.sm}`",
        _format_toolkit_range(knowledge, arch),
        _format_first_driver(knowledge, arch),
        _format_first_wheel(knowledge, arch, arm if board else desk[0]),
        *("–" if board else _format_newest_wheel(knowledge, arch, place) for place in desk),
        _format_newest_wheel(knowledge, arch, arm),
    )


def _format_toolkit_range(knowledge: Knowledge, arch: Arch) -> str:
    """Format the toolkits for an arch: `12.8 ✓ and later`, `11.8 or before, to 12.9 ✓`."""
    able = [cuda for cuda, kit in knowledge.toolkits.items() if arch in kit.makes]
    first = knowledge.toolkit_notes["first_toolkit"].get(str(arch))
    begin = (
        f"{first['cuda']} {format_evidence_mark(first['status'])}"
        if first
        else f"{able[0]} or before"
    )
    if able[-1] == list(knowledge.toolkits)[-1]:
        return f"{begin} and later"
    return f"{begin}, to {able[-1]} {format_evidence_mark(knowledge.toolkits[able[-1]].status)}"


def _format_first_driver(knowledge: Knowledge, arch: Arch) -> str:
    """Return the driver that came with the first CUDA for the arch, for Linux and for Windows."""
    first = knowledge.toolkit_notes["first_toolkit"].get(str(arch), {}).get("cuda", "")
    row = knowledge.toolkit_notes["releases"].get(first, {}).get("driver")
    if not row or not row["linux"]:
        return "–"
    windows = f", Windows {row['windows']}" if row["windows"] else ""
    return f"{row['linux']}{windows} {format_evidence_mark(row['status'])}"


def _format_first_wheel(knowledge: Knowledge, arch: Arch, place: Platform) -> str:
    found = next(_list_fitting_wheels(knowledge, arch, place), None)
    return f"{found[0].minor}, {_format_wheel_index(found[1], arch)}" if found else "none"


def _format_newest_wheel(knowledge: Knowledge, arch: Arch, place: Platform) -> str:
    found = list(_list_fitting_wheels(knowledge, arch, place))
    return f"{found[-1][0].patch}, {_format_wheel_index(found[-1][1], arch)}" if found else "none"


def _list_fitting_wheels(
    knowledge: Knowledge, arch: Arch, place: Platform
) -> Iterator[tuple[Release, OfficialWheel]]:
    """Yield each release with its wheel for that GPU: PyPI's, else that of the newest CUDA."""
    for release in knowledge.releases.values():
        fit = [
            wheel
            for wheel in release.wheels
            if (wheel.system, wheel.machine) == place
            and classify_compatibility(knowledge, wheel.code, arch, maker=wheel.cuda)
            in {"native", "compatible"}
        ]
        if fit:
            yield release, max(fit, key=lambda wheel: (wheel.pypi, parse_major_minor(wheel.cuda)))


def _format_wheel_index(wheel: OfficialWheel, arch: Arch) -> str:
    """Format the index of a wheel and the code that the GPU runs.

    For example `PyPI (13.2) ✓`, `cu128 by sm_120 ?`.
    """
    index = f"PyPI ({wheel.cuda})" if wheel.pypi else f"cu{wheel.cuda.replace('.', '')}"
    held = [code for code in wheel.code.cubins if code.major == arch.major and code <= arch]
    other = "" if arch in held or not held else f" by `{max(held).sm}`"
    return f"{index}{other} {format_evidence_mark(wheel.status)}"


def _render_gpu_list(knowledge: Knowledge, arch: Arch) -> str:
    found = [gpu for gpu in knowledge.gpus if gpu.arch == arch]
    if not found:
        return ""
    names = " · ".join(
        f"{shorten_gpu_name(gpu.name)} {format_evidence_mark(gpu.status)}" for gpu in found
    )
    count = f"{len(found)} cards" if len(found) > 1 else "one card"
    return f"<details><summary>{arch}: {count}</summary>\n\n{names}\n\n</details>\n"


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
    """Yield both sections, with a subsection for each entry."""
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
        yield (
            f"{format_evidence_mark(each['status'])} **{when}**: {each['what']}. Way out: "
            f"{each['fix']}"
        )
    yield from (
        f"{format_evidence_mark(each['status'])} {each['text']}" for each in row["warnings"]
    )


def _format_note(each: Mapping[str, Any], what: str) -> str:
    return f"{format_evidence_mark(each['status'])} {what}: {each['why']}"


def _format_conditions(each: Mapping[str, Any]) -> str:
    """Format the conditions, ` for torch >=2.14, linux`; "" without conditions."""
    parts = [_format_condition(key, wanted) for key, wanted in each.get("when", {}).items()]
    return f" for {', '.join(parts)}" if parts else ""


def _format_condition(key: str, wanted: Any) -> str:
    if key == "cuda" and wanted == ">=0":
        return "CUDA builds"
    text = " or ".join(wanted) if isinstance(wanted, list) else wanted
    return f"{_CONDITION_LABELS.get(key, key)} {text}".strip()


_PAGE_HEAD = """\
# Which CUDA for my card?

<!-- Made of config/knowledge: python -m tasks.cli.generated_files
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
    """Return the page."""
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
