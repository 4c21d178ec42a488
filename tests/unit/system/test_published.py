"""A static package index in a folder: its pages, retention and verification."""

from __future__ import annotations

import datetime
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from html.parser import HTMLParser
from itertools import count
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from tasks.core.errors import BadArtifactError, TorchyardError
from tasks.system import files
from tasks.wheels import index_pages, package_index_io
from tasks.wheels.index_pages import IndexFile, select_retained
from tasks.wheels.package_index_io import find_index_problems
from tests.support.checkout import ROOT
from tests.support.smallwheels import wheel
from tests.support.systems import posix_only

TEMPLATES = ROOT / "templates" / "index"
NOW = datetime.datetime(2026, 11, 22, 10, tzinfo=datetime.UTC)


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return files.create_owned_folder(tmp_path / "index")


def knn(folder: Path, label: str = "torch2.15.0.s1a2b3c4d.cu132.sm120", code: str = "") -> Path:
    return wheel(folder, "simple_knn", f"1.0+{label}", {"simple_knn/__init__.py": code}, ["torch"])


def published(index: Path, *wheels: Path) -> dict[str, IndexFile]:
    named = package_index_io.read_indexed_files(index) | {
        path.name: package_index_io.add_wheel(index, path) for path in wheels
    }
    package_index_io.write_index(index, TEMPLATES, named.values())
    return named


