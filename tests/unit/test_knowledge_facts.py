"""The facts themselves: that none is lost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.errors import KnowledgeError
from tasks.knowledge import load
from tasks.knowledge.archs import how
from tasks.model import Arch

FOLDER = Path(__file__).parents[2] / "config" / "knowledge"
KNOWLEDGE = load(FOLDER)


def parsed(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    return content


def test_no_gpu_is_lost() -> None:
    by_capability = Counter(str(gpu.arch) for gpu in KNOWLEDGE.gpus)
    assert len(parsed("gpus")["names"]) == 218
    assert len(KNOWLEDGE.gpus) == 218 + 9
    assert by_capability == {
        "5.3": 1,
        "6.2": 1,
        "7.0": 6,
        "7.2": 2,
        "7.5": 50,
        "8.0": 11,
        "8.6": 54,
        "8.7": 4,
        "8.9": 39,
        "9.0": 15,
        "10.0": 3,
        "10.3": 2,
        "11.0": 3,
        "12.0": 35,
        "12.1": 1,
    }


def test_no_toolkit_release_or_known_bad_entry_is_lost() -> None:
    assert list(KNOWLEDGE.toolkits) == [
        *("11.8", "12.0", "12.1", "12.2", "12.3", "12.4", "12.5", "12.6", "12.8", "12.9"),
        *("13.0", "13.1", "13.2", "13.3", "13.4", "13.5"),
    ]
    assert list(KNOWLEDGE.releases) == [f"2.{minor}" for minor in range(16)]
    assert len(KNOWLEDGE.known_bad) == 23
    assert len({bad.id for bad in KNOWLEDGE.known_bad}) == 23
    assert len({row.id for row in KNOWLEDGE.minimums}) == 11
    assert set(KNOWLEDGE.extensions) == {"diff-gaussian-rasterization", "simple-knn"}


def test_traps_agree_with_the_names() -> None:
    names = {gpu.name: str(gpu.arch) for gpu in KNOWLEDGE.gpus}
    for trap in parsed("gpus")["traps"]:
        for name in set(trap["names"]) & set(names):
            assert trap["cc"] == [names[name]]


def test_the_default_gpu_is_one_of_the_names() -> None:
    assert KNOWLEDGE.default_gpu == "NVIDIA GeForce RTX 5090"
    assert KNOWLEDGE.default_gpu in {gpu.name for gpu in KNOWLEDGE.gpus}


def test_first_and_last_toolkit_agree_with_the_lists() -> None:
    toolkits = list(KNOWLEDGE.toolkits)
    for key, place in (("first_toolkit", 0), ("last_toolkit", -1)):
        for cc, row in parsed("toolkits")[key].items():
            makers = [c for c, kit in KNOWLEDGE.toolkits.items() if Arch.parse(cc) in kit.makes]
            if row["cuda"] in toolkits:
                assert makers[place] == row["cuda"], cc


def test_dropped_archs_are_what_the_toolkit_before_had() -> None:
    before: set[Arch] = set()
    for cuda, kit in KNOWLEDGE.toolkits.items():
        plain = {arch for arch in kit.makes if not arch.suffix}
        dropped = parsed("toolkits")["releases"][cuda]["dropped"]
        assert sorted(before - plain) == sorted(map(Arch.parse, dropped)), cuda
        before = plain


def test_wheels_stay_within_what_their_cuda_can_make() -> None:
    for release in KNOWLEDGE.releases.values():
        assert release.pypi_cuda in release.cudas_built
        assert {wheel.cuda for wheel in release.wheels} == set(release.cudas_built)
        for wheel in release.wheels:
            if wheel.cuda in KNOWLEDGE.toolkits:
                assert wheel.code.cubins <= KNOWLEDGE.toolkits[wheel.cuda].makes


def test_blackwell_came_with_2_7_on_cu128_and_with_2_8_on_pypi() -> None:
    target = Arch(12, 0)
    holding = [
        (release.minor, wheel.cuda, wheel.pypi)
        for release in KNOWLEDGE.releases.values()
        for wheel in release.wheels
        if wheel.system == "linux" and how(wheel.code, target)
    ]
    assert holding[0] == ("2.7", "12.8", False)
    assert next(row for row in holding if row[2])[0] == "2.8"


def test_extensions_come_from_git_with_their_headers_and_warnings() -> None:
    raster, knn = KNOWLEDGE.extensions.values()
    assert raster.git == "https://github.com/graphdeco-inria/diff-gaussian-rasterization.git"
    assert (raster.submodules, raster.headers) == (("third_party/glm",), ("cstdint",))
    assert knn.git == "https://gitlab.inria.fr/bkerbl/simple-knn.git"
    assert knn.headers == ("cfloat",)
    assert "unrelated package" in knn.warnings[0]


def test_a_file_is_read_only_when_it_is_asked_for(tmp_path: Path) -> None:
    knowledge = load(tmp_path)
    with pytest.raises(KnowledgeError, match="facts are missing"):
        _ = knowledge.gpus


@pytest.mark.parametrize(("text", "message"), [("a: [", "YAML"), ("- 1", "not a mapping")])
def test_a_broken_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "gpus.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(KnowledgeError, match=message) as caught:
        _ = load(tmp_path).gpus
    assert caught.value.where.endswith("gpus.yaml")
