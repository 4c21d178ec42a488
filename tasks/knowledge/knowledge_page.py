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
    header = list(head)
    table_rows = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in table_rows)


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
        gpu_lists = [gpu_list for arch in archs if (gpu_list := _render_gpu_list(knowledge, arch))]
        yield from gpu_lists or ["No card of it is among these facts.\n"]


def _build_capability_row(knowledge: Knowledge, arch: Arch) -> tuple[str, ...]:
    is_integrated = arch in knowledge.binary_rules.integrated
    desktops = ("linux", "x86_64"), ("windows", "x86_64")
    arm = ("linux", "aarch64")
    return (
        f"**{arch}** `{arch.sm}`",
        _format_toolkit_range(knowledge, arch),
        _format_first_driver(knowledge, arch),
        _format_first_wheel(knowledge, arch, arm if is_integrated else desktops[0]),
        *(
            "–" if is_integrated else _format_newest_wheel(knowledge, arch, platform)
            for platform in desktops
        ),
        _format_newest_wheel(knowledge, arch, arm),
    )


def _format_toolkit_range(knowledge: Knowledge, arch: Arch) -> str:
    """Format the toolkits for an arch: `12.8 ✓ and later`, `11.8 or before, to 12.9 ✓`."""
    capable = [cuda for cuda, toolkit in knowledge.toolkits.items() if arch in toolkit.makes]
    first = knowledge.toolkit_notes["first_toolkit"].get(str(arch))
    start = (
        f"{first['cuda']} {format_evidence_mark(first['status'])}"
        if first
        else f"{capable[0]} or before"
    )
    if capable[-1] == list(knowledge.toolkits)[-1]:
        return f"{start} and later"
    return (
        f"{start}, to {capable[-1]} {format_evidence_mark(knowledge.toolkits[capable[-1]].status)}"
    )


def _format_first_driver(knowledge: Knowledge, arch: Arch) -> str:
    """Return the driver that came with the first CUDA for the arch, for Linux and for Windows."""
    first_cuda = knowledge.toolkit_notes["first_toolkit"].get(str(arch), {}).get("cuda", "")
    driver = knowledge.toolkit_notes["releases"].get(first_cuda, {}).get("driver")
    if not driver or not driver["linux"]:
        return "–"
    windows = f", Windows {driver['windows']}" if driver["windows"] else ""
    return f"{driver['linux']}{windows} {format_evidence_mark(driver['status'])}"


def _format_first_wheel(knowledge: Knowledge, arch: Arch, place: Platform) -> str:
    first = next(_list_fitting_wheels(knowledge, arch, place), None)
    return f"{first[0].minor}, {_format_wheel_index(first[1], arch)}" if first else "none"


def _format_newest_wheel(knowledge: Knowledge, arch: Arch, place: Platform) -> str:
    wheels = list(_list_fitting_wheels(knowledge, arch, place))
    return (
        f"{wheels[-1][0].patch}, {_format_wheel_index(wheels[-1][1], arch)}" if wheels else "none"
    )


def _list_fitting_wheels(
    knowledge: Knowledge, arch: Arch, place: Platform
) -> Iterator[tuple[Release, OfficialWheel]]:
    """Yield each release with its wheel for that GPU: PyPI's, else that of the newest CUDA."""
    for release in knowledge.releases.values():
        fitting = [
            wheel
            for wheel in release.wheels
            if (wheel.system, wheel.machine) == place
            and classify_compatibility(knowledge, wheel.code, arch, maker=wheel.cuda)
            in {"native", "compatible"}
        ]
        if fitting:
            yield (
                release,
                max(fitting, key=lambda wheel: (wheel.pypi, parse_major_minor(wheel.cuda))),
            )


def _format_wheel_index(wheel: OfficialWheel, arch: Arch) -> str:
    """Format the index of a wheel and the code that the GPU runs.

    For example `PyPI (13.2) ✓`, `cu128 by sm_120 ?`.
    """
    index = f"PyPI ({wheel.cuda})" if wheel.pypi else f"cu{wheel.cuda.replace('.', '')}"
    runnable = [code for code in wheel.code.cubins if code.major == arch.major and code <= arch]
    cubin_note = "" if arch in runnable or not runnable else f" by `{max(runnable).sm}`"
    return f"{index}{cubin_note} {format_evidence_mark(wheel.status)}"