class Links(HTMLParser):
    """The links of a page, with their attributes."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found.append(dict(attrs))


def test_page_links_to_wheel_digest_and_metadata(index: Path, tmp_path: Path) -> None:
    made = knn(tmp_path)
    published(index, made)
    (project,) = Links(index / "simple" / "index.html").found
    page = index / "simple" / str(project["href"]) / "index.html"
    (link,) = Links(page).found
    url, fragment = urldefrag(str(link["href"]))
    assert "+" not in url  # some object stores decode it as a space
    lies = (page.parent / unquote(url)).resolve()
    assert lies.read_bytes() == made.read_bytes()
    assert fragment == f"sha256={files.read_artifact(made).sha256}"
    beside = lies.with_name(f"{lies.name}.metadata")
    assert "Requires-Dist: torch" in beside.read_text()
    assert link["data-core-metadata"] == f"sha256={files.read_artifact(beside).sha256}"
    assert not list(find_index_problems(index, TEMPLATES, None))


def test_project_json_matches_page(index: Path, tmp_path: Path) -> None:
    named = published(index, knn(tmp_path))
    page = json.loads((index / "simple" / "simple-knn" / "index.json").read_text())
    assert page["meta"] == {"api-version": "1.1"}
    assert page["versions"] == ["1.0+torch2.15.0.s1a2b3c4d.cu132.sm120"]
    assert index_pages.parse_project_page(json.dumps(page)) == tuple(named.values())


def test_html_in_metadata_is_escaped(index: Path, tmp_path: Path) -> None:
    named = published(index, knn(tmp_path))
    (name,) = named
    package_index_io.write_index(
        index, TEMPLATES, package_index_io.yank_file(named, name, '"><script>').values()
    )
    page = index / "simple" / "simple-knn" / "index.html"
    assert "<script>" not in page.read_text()
    assert Links(page).found[0]["data-yanked"] == '"><script>'
    assert package_index_io.read_indexed_files(index)[name].yanked == '"><script>'


def test_published_file_never_changes(index: Path, tmp_path: Path) -> None:
    published(index, knn(tmp_path / "a"))
    with pytest.raises(BadArtifactError, match="never change"):
        package_index_io.add_wheel(index, knn(tmp_path / "b", code="other = 1"))
    assert not list(find_index_problems(index, TEMPLATES, None))


@pytest.mark.parametrize("linked_before", [False, True])
def test_published_wheel_is_copy(index: Path, tmp_path: Path, linked_before: bool) -> None:
    made = knn(tmp_path)
    lies = index / "files" / made.name
    if linked_before:
        lies.parent.mkdir()
        lies.hardlink_to(made)
    published(index, made)
    assert lies.stat().st_ino != made.stat().st_ino
    with made.open("ab") as opened:
        opened.write(b"changed")
    assert not list(find_index_problems(index, TEMPLATES, None))


def test_missing_wheel_cannot_be_yanked(index: Path) -> None:
    with pytest.raises(TorchyardError, match=r"x\.whl is not in the index"):
        package_index_io.yank_file({}, "x.whl", "bad")


def test_incomplete_wheel_name_suggests_full_name() -> None:
    there = entry("torch2.15.0.s1a2b3c4d.cu132.sm120", 1)
    with pytest.raises(TorchyardError, match="is not in the index") as error:
        package_index_io.yank_file({there.filename: there}, "simple-knn", "bad")
    assert error.value.hint == f"choose one of these wheels: {there.filename}"


def entry(label: str, day: int, python: str = "cp311") -> IndexFile:
    name = f"simple_knn-1.0+{label}-{python}-{python}-linux_x86_64.whl"
    return IndexFile(name, "0" * 64, 1, "0" * 64, f"2026-11-{day:02}T10:00:00Z")


def test_newest_rebuilds_of_release_are_retained() -> None:
    old, new = (
        entry("torch2.15.0.s00000001.cu132.sm120", 1),
        entry("torch2.15.0.s00000002.cu132.sm120.d1234ab", 2),
    )
    others = [
        entry("torch2.14.1.s00000001.cu130.sm120", 1),
        entry("torch2.15.0.s00000001.cu132.sm90", 1),
        entry("torch2.15.0.s00000001.cu132.sm120", 1, python="cp312"),
    ]
    assert set(select_retained([old, new, *others], 1)) == {new, *others}
    assert set(select_retained([old, new, *others], 2)) == {old, new, *others}
    assert set(select_retained([old, new, *others], None)) == {old, new, *others}


def test_commits_of_same_torch_release_are_rebuilds() -> None:
    first, second = (
        IndexFile(
            f"torch-2.6.0+cu130.sm120.g{commit}-cp311-cp311-linux_x86_64.whl", "", 1, "", when
        )
        for commit, when in (
            ("1a2b3c4", "2026-11-01T10:00:00Z"),
            ("5d6e7f8", "2026-11-02T10:00:00Z"),
        )
    )
    assert select_retained([second, first], 1) == (second,)


def test_wheel_is_kept_for_a_day_after_leaving_index(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_index_io, "_read_clock", lambda: NOW)
    (old,) = published(index, knn(tmp_path))
    new = knn(tmp_path, "torch2.15.0.s99999999.cu132.sm120")
    staying = {new.name: package_index_io.add_wheel(index, new)}
    package_index_io.write_index(index, TEMPLATES, staying.values())
    assert (index / "files" / old).is_file()
    assert not list(find_index_problems(index, TEMPLATES, None))
    monkeypatch.setattr(package_index_io, "_read_clock", lambda: NOW + datetime.timedelta(hours=25))
    package_index_io.write_index(index, TEMPLATES, staying.values())
    assert sorted(path.name for path in (index / "files").iterdir()) == [
        new.name,
        f"{new.name}.metadata",
    ]


@posix_only
def test_concurrent_reader_finds_every_linked_wheel(index: Path, tmp_path: Path) -> None:
    """The index alternates between the old and the new wheel while a reader installs repeatedly."""
    old, new = knn(tmp_path), knn(tmp_path, "torch2.15.0.s99999999.cu132.sm120")
    shelves = [{path.name: package_index_io.add_wheel(index, path)} for path in (old, new)]
    package_index_io.write_index(index, TEMPLATES, shelves[0].values())
    page = index / "simple" / "simple-knn" / "index.html"
    ended, seen = threading.Event(), set()

    def read() -> None:
        while not ended.is_set():
            (link,) = Links(page).found
            lies = page.parent / unquote(urldefrag(str(link["href"]))[0])
            assert lies.is_file()
            seen.add(lies.name)

    with ThreadPoolExecutor(1) as beside:
        reading = beside.submit(read)
        for turn in count():
            package_index_io.write_index(index, TEMPLATES, shelves[turn % 2].values())
            if reading.done() or (turn > 60 and len(seen) == 2):
                break
        ended.set()
        reading.result()
    assert seen == {old.name, new.name}


def test_project_without_wheels_has_no_page(index: Path, tmp_path: Path) -> None:
    published(index, knn(tmp_path))
    package_index_io.write_index(index, TEMPLATES, [])
    assert not (index / "simple" / "simple-knn").exists()
    assert Links(index / "simple" / "index.html").found == []


@pytest.mark.parametrize(
    ("harm", "expected"),
    [
        ("bytes", "does not match the sha256 on its page"),
        ("gone", ".whl is missing"),
        ("metadata", ".whl.metadata does not match"),
        ("page", "simple/simple-knn/index.html does not match the wheels"),
        ("list", "simple/index.json is missing"),
        ("stray", "no page lists files/stray-1-py3-none-any.whl"),
    ],
)
def test_index_problem_is_reported(index: Path, tmp_path: Path, harm: str, expected: str) -> None:
    made = knn(tmp_path)
    published(index, made)
    lies = index / "files" / made.name
    match harm:
        case "bytes":
            lies.unlink()
            lies.write_bytes(b"PK")
        case "gone":
            lies.unlink()
        case "metadata":
            lies.with_name(f"{lies.name}.metadata").write_text("Name: x")
        case "page":
            (index / "simple" / "simple-knn" / "index.html").write_text("<html>")
        case "list":
            (index / "simple" / "index.json").unlink()
        case _:
            (index / "files" / "stray-1-py3-none-any.whl").write_bytes(b"")
    assert [
        problem for problem in find_index_problems(index, TEMPLATES, None) if expected in problem
    ]


def test_wheel_beyond_retention_limit_is_reported(index: Path, tmp_path: Path) -> None:
    older = knn(tmp_path)
    named = published(index, older, knn(tmp_path, "torch2.15.0.s99999999.cu132.sm120"))
    ancient = replace(named[older.name], uploaded="2020-01-01T00:00:00Z")
    package_index_io.write_index(index, TEMPLATES, {**named, older.name: ancient}.values())
    assert list(find_index_problems(index, TEMPLATES, 1)) == [
        f"files/{older.name} is older than the 1 newest wheels that publish.keep retains"
    ]


def test_broken_page_error_has_hint(index: Path, tmp_path: Path) -> None:
    published(index, knn(tmp_path))
    (index / "simple" / "simple-knn" / "index.json").write_text("{}")
    with pytest.raises(TorchyardError, match="cannot be read") as error:
        package_index_io.read_indexed_files(index)
    assert "remove the page, then publish" in error.value.hint


def test_unreadable_removal_list_is_replaced(index: Path, tmp_path: Path) -> None:
    published(index, knn(tmp_path))
    (index / "leaving.json").write_text("[")
    package_index_io.write_index(
        index, TEMPLATES, package_index_io.read_indexed_files(index).values()
    )
    assert json.loads((index / "leaving.json").read_text()) == {}
