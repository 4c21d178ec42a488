"""Write a package index: wheels and pages, in an order that keeps readers consistent."""

from __future__ import annotations

import datetime
import difflib
import json
import os
import re
import shlex
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from email.parser import HeaderParser
from hashlib import sha256
from pathlib import Path, PurePath

from tasks.core.errors import BadArtifactError, MissingToolError, TorchyardError
from tasks.core.model import Command
from tasks.system import files, shell
from tasks.system.hardware.operating_system import format_install_command
from tasks.system.jinja_templates import render_template
from tasks.system.output import print_warning
from tasks.wheels import index_pages, wheel_archive_io
from tasks.wheels.index_pages import IndexFile, select_retained


def render_index_pages(templates: PurePath, named: Iterable[IndexFile]) -> dict[str, str]:
    """Return the page texts by path below the index: the projects, then the list of projects."""
    by_project: dict[str, list[IndexFile]] = defaultdict(list)
    for file in sorted(named, key=lambda one: one.filename):
        by_project[file.project].append(file)
    pages: dict[str, str] = {}
    for name, project_files in sorted(by_project.items()):
        values = {"name": name, "files": project_files}
        pages[f"simple/{name}/index.html"] = render_template(templates / "project.html.j2", values)
        pages[f"simple/{name}/index.json"] = index_pages.format_project_page(name, project_files)
    values = {"names": sorted(by_project)}
    pages["simple/index.html"] = render_template(templates / "projects.html.j2", values)
    pages["simple/index.json"] = index_pages.format_project_list(by_project)
    return pages


_REMOVAL_DELAY = datetime.timedelta(days=1)  # a client may still use the previous page
_REMOVAL_LIST = "leaving.json"


def read_indexed_files(index: PurePath) -> dict[str, IndexFile]:
    """Return the files that the pages list, by file name.

    Raises `TorchyardError` if a page is broken.
    """
    indexed: dict[str, IndexFile] = {}
    for page in sorted(Path(index).glob("simple/*/index.json")):
        try:
            indexed |= {
                file.filename: file
                for file in index_pages.parse_project_page(page.read_text("utf-8"))
            }
        except ValueError as error:
            raise TorchyardError(
                f"a page of the index cannot be read: {error}",
                location=str(page),
                hint="remove it, and publish what it named again",
            ) from error
    return indexed


def add_wheel(index: PurePath, wheel: Path) -> IndexFile:
    """Copy a wheel and its METADATA to the index and return its entry, which no page lists yet."""
    metadata = wheel_archive_io.read_wheel_metadata(wheel)
    artifact = files.read_artifact(wheel)
    place = Path(index) / "files" / wheel.name
    place.parent.mkdir(parents=True, exist_ok=True)
    _require_same_content(place, artifact.sha256)
    if not place.is_file() or place.samefile(wheel):
        _copy_wheel(wheel, place)
    files.write_atomic(_resolve_metadata_path(place), metadata)
    return IndexFile(
        filename=wheel.name,
        sha256=artifact.sha256,
        size=artifact.size,
        metadata=sha256(metadata.encode()).hexdigest(),
        uploaded=_read_clock().strftime("%Y-%m-%dT%H:%M:%SZ"),
        requires_python=HeaderParser().parsestr(metadata).get("Requires-Python", ""),
    )


def _require_same_content(place: Path, digest: str) -> None:
    """Raise if the index has other content under that name: it would break existing lock files."""
    if place.is_file() and files.read_artifact(place).sha256 != digest:
        raise BadArtifactError(
            f"the index has another {place.name} already, and a published file never changes",
            location=str(place),
            hint="build it under another version (wheel.local_version), or yank the old one and "
            "remove it by hand",
        )


def _copy_wheel(wheel: Path, place: Path) -> None:
    """Copy the wheel, never link it: a change to one file must not change the other."""
    arriving = place.with_name(f".{place.name}.part")
    arriving.unlink(missing_ok=True)
    files.copy_file(wheel, arriving)
    files.replace_path(arriving, place)


def _resolve_metadata_path(wheel: Path) -> Path:
    return wheel.with_name(f"{wheel.name}.metadata")


def yank_file(named: Mapping[str, IndexFile], filename: str, reason: str) -> dict[str, IndexFile]:
    """Return the files with one yanked: only a requirement for exactly that version selects it.

    An empty reason undoes the yank.
    """
    if filename not in named:
        near = difflib.get_close_matches(filename, named, n=3, cutoff=0.0)
        hint = f"name a wheel that is: {', '.join(near)}" if near else "doit publish puts it there"
        raise TorchyardError(f"{filename} is not on the index", hint=hint)
    return {**named, filename: replace(named[filename], yanked=reason)}


