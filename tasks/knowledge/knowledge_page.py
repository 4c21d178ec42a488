"""Render docs/knowledge.md from config/knowledge (python -m tasks.cli.generated_files)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tasks.core.model import Arch
from tasks.knowledge import Knowledge
from tasks.knowledge.gpus import shorten_gpu_name
from tasks.knowledge.torch_releases import list_uncovered_archs
from tasks.knowledge.versions import parse_major_minor

Row = Mapping[str, Any]

_PAGE_HEAD = """\
# Which CUDA for my card?

<!-- Generated from config/knowledge: python -m tasks.cli.generated_files
     Change the facts, not this page. -->

Find your GPU by its generation. Its *compute capability* decides: CUDA and torch contain code for
capabilities, not for product names. `doit settings` shows what torchyard chooses for a profile,
and `doit doctor` shows what your machine has.

**✓** Verified: someone opened the file, ran the program or read the vendor's page.
**?** Not verified: the fact is inferred or reported.
`config/knowledge` has the evidence of each fact. The facts are as of {date}.
"""
_DRIVER_SECTION = """\
## Drivers

A driver must support the GPU: *its driver* above came with the first CUDA that supports it.
The driver must also support the CUDA that torch was built with. {floors} {mark}
"""
_TOOLKIT_SECTION = """\
## Toolkits and compilers

The GCC and clang columns are the newest version that nvcc accepts; `_MSC_VER` is the accepted
range. {msvc}.
If PyPI has the toolkit, you need not install it on the system.
"""
_EXTENSIONS_HEAD = """\
## Extensions that are known

The name is enough: `extensions: [simple-knn]`. A key that the profile sets replaces the value
below. A **✓** beside a name means that its setup.py was read; `config/knowledge/extensions.yaml`
says which extensions were built.
"""
_COMPANIONS_HEAD = """\
## Companions of a torch

`companions: [torchvision, triton]` installs the wheel that was made for this torch. If no such
wheel exists, torchyard builds one. `config/knowledge/pytorch.yaml` has the matching versions.
"""
_MIRRORS_SECTION = """\
## Mirrors

`mirrors: [sjtu]` replaces the URLs of the index that it mirrors ([offline.md](offline.md)).
The build stays the same. No URL below was fetched to verify it.
"""
_LEVEL_TITLES = {
    "error": "The build fails",
    "warning": "The build can fail, or needs the fix",
    "info": "The build works, but note",
}
# The text of a note before its reason, by the key of the notes. "settings" have no single template
_NOTE_TEMPLATES = {
    "force_include": "`<{header}>` before every source",
    "settings": "",
    "archs": "`{variable}` from the targets",
    "requires": "`{package}` before the build",
    "own_jobs": "a number of jobs",
    "independent": "`{wheel}` with any torch {torch}, CUDA {cuda}",
}
_TOO_OLD_HEAD = "name | capability | generation | last CUDA"
_TOO_OLD_KEYS = ("names", "cc", "generation", "last_toolkit")
_CONDITION_LABELS = {"cuda": "CUDA", "system": "", "archs": "a GPU of", "python": "Python"}


def render_page(knowledge: Knowledge) -> str:
    """Return docs/knowledge.md as Markdown text."""
    notes, gpu_notes = knowledge.toolkit_notes, knowledge.gpu_notes
    floors = dict(notes["driver_floor"])
    floors_mark = format_evidence_mark(floors.pop("status"))
    floors_text = " ".join(f"CUDA {cuda}: {floor} or later." for cuda, floor in floors.items())
    mirrors = (
        (f"`{fact.name}`", fact.who, f"`{prefix}…`", f"`{url}…`", format_evidence_mark(fact.status))
        for fact in knowledge.mirrors.values()
        for prefix, url in fact.instead.items()
    )
    parts = [
        _PAGE_HEAD.format(date=knowledge.pytorch_notes["read"]["date"]),
        "## In short\n",
        _render_rows("card | arch list | CUDA | torch", notes["recommendations"], "gpu"),
        *_render_generations(knowledge),
        "## Which code runs on which card\n",
        "".join(f"- {_mark(row)} {row['rule']}\n" for row in notes["binary_rules"]),
        _DRIVER_SECTION.format(floors=floors_text, mark=floors_mark),
        *_render_toolkits(knowledge),
        _EXTENSIONS_HEAD,
        *_render_extensions(knowledge.extension_notes["extensions"]),
        _COMPANIONS_HEAD,
        *_render_extensions(knowledge.extension_notes["companions"]),
        _MIRRORS_SECTION,
        _render_table("name | who | for | replaced by | ", mirrors),
        "## Known not to work\n",
        *_render_known_bad(knowledge),
        "## Names that mislead\n",
        _render_rows("name | capability | why", gpu_notes["traps"], "names", "cc"),
        "## Cards that no toolkit compiles for any more\n",
        _render_rows(_TOO_OLD_HEAD, gpu_notes["too_old"], *_TOO_OLD_KEYS),
        "## Common claims that are wrong\n",
        _render_rows("claim | truth", gpu_notes["contradictions_settled"]),
    ]
    return "\n".join(parts)


def format_evidence_mark(status: str) -> str:
    """Return "✓" for a verified fact, "?" for an unverified one."""
    return "✓" if status.startswith("verified") else "?"


def _mark(row: Row) -> str:
    return format_evidence_mark(row["status"])


def _render_table(head: str, rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table; `head` has the column names: `card | CUDA`."""
    lines = (head, " | ".join("---" for _ in head.split("|")), *map(" | ".join, rows))
    return "".join(f"| {line} |\n" for line in lines)


