"""Whether an index is what its pages say: every byte, every link, nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path, PurePath

from tasks.system import files
from tasks.wheels.index import shelf
from tasks.wheels.index.pages import IndexFile
from tasks.wheels.index.rendered import render_index_pages
from tasks.wheels.index.retention import select_retained


def find_index_problems(index: PurePath, templates: PurePath, newest: int | None) -> Iterator[str]:
    """What is wrong, a sentence each; none where all of it is right. `newest` is publish.keep."""
    folder = Path(index)
    named = shelf.read_indexed_files(folder)
    for file in named.values():
        yield from _check_index_file(folder / "files", file)
    for path, wanted in render_index_pages(templates, named.values()).items():
        yield from _check_index_page(folder / path, wanted, path)
    here = {path.name for path in folder.glob("files/*.whl")}
    for name in sorted(here - named.keys() - set(shelf.list_pending_removals(folder))):
        yield f"files/{name} is on no page"
    for name in sorted(
        named.keys() - {file.filename for file in select_retained(named.values(), newest)}
    ):
        yield f"files/{name} is older than the {newest} that publish.keep leaves"


def _check_index_file(folder: Path, file: IndexFile) -> Iterator[str]:
    wheel, metadata = folder / file.filename, folder / f"{file.filename}.metadata"
    if not wheel.is_file():
        yield f"files/{wheel.name} is not there"
    elif files.read_artifact(wheel).sha256 != file.sha256:
        yield f"files/{wheel.name} has other bytes than its page says"
    if not metadata.is_file():
        yield f"files/{metadata.name} is not there"
    elif sha256(metadata.read_bytes()).hexdigest() != file.metadata:
        yield f"files/{metadata.name} has other bytes than its page says"


def _check_index_page(page: Path, wanted: str, path: str) -> Iterator[str]:
    if not page.is_file():
        yield f"{path} is not there"
    elif page.read_text("utf-8") != wanted:
        yield f"{path} does not say what the wheels are"
