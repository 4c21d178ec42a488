"""Whether an index is what its pages say: every byte, every link, nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path, PurePath

from tasks.system import files
from tasks.wheels.index import shelf
from tasks.wheels.index.pages import File
from tasks.wheels.index.rendered import rendered
from tasks.wheels.index.retention import kept


def problems(index: PurePath, templates: PurePath, newest: int | None) -> Iterator[str]:
    """What is wrong, a sentence each; none where all of it is right. `newest` is publish.keep."""
    folder = Path(index)
    named = shelf.listed(folder)
    for file in named.values():
        yield from _of_file(folder / "files", file)
    for path, wanted in rendered(templates, named.values()).items():
        yield from _of_page(folder / path, wanted, path)
    here = {path.name for path in folder.glob("files/*.whl")}
    for name in sorted(here - named.keys() - set(shelf.leaving(folder))):
        yield f"files/{name} is on no page"
    for name in sorted(named.keys() - {file.filename for file in kept(named.values(), newest)}):
        yield f"files/{name} is older than the {newest} that publish.keep leaves"


def _of_file(folder: Path, file: File) -> Iterator[str]:
    wheel, metadata = folder / file.filename, folder / f"{file.filename}.metadata"
    if not wheel.is_file():
        yield f"files/{wheel.name} is not there"
    elif files.artifact(wheel).sha256 != file.sha256:
        yield f"files/{wheel.name} has other bytes than its page says"
    if not metadata.is_file():
        yield f"files/{metadata.name} is not there"
    elif sha256(metadata.read_bytes()).hexdigest() != file.metadata:
        yield f"files/{metadata.name} has other bytes than its page says"


def _of_page(page: Path, wanted: str, path: str) -> Iterator[str]:
    if not page.is_file():
        yield f"{path} is not there"
    elif page.read_text("utf-8") != wanted:
        yield f"{path} does not say what the wheels are"