def _render_gpu_list(knowledge: Knowledge, arch: Arch) -> str:
    gpus = [gpu for gpu in knowledge.gpus if gpu.arch == arch]
    if not gpus:
        return ""
    names = " · ".join(
        f"{shorten_gpu_name(gpu.name)} {format_evidence_mark(gpu.status)}" for gpu in gpus
    )
    count = f"{len(gpus)} cards" if len(gpus) > 1 else "one card"
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
    for entry in row.get("force_include", ()):
        yield _format_note(entry, f"`<{entry['header']}>` before every source")
    for entry in row.get("settings", ()):
        variables = [*(f"{name}={value}" for name, value in entry.get("env", {}).items())]
        options = [f"nvcc {option}" for option in entry.get("nvcc", ())]
        names = ", ".join(f"`{word}`" for word in (*variables, *options))
        yield _format_note(entry, f"{names}{_format_conditions(entry)}")
    if "archs" in row:
        yield _format_note(row["archs"], f"`{row['archs']['variable']}` from the targets")
    for entry in row.get("requires", ()):
        yield _format_note(entry, f"`{entry['package']}` before the build")
    if "own_jobs" in row:
        yield _format_note(row["own_jobs"], "a number of jobs")
    if row.get("after"):
        yield f"After {', '.join(row['after'])}"
    yield from _list_notes(row)


def _list_notes(row: Mapping[str, Any]) -> Iterator[str]:
    for entry in row.get("independent", ()):
        yield _format_note(
            entry, f"`{entry['wheel']}` with any torch {entry['torch']}, CUDA {entry['cuda']}"
        )
    for entry in row.get("fails", ()):
        conditions = _format_conditions(entry).removeprefix(" for ")
        yield (
            f"{format_evidence_mark(entry['status'])} **{conditions}**: {entry['what']}. Way out: "
            f"{entry['fix']}"
        )
    yield from (
        f"{format_evidence_mark(entry['status'])} {entry['text']}" for entry in row["warnings"]
    )


def _format_note(each: Mapping[str, Any], what: str) -> str:
    return f"{format_evidence_mark(each['status'])} {what}: {each['why']}"


def _format_conditions(each: Mapping[str, Any]) -> str:
    """Format the conditions, ` for torch >=2.14, linux`; "" without conditions."""
    parts = [
        _format_condition(key, requirement) for key, requirement in each.get("when", {}).items()
    ]
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
    previous: set[Arch] | None = None
    for cuda, toolkit in knowledge.toolkits.items():
        archs = {arch for arch in toolkit.makes if not arch.suffix}
        row = knowledge.toolkit_notes["releases"][cuda]
        drivers = [
            f"{toolkit.driver[system]} {format_evidence_mark(row['driver']['status'])}"
            if toolkit.driver[system]
            else "–"
            for system in ("linux", "windows")
        ]
        yield (
            f"**{cuda}** {format_evidence_mark(toolkit.status)}",
            _format_archs(archs - previous)
            if previous is not None
            else f"{min(archs)} to {max(archs)}",
            _format_archs(previous - archs) if previous is not None else "–",
            str(toolkit.gcc_max),
            str(toolkit.clang_max),
            f"{toolkit.msvc[0]}–{toolkit.msvc[1] - 1}",
            *drivers,
            f"{'yes' if toolkit.pypi else 'no'} {format_evidence_mark(row['pypi_status'])}",
        )
        previous = archs


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
                f"`{mirror.name}`",
                mirror.who,
                f"`{prefix}…`",
                f"`{replacement}…`",
                format_evidence_mark(mirror.status),
            )
            for mirror in knowledge.mirrors.values()
            for prefix, replacement in mirror.instead.items()
        ),
    )


def _render_known_bad(knowledge: Knowledge) -> Iterator[str]:
    yield "## Known not to work\n"
    for level, title in _LEVEL_TITLES.items():
        entries = [bad for bad in knowledge.known_bad if bad.level == level]
        if entries:
            yield f"### {title}\n"
            yield "".join(map(_render_known_bad_item, entries))


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
