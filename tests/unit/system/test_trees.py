"""Source trees: their digest, and the copy that is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.system import source_trees
from tests.support.systems import needs_links


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "extension"
    for name in ("setup.py", "src/a.cu", "src/build/kept.h"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    "name",
    [
        "build/a.o",
        "dist/a.whl",
        ".git/HEAD",
        "src/__pycache__/a.pyc",
        "a.egg-info/PKG-INFO",
        ".torchyard/x",
    ],
)
def test_build_output_is_not_source(sources: Path, tmp_path: Path, name: str) -> None:
    before = source_trees.hash_source_tree(sources)
    path = sources / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("", encoding="utf-8")
    assert source_trees.hash_source_tree(sources) == before
    source_trees.copy_source_tree(sources, tmp_path / "copy")
    assert not (tmp_path / "copy" / name).exists()
    assert source_trees.hash_source_tree(tmp_path / "copy") == before


@pytest.mark.parametrize("project", ["", "python"])
@pytest.mark.parametrize(
    ("name", "signs"),
    [("build/lib.linux/_C.so", ("setup.py",)), ("out/x.o", ("out/.ninja_log",)),
     ("cmake/x.o", ("cmake/CMakeCache.txt",)), ("build/x.o", ("pyproject.toml",))],
)  # fmt: skip
def test_objects_of_earlier_build_are_not_copied(
    sources: Path, tmp_path: Path, project: str, name: str, signs: tuple[str, ...]
) -> None:
    """A linked or packed old object would belong to another torch."""
    for path in (*signs, name):
        place = sources / project / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("", encoding="utf-8")
    source_trees.copy_source_tree(sources, tmp_path / "copy")
    assert not (tmp_path / "copy" / project / name).exists()
    assert (tmp_path / "copy" / "src" / "build" / "kept.h").is_file()


def test_every_edit_changes_digest(sources: Path) -> None:
    seen = {source_trees.hash_source_tree(sources)}
    (sources / "src" / "build" / "kept.h").write_text("edited", encoding="utf-8")
    seen.add(source_trees.hash_source_tree(sources))
    (sources / "src" / "a.cu").rename(sources / "src" / "b.cu")
    seen.add(source_trees.hash_source_tree(sources))
    (sources / "empty").write_text("", encoding="utf-8")
    seen.add(source_trees.hash_source_tree(sources))
    assert len(seen) == 4


@needs_links
def test_links_are_copied_as_links_and_cycles_end(sources: Path, tmp_path: Path) -> None:
    (sources / "loop").symlink_to(sources)
    (sources / "nowhere").symlink_to("gone")
    assert len(source_trees.hash_source_tree(sources)) == 64
    source_trees.copy_source_tree(sources, tmp_path / "copy")
    assert (tmp_path / "copy" / "nowhere").readlink() == Path("gone")
