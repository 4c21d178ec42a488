"""docs/knowledge.md is generated from all facts."""

from __future__ import annotations

import re
from pathlib import Path

from tasks.cli.generated_files import render_generated_files
from tasks.core.model import Arch
from tasks.knowledge.facts import GpuFact
from tasks.knowledge.gpus import shorten_gpu_name
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.knowledge.knowledge_page import render_page
from tests.support.newest import NEWEST_RELEASE
from tests.support.rows import each_row

ROOT = Path(__file__).parents[3]
KNOWLEDGE = load_knowledge(ROOT / "config" / "knowledge")
PAGE = render_page(KNOWLEDGE)


def folded(arch: Arch) -> str:
    """Return the GPUs of a capability."""
    found = re.search(rf"<summary>{arch}: .*?</summary>\n\n(.*?)\n\n</details>", PAGE, re.DOTALL)
    return found[1] if found else ""


def row(arch: Arch) -> list[str]:
    """Return the cells of a capability's row."""
    (found,) = re.findall(rf"^\| (\*\*{arch}\*\* `.*) \|$", PAGE, re.MULTILINE)
    cells: list[str] = found.split(" | ")
    return cells


def test_knowledge_page_is_fresh() -> None:
    kept = (ROOT / "docs" / "knowledge.md").read_text(encoding="utf-8")
    assert kept == render_generated_files()["docs/knowledge.md"], (
        "python -m tasks.cli.generated_files"
    )


@each_row("gpu", KNOWLEDGE.gpus, ids=lambda gpu: gpu.name)
def test_every_gpu_has_its_cuda_on_the_page(gpu: GpuFact) -> None:
    sign = "✓" if gpu.status.startswith("verified") else "?"
    assert f"{shorten_gpu_name(gpu.name)} {sign}" in folded(gpu.arch).split(" · ")
    cuda = row(gpu.arch)[1]
    able = [cuda for cuda, kit in KNOWLEDGE.toolkits.items() if gpu.arch in kit.makes]
    first = re.match(r"\d+\.\d+", cuda)
    assert first is not None
    assert float(first[0]) <= float(able[0])
    assert ("and later" in cuda) == (able[-1] == list(KNOWLEDGE.toolkits)[-1])


def test_rtx_5090_row_shows_cuda_driver_and_wheels() -> None:
    cuda, driver, first, linux, windows, _ = row(Arch(12, 0))[1:]
    assert cuda == "12.8 ✓ and later"
    assert driver == "570.26, Windows 570.65 ✓"
    assert first == "2.7, cu128 ?"
    (wheel,) = (w for w in NEWEST_RELEASE.wheels if w.pypi and w.machine == "x86_64")
    sign = "✓" if wheel.status.startswith("verified") else "?"
    assert linux == f"{NEWEST_RELEASE.patch}, PyPI ({NEWEST_RELEASE.pypi_cuda}) {sign}"
    assert windows.startswith(f"{NEWEST_RELEASE.patch}, cu13")


def test_unsupported_gpu_row_shows_the_last_toolkit() -> None:
    assert row(Arch(7, 0))[1] == "11.8 or before, to 12.9 ✓"
    *_, last = (found for found in KNOWLEDGE.releases.values() if "12.6" in found.cudas_built)
    assert row(Arch(7, 0))[4] == f"{last.patch}, cu126 ✓"


def test_row_names_the_arch_of_compatible_machine_code() -> None:
    assert "by `sm_86`" in row(Arch(8, 9))[4]
    assert "by `sm_" not in row(Arch(8, 6))[4]


def test_embedded_board_row_has_no_desktop_wheel() -> None:
    assert row(Arch(8, 7))[4:6] == ["–", "–"]


def test_every_toolkit_known_bad_entry_and_ambiguous_name_is_on_the_page() -> None:
    for cuda in KNOWLEDGE.toolkits:
        assert re.search(rf"^\| \*\*{cuda}\*\* [✓?] \|", PAGE, re.MULTILINE)
    for bad in KNOWLEDGE.known_bad:
        assert f"- **{bad.id}** " in PAGE
        assert bad.fix in PAGE
        assert bad.symptom in PAGE
    for trap in KNOWLEDGE.gpu_notes["traps"]:
        assert trap["why"] in PAGE


def test_long_page_sections_are_collapsed() -> None:
    sections = re.split(r"^#+ ", PAGE, flags=re.MULTILINE)
    unfolded = [re.sub(r"<details>.*?</details>", "", part, flags=re.DOTALL) for part in sections]
    assert max(len(part.strip().splitlines()) for part in unfolded) <= 40