def _render_rows(head: str, rows: Iterable[Row], *first_keys: str) -> str:
    """Return a Markdown table of the rows; the last column is ✓ for a verified fact, else "?".

    `head` has the column names, `first_keys` the row keys of the first columns. The key of each
    other column is the column name in lower case, with "_" for spaces.
    """
    names = head.split(" | ")
    keys = (*first_keys, *(name.lower().replace(" ", "_") for name in names[len(first_keys) :]))
    texts = ([_format_value(row.get(key, "–")) for key in keys] + [_mark(row)] for row in rows)
    return _render_table(f"{head} | ", texts)


def _format_value(value: str | list[str]) -> str:
    return ", ".join(map(shorten_gpu_name, value)) if isinstance(value, list) else value


def _render_generations(knowledge: Knowledge) -> Iterator[str]:
    """Yield a capability table and collapsible GPU lists for each generation, newest first."""
    for family in reversed(knowledge.families):
        archs = sorted(family.archs, reverse=True)
        yield f"## {family.name} {format_evidence_mark(family.status)}\n"
        yield _render_table(
            "capability | CUDA | its driver | first torch | Linux | Windows | Linux on ARM",
            (_build_capability_row(knowledge, arch) for arch in archs),
        )
        gpus = {arch: [gpu for gpu in knowledge.gpus if gpu.arch == arch] for arch in archs}
        for arch in filter(gpus.get, archs):
            marks = [format_evidence_mark(gpu.status) for gpu in gpus[arch]]
            names = [shorten_gpu_name(gpu.name) for gpu in gpus[arch]]
            listed = " · ".join(map(" ".join, zip(names, marks, strict=True)))
            count = f"{len(gpus[arch])} cards" if len(gpus[arch]) > 1 else "one card"
            yield f"<details><summary>{arch}: {count}</summary>\n\n{listed}\n\n</details>\n"
        if not any(gpus.values()):
            yield "The facts name no card of this generation.\n"


def _build_capability_row(knowledge: Knowledge, arch: Arch) -> tuple[str, ...]:
    is_integrated = arch in knowledge.integrated_gpus
    linux, windows, arm = ("linux", "x86_64"), ("windows", "x86_64"), ("linux", "aarch64")
    first_toolkit = knowledge.toolkit_notes["first_toolkit"].get(str(arch))
    release = knowledge.toolkit_notes["releases"].get((first_toolkit or {}).get("cuda"), {})
    driver_text = "–"  # the driver that came with the first CUDA for the arch
    if (driver := release.get("driver")) and driver["linux"]:
        windows_text = f", Windows {driver['windows']}" if driver["windows"] else ""
        driver_text = f"{driver['linux']}{windows_text} {_mark(driver)}"
    return (
        f"**{arch}** `{arch.sm}`",
        _format_toolkit_range(knowledge, arch, first_toolkit),
        driver_text,
        _format_wheel(knowledge, arch, arm if is_integrated else linux, newest=False),
        *(
            "–" if is_integrated else _format_wheel(knowledge, arch, platform, newest=True)
            for platform in (linux, windows)
        ),
        _format_wheel(knowledge, arch, arm, newest=True),
    )


def _format_toolkit_range(knowledge: Knowledge, arch: Arch, first: Row | None) -> str:
    """Format the CUDA releases for an arch as `12.8 ✓ and later`; `first` is the first of them."""
    capable = [toolkit for toolkit in knowledge.toolkits.values() if arch in toolkit.makes]
    start = f"{first['cuda']} {_mark(first)}" if first else f"{capable[0].cuda} or before"
    last = capable[-1]
    if last.cuda == list(knowledge.toolkits)[-1]:
        return f"{start} and later"
    return f"{start}, to {last.cuda} {format_evidence_mark(last.status)}"


def _format_wheel(
    knowledge: Knowledge, arch: Arch, platform: tuple[str, str], *, newest: bool
) -> str:
    """Format the newest or the oldest torch with a wheel for `arch`: `2.7, cu128 by sm_120 ?`.

    A wheel on PyPI is preferred, then the newest CUDA. `by sm_120` is added if the GPU runs the
    cubin of another arch.
    """
    releases = list(knowledge.releases.values())
    for release in reversed(releases) if newest else releases:
        wheels = (w for w in release.wheels if (w.system, w.machine) == platform)
        if fitting := [w for w in wheels if not list_uncovered_archs(knowledge, w, [arch])]:
            wheel = max(fitting, key=lambda wheel: (wheel.pypi, parse_major_minor(wheel.cuda)))
            break
    else:
        return "none"
    index = f"PyPI ({wheel.cuda})" if wheel.pypi else f"cu{wheel.cuda.replace('.', '')}"
    runnable = [code for code in wheel.code.cubins if code.major == arch.major and code <= arch]
    cubin_note = "" if arch in runnable or not runnable else f" by `{max(runnable).sm}`"
    version = release.patch if newest else release.minor
    return f"{version}, {index}{cubin_note} {format_evidence_mark(wheel.status)}"


