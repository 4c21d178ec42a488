"""GPU facts in the READMEs match the knowledge base."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.core.model import Arch
from tasks.knowledge.knowledge_files_io import load_knowledge

CHECKOUT = Path(__file__).parents[3]
READMES = ["README.md", "README.zh-CN.md"]
KNOWLEDGE = load_knowledge(CHECKOUT / "config" / "knowledge")


def cards(readme: str) -> Iterator[tuple[list[str], str, str]]:
    """Return capabilities, driver and CUDA of each row of the GPU table."""
    for line in (CHECKOUT / readme).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and re.fullmatch(r"\d+\.\d(, \d+\.\d)*", cells[1]):
            yield cells[1].split(", "), cells[2], cells[3]


@pytest.mark.parametrize("readme", READMES)
def test_gpu_table_names_first_cuda_and_its_driver(readme: str) -> None:
    result = {archs[0]: (driver, cuda) for archs, driver, cuda in cards(readme)}
    first = KNOWLEDGE.toolkit_notes["first_toolkit"]
    for arch in ("12.0", "12.1", "11.0", "10.3", "10.0", "9.0", "8.9"):
        driver, cuda = result[arch]
        known = KNOWLEDGE.toolkit_notes["releases"][first[arch]["cuda"]]["driver"]
        assert re.findall(r"[\d.]+", cuda)[0] == first[arch]["cuda"], arch
        assert driver.split(",")[0] == known["linux"], arch


@pytest.mark.parametrize("readme", READMES)
def test_gpu_table_marks_gpus_unsupported_by_cuda_13(readme: str) -> None:
    makes = KNOWLEDGE.toolkits["13.2"].makes
    for archs, _, cuda in cards(readme):
        gone = {Arch.parse_capability(arch) not in makes for arch in archs}
        assert gone == {cuda.endswith("12.9")}, archs


def test_both_languages_have_same_commands_links_and_numbers() -> None:
    one, other = ((CHECKOUT / readme).read_text(encoding="utf-8") for readme in READMES)
    assert _commands(one) == _commands(other)
    assert set(re.findall(r"\]\(([^)]+)\)", one)) - {"README.zh-CN.md"} == set(
        re.findall(r"\]\(([^)]+)\)", other)
    ) - {"README.md"}
    assert [len(archs) for archs, _, _ in cards(READMES[0])] == [
        len(archs) for archs, _, _ in cards(READMES[1])
    ]
    assert set(re.findall(r"\d+\.\d\d+", one)) == set(re.findall(r"\d+\.\d\d+", other))


def _commands(text: str) -> list[str]:
    """Return the code blocks without their comments."""
    blocks = re.findall(r"^```\w+\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [re.sub(r" *#.*", "", block) for block in blocks]
