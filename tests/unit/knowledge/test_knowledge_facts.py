"""The facts themselves: all of them are read."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.knowledge.machine_code_rules import classify_compatibility
from tasks.knowledge.versions import parse_major_minor

FOLDER = Path(__file__).parents[3] / "config" / "knowledge"
KNOWLEDGE = load_knowledge(FOLDER)


def parsed(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    return content


def test_every_row_is_read() -> None:
    gpus = parsed("gpus")
    assert [gpu.name for gpu in KNOWLEDGE.gpus] == [*gpus["names"], *gpus["jetson_modules"]]
    assert list(KNOWLEDGE.toolkits) == list(parsed("toolkits")["releases"])
    assert list(KNOWLEDGE.releases) == list(parsed("pytorch")["releases"])
    assert [bad.id for bad in KNOWLEDGE.known_bad] == [
        row["id"] for row in parsed("combinations")["known_bad"]
    ]
    assert list(KNOWLEDGE.extensions) == list(parsed("extensions")["extensions"])


def test_no_two_rows_have_the_same_name() -> None:
    """YAML silently keeps the last of two rows with the same key."""
    for name in ("gpus", "toolkits", "pytorch"):
        text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
        keys = re.findall(r'^  ("[^"]+"):', text, re.MULTILINE)
        sections = [row for row in parsed(name).values() if isinstance(row, dict)]
        read = [f'"{key}"' for row in sections for key in row]
        assert not [key for key, times in Counter(keys).items() if times > read.count(key)]
    assert len({bad.id for bad in KNOWLEDGE.known_bad}) == len(KNOWLEDGE.known_bad)


def test_releases_are_in_ascending_order() -> None:
    for names in (list(KNOWLEDGE.toolkits), list(KNOWLEDGE.releases)):
        assert sorted(names, key=parse_major_minor) == names


def test_every_gpu_has_a_family_and_a_supporting_toolkit() -> None:
    of_family = {arch for family in KNOWLEDGE.families for arch in family.archs}
    made = {arch for kit in KNOWLEDGE.toolkits.values() for arch in kit.makes}
    for gpu in KNOWLEDGE.gpus:
        assert gpu.arch in of_family & made, gpu.name


def test_no_capability_is_in_two_families() -> None:
    archs = [arch for family in KNOWLEDGE.families for arch in family.archs]
    assert len(archs) == len(set(archs))


def test_ambiguous_name_entries_match_the_gpu_names() -> None:
    names = {gpu.name: str(gpu.arch) for gpu in KNOWLEDGE.gpus}
    for trap in parsed("gpus")["traps"]:
        for name in set(trap["names"]) & set(names):
            assert trap["cc"] == [names[name]]


def test_default_gpu_is_a_known_name() -> None:
    assert KNOWLEDGE.default_gpu == "NVIDIA GeForce RTX 5090"
    assert KNOWLEDGE.default_gpu in {gpu.name for gpu in KNOWLEDGE.gpus}


def test_first_and_last_toolkit_match_the_arch_lists() -> None:
    toolkits = list(KNOWLEDGE.toolkits)
    for key, place in (("first_toolkit", 0), ("last_toolkit", -1)):
        for cc, row in parsed("toolkits")[key].items():
            makers = [
                c for c, kit in KNOWLEDGE.toolkits.items() if Arch.parse_capability(cc) in kit.makes
            ]
            if row["cuda"] in toolkits:
                assert makers[place] == row["cuda"], cc


def test_dropped_archs_were_in_the_previous_toolkit() -> None:
    before: set[Arch] = set()
    for cuda, kit in KNOWLEDGE.toolkits.items():
        plain = {arch for arch in kit.makes if not arch.suffix}
        dropped = parsed("toolkits")["releases"][cuda]["dropped"]
        assert sorted(before - plain) == sorted(map(Arch.parse_capability, dropped)), cuda
        before = plain


def test_wheel_archs_are_supported_by_their_cuda() -> None:
    for release in KNOWLEDGE.releases.values():
        assert release.pypi_cuda in release.cudas_built
        assert {wheel.cuda for wheel in release.wheels} == set(release.cudas_built)
        for wheel in release.wheels:
            if wheel.cuda in KNOWLEDGE.toolkits:
                assert wheel.code.cubins <= KNOWLEDGE.toolkits[wheel.cuda].makes


def test_blackwell_is_supported_since_2_7_on_cu128_and_2_8_on_pypi() -> None:
    target = Arch(12, 0)
    holding = [
        (release.minor, wheel.cuda, wheel.pypi)
        for release in KNOWLEDGE.releases.values()
        for wheel in release.wheels
        if wheel.system == "linux" and classify_compatibility(KNOWLEDGE, wheel.code, target)
    ]
    assert holding[0] == ("2.7", "12.8", False)
    assert next(row for row in holding if row[2])[0] == "2.8"


def test_extensions_have_git_source_headers_and_warnings() -> None:
    raster, knn = (KNOWLEDGE.extensions[n] for n in ("diff-gaussian-rasterization", "simple-knn"))
    assert raster.git == "https://github.com/graphdeco-inria/diff-gaussian-rasterization.git"
    assert (raster.submodules, raster.headers) == (("third_party/glm",), ("cstdint",))
    assert knn.git == "https://gitlab.inria.fr/bkerbl/simple-knn.git"
    assert knn.headers == ("cfloat",)
    assert "unrelated package" in knn.warnings[0]


def test_facts_file_is_read_lazily(tmp_path: Path) -> None:
    knowledge = load_knowledge(tmp_path)
    with pytest.raises(KnowledgeError, match="the file is missing"):
        _ = knowledge.gpus


@pytest.mark.parametrize(("text", "message"), [("a: [", "YAML"), ("- 1", "not a YAML mapping")])
def test_broken_facts_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "gpus.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(KnowledgeError, match=message) as caught:
        _ = load_knowledge(tmp_path).gpus
    assert caught.value.location.endswith("gpus.yaml")