def _render_toolkits(knowledge: Knowledge) -> Iterator[str]:
    msvc = knowledge.toolkit_notes["msvc_versions"]["text"].split(". ")[0]
    yield _TOOLKIT_SECTION.format(msvc=msvc)
    head = "CUDA | new | gone | GCC | clang | `_MSC_VER` | driver: Linux | Windows | PyPI"
    yield _render_table(head, _list_toolkit_rows(knowledge))
    for row in knowledge.toolkit_notes["never_shipped"]:
        yield f"CUDA {row['cuda']}: {row['text']} {_mark(row)}\n"


def _list_toolkit_rows(knowledge: Knowledge) -> Iterator[tuple[str, ...]]:
    previous: set[Arch] = set()
    for cuda, toolkit in knowledge.toolkits.items():
        archs = {arch for arch in toolkit.makes if not arch.suffix}
        row = knowledge.toolkit_notes["releases"][cuda]
        mark = _mark(row["driver"]) if "driver" in row else ""  # not known of a new toolkit
        versions = (toolkit.linux_driver, toolkit.windows_driver)
        drivers = (f"{version} {mark}" if version else "–" for version in versions)
        yield (
            f"**{cuda}** {format_evidence_mark(toolkit.status)}",
            _format_archs(archs - previous) if previous else f"{min(archs)} to {max(archs)}",
            _format_archs(previous - archs),
            str(toolkit.gcc_max),
            str(toolkit.clang_max),
            f"{toolkit.msvc_min}–{toolkit.msvc_below - 1}",
            *drivers,
            f"{'yes' if toolkit.pypi else 'no'} {format_evidence_mark(toolkit.status)}",
        )
        previous = archs


def _format_archs(archs: Iterable[Arch]) -> str:
    return ", ".join(map(str, sorted(archs))) or "–"


def _render_extensions(rows: Mapping[str, Row]) -> Iterator[str]:
    for name, row in rows.items():
        imports = ", ".join(f"`{module}`" for module in row["imports"])
        notes = "\n".join(f"- {line}" for line in _list_notes(row))
        if "packages" in row:
            packages = row["packages"].items()
            source = " and ".join(f"`{package}` ({system})" for system, package in packages)
        elif "sdist" in row:
            source = f"`{row['sdist']}` of PyPI"
        else:
            ref = row.get("ref", "the tag of its release")
            source = f"<{row['git']}>" + ("" if ref == "HEAD" else f" at {ref}")
        text = f"### {name} {_mark(row)}\n\n{source}; imports {imports}.\n\n{notes}"
        yield text.rstrip() + "\n"


def _list_notes(row: Row) -> Iterator[str]:
    for key, template in _NOTE_TEMPLATES.items():
        entries = row.get(key, ())
        for entry in [entries] if isinstance(entries, Mapping) else entries:
            text = _format_setting(entry) if key == "settings" else template.format_map(entry)
            yield f"{_mark(entry)} {text}: {entry['why']}"
    if row.get("after"):
        yield f"After {', '.join(row['after'])}"
    for entry in row.get("fails", ()):
        conditions = _format_conditions(entry)
        yield f"{_mark(entry)} **{conditions}**: {entry['what']}. Fix: {entry['fix']}"
    yield from (f"{_mark(entry)} {entry['text']}" for entry in row["warnings"])


def _format_setting(row: Row) -> str:
    variables = [f"{name}={value}" for name, value in row.get("env", {}).items()]
    options = [f"nvcc {option}" for option in row.get("nvcc", ())]
    names = ", ".join(f"`{word}`" for word in variables + options)
    conditions = _format_conditions(row)
    return f"{names} for {conditions}" if conditions else names


def _format_conditions(row: Row) -> str:
    """Format the conditions of a row as `torch >=2.14, linux`, "" without conditions."""
    return ", ".join(
        "CUDA builds"
        if (key, required) == ("cuda", ">=0")
        else f"{_CONDITION_LABELS.get(key, key)} "
        f"{' or '.join(required) if isinstance(required, list) else required}".strip()
        for key, required in row.get("when", {}).items()
    )


def _render_known_bad(knowledge: Knowledge) -> Iterator[str]:
    for level, title in _LEVEL_TITLES.items():
        if entries := [bad for bad in knowledge.known_bad if bad.level == level]:
            yield f"### {title}\n"
            yield "".join(
                f"- **{bad.id}** {format_evidence_mark(bad.status)} {bad.what}\n"
                + (f"  - Symptom: {bad.symptom}\n" if bad.symptom else "")
                + f"  - Fix: {bad.fix}\n"
                for bad in entries
            )