def write_index(index: PurePath, templates: PurePath, named: Collection[IndexFile]) -> None:
    """Write the pages of these files, the list of projects last, and remove what is not listed."""
    pages = render_index_pages(templates, named)
    for path, text in pages.items():
        files.write_atomic(Path(index) / path, text)
    for page in sorted(Path(index).glob("simple/*/index.json")):
        if page.relative_to(index).as_posix() not in pages:
            files.remove_owned(page.parent)
    _remove_unlisted_wheels(Path(index), {file.filename for file in named})


def _remove_unlisted_wheels(index: Path, named: set[str]) -> None:
    """Remove wheels that no page lists, a day after they were last listed."""
    removal_list = index / _REMOVAL_LIST
    removal_times = _read_removal_list(removal_list)
    now = _read_clock()
    unnamed = [path for path in (index / "files").glob("*.whl") if path.name not in named]
    since = {path.name: removal_times.get(path.name, now.isoformat()) for path in unnamed}
    for path in unnamed:
        if now - datetime.datetime.fromisoformat(since[path.name]) > _REMOVAL_DELAY:
            files.remove_owned(path)
            files.remove_owned(_resolve_metadata_path(path))
            del since[path.name]
    files.write_atomic(removal_list, json.dumps(since, indent=1, sort_keys=True) + "\n")


def list_pending_removals(index: PurePath) -> Iterator[str]:
    """Yield the wheels that no page lists and that are kept for clients with an older page."""
    yield from _read_removal_list(Path(index) / _REMOVAL_LIST)


def _read_removal_list(noted: Path) -> dict[str, str]:
    if not noted.is_file():
        return {}
    try:
        return {str(k): str(v) for k, v in json.loads(noted.read_text("utf-8")).items()}
    except (ValueError, AttributeError):
        print_warning(f"{noted} cannot be read; what leaves the index stays a day longer")
        return {}


def _read_clock() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def find_index_problems(index: PurePath, templates: PurePath, newest: int | None) -> Iterator[str]:
    """Yield each problem of the index as a sentence. `newest` is publish.keep."""
    folder = Path(index)
    indexed = read_indexed_files(folder)
    for file in indexed.values():
        yield from _check_index_file(folder / "files", file)
    for path, content in render_index_pages(templates, indexed.values()).items():
        yield from _check_index_page(folder / path, content, path)
    wheel_names = {path.name for path in folder.glob("files/*.whl")}
    for name in sorted(wheel_names - indexed.keys() - set(list_pending_removals(folder))):
        yield f"files/{name} is on no page"
    for name in sorted(
        indexed.keys() - {file.filename for file in select_retained(indexed.values(), newest)}
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


# user@host:path, as in ssh and rsync; a Windows drive has no @
_REMOTE_DEST = re.compile(r"[\w.-]+@[\w.-]+:\S+")
_INDEX_PLACEHOLDER = "{index}"
# Upload the wheels before the pages that list them; delete unlisted files last. rsync replaces
# each file by a rename.
_RSYNC_PASSES = (
    ("--partial", "--include=/files/***", "--exclude=*"),
    ("--delay-updates", "--include=/simple/***", "--exclude=*"),
    ("--delete", "--include=/files/***", "--include=/simple/***", "--exclude=*"),
)


def is_local_index(dest: str) -> bool:
    """Return True if the index itself is at `dest`, so that no copy is uploaded."""
    return _INDEX_PLACEHOLDER not in dest and not _REMOTE_DEST.fullmatch(dest)


def upload_index(dest: str, index: PurePath, log: PurePath) -> None:
    """Copy `index` to `user@host:path`, or with a command in which `{index}` is its path.

    Raises `CommandFailedError`, or `MissingToolError` if rsync is not installed.
    """
    env = dict(os.environ)  # unfiltered: the user's command may need any variable
    if _INDEX_PLACEHOLDER in dest:
        argv = tuple(word.replace(_INDEX_PLACEHOLDER, str(index)) for word in shlex.split(dest))
        shell.run_command(Command(argv, env, "send the index", log=log))
        return
    if not shutil.which("rsync"):
        raise MissingToolError(
            "rsync is not here, which sends the index",
            hint=f"{format_install_command('rsync')}, here and there",
        )
    for options in _RSYNC_PASSES:
        argv = ("rsync", "-rt", *options, "--", f"{Path(index)}/", dest)
        shell.run_command(Command(argv, env, f"send the index to {dest}", log=log))
