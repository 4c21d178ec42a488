"""Write a package index: first the wheels, then the pages, so that all links are valid."""

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

from packaging.utils import canonicalize_name

from tasks.core.errors import BadArtifactError, MissingToolError, TorchyardError
from tasks.core.model import Command
from tasks.system import files, shell
from tasks.system.hardware.operating_system import format_install_command
from tasks.system.jinja_templates import render_template
from tasks.system.output import print_warning
from tasks.wheels import index_pages, wheel_archive_io
from tasks.wheels.index_pages import IndexFile, select_retained


def render_index_pages(templates: PurePath, listed: Iterable[IndexFile]) -> dict[str, str]:
    """Return the text of each page by its path in the index. The list of projects comes last."""
    by_project: dict[str, list[IndexFile]] = defaultdict(list)
    for file in sorted(listed, key=lambda one: one.filename):
        by_project[canonicalize_name(file.filename.partition("-")[0])].append(file)
    pages: dict[str, str] = {}
    for name, project_files in sorted(by_project.items()):
        values = {"name": name, "files": project_files}
        pages[f"simple/{name}/index.html"] = render_template(templates / "project.html.j2", values)
        pages[f"simple/{name}/index.json"] = index_pages.format_project_page(name, project_files)
    template, values = templates / "projects.html.j2", {"names": sorted(by_project)}
    pages["simple/index.html"] = render_template(template, values)
    pages["simple/index.json"] = index_pages.format_project_list(by_project)
    return pages


_REMOVAL_DELAY = datetime.timedelta(days=1)  # clients may still use an old page
_REMOVAL_LIST = "leaving.json"


def read_indexed_files(index: PurePath) -> dict[str, IndexFile]:
    """Return the listed files of all pages by name. Raises `TorchyardError` for a damaged page."""
    indexed: dict[str, IndexFile] = {}
    for page in sorted(Path(index).glob("simple/*/index.json")):
        try:
            listed = index_pages.parse_project_page(page.read_text("utf-8"))
        except ValueError as error:
            message = f"this page of the index cannot be read: {error}"
            hint = "remove the page, then publish its wheels again"
            raise TorchyardError(message, location=str(page), hint=hint) from error
        indexed |= {file.filename: file for file in listed}
    return indexed


def add_wheel(index: PurePath, wheel: Path) -> IndexFile:
    """Copy a wheel and its METADATA to the index. Return the `IndexFile` to list on its page."""
    metadata = wheel_archive_io.read_wheel_metadata(wheel)
    artifact = files.read_artifact(wheel)
    place = Path(index) / "files" / wheel.name
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_file() and files.read_artifact(place).sha256 != artifact.sha256:
        # other content would break existing lock files
        raise BadArtifactError(
            f"the index already contains a different {place.name}. Published files never change",
            location=str(place),
            hint="build the wheel with another wheel.local_version, or yank the published wheel "
            "and delete its file",
        )
    if not place.is_file() or place.samefile(wheel):
        # Copy the wheel, never link it: a change to one file must not change the other
        partial = place.with_name(f".{place.name}.part")
        partial.unlink(missing_ok=True)
        files.copy_file(wheel, partial)
        files.replace_path(partial, place)
    files.write_atomic(_resolve_metadata_path(place), metadata)
    digest, uploaded = sha256(metadata.encode()).hexdigest(), _read_clock()
    python = HeaderParser().parsestr(metadata).get("Requires-Python", "")
    time = uploaded.strftime("%Y-%m-%dT%H:%M:%SZ")
    return IndexFile(wheel.name, artifact.sha256, artifact.size, digest, time, python)


def _resolve_metadata_path(wheel: Path) -> Path:
    return wheel.with_name(f"{wheel.name}.metadata")


def yank_file(indexed: Mapping[str, IndexFile], filename: str, reason: str) -> dict[str, IndexFile]:
    """Return the files, with `filename` yanked for `reason`. The reason "" undoes a yank."""
    if filename not in indexed:
        near = difflib.get_close_matches(filename, indexed, n=3, cutoff=0.0)
        hint = f"choose one of these wheels: {', '.join(near)}" if near else "run: doit publish"
        raise TorchyardError(f"{filename} is not in the index", hint=hint)
    return {**indexed, filename: replace(indexed[filename], yanked=reason)}


def write_index(index: PurePath, templates: PurePath, listed: Collection[IndexFile]) -> None:
    """Write the pages for the files `listed`. Remove wheels that no page has listed for a day."""
    pages = render_index_pages(templates, listed)
    for name, page_text in pages.items():
        files.write_atomic(Path(index) / name, page_text)
    for page in sorted(Path(index).glob("simple/*/index.json")):
        if page.relative_to(index).as_posix() not in pages:
            files.remove_owned(page.parent)
    names, now = {file.filename for file in listed}, _read_clock()
    old_times, removal_times = read_pending_removals(index), {}
    for path in Path(index).glob("files/*.whl"):
        if path.name not in names:
            since = old_times.get(path.name, now.isoformat())
            if now - datetime.datetime.fromisoformat(since) > _REMOVAL_DELAY:
                files.remove_owned(path)
                files.remove_owned(_resolve_metadata_path(path))
            else:
                removal_times[path.name] = since
    text = json.dumps(removal_times, indent=1, sort_keys=True) + "\n"
    files.write_atomic(Path(index) / _REMOVAL_LIST, text)


def read_pending_removals(index: PurePath) -> dict[str, str]:
    """Return the wheels to remove later, with the time when each disappeared from the pages."""
    path = Path(index) / _REMOVAL_LIST
    if not path.is_file():
        return {}
    try:
        return {str(k): str(v) for k, v in json.loads(path.read_text("utf-8")).items()}
    except (ValueError, AttributeError):
        print_warning(f"cannot read {path}, so wheels that no page lists are kept one more day")
        return {}


def _read_clock() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def find_index_problems(index: PurePath, templates: PurePath, newest: int | None) -> Iterator[str]:
    """Yield a message for each problem of the index. `newest` is the setting publish.keep."""
    folder = Path(index)
    indexed = read_indexed_files(folder)
    expected = {f"files/{file.filename}": file.sha256 for file in indexed.values()}
    expected |= {f"files/{file.filename}.metadata": file.metadata for file in indexed.values()}
    pages = render_index_pages(templates, indexed.values())
    expected |= {path: sha256(text.encode()).hexdigest() for path, text in pages.items()}
    for path, digest in expected.items():
        if not (folder / path).is_file():
            yield f"{path} is missing"
        elif files.read_artifact(folder / path).sha256 != digest:
            source = "wheels" if path in pages else "sha256 on its page"
            yield f"{path} does not match the {source}"
    wheel_names = {path.name for path in folder.glob("files/*.whl")}
    for name in sorted(wheel_names - indexed.keys() - read_pending_removals(folder).keys()):
        yield f"no page lists files/{name}"
    retained = {file.filename for file in select_retained(indexed.values(), newest)}
    for name in sorted(indexed.keys() - retained):
        yield f"files/{name} is older than the {newest} newest wheels that publish.keep retains"


# user@host:path, as in ssh and rsync; a Windows drive has no @
_REMOTE_DEST = re.compile(r"[\w.-]+@[\w.-]+:\S+")
_INDEX_PLACEHOLDER = "{index}"
# First the wheels, then the pages that list them, then the deletions
_RSYNC_PASSES = (
    ("--partial", "--include=/files/***", "--exclude=*"),
    ("--delay-updates", "--include=/simple/***", "--exclude=*"),
    ("--delete", "--include=/files/***", "--include=/simple/***", "--exclude=*"),
)


def is_local_index(dest: str) -> bool:
    """Return True if `dest` is a local path, to which the index is written without an upload."""
    return _INDEX_PLACEHOLDER not in dest and not _REMOTE_DEST.fullmatch(dest)


def upload_index(dest: str, index: PurePath, log: PurePath) -> None:
    """Upload `index` to `dest`: `user@host:path`, or a command that contains `{index}`."""
    env = dict(os.environ)  # complete, because the user's command may need any variable
    if _INDEX_PLACEHOLDER in dest:
        argv = tuple(word.replace(_INDEX_PLACEHOLDER, str(index)) for word in shlex.split(dest))
        shell.run_command(Command(argv, env, "upload the index", log=log))
        return
    if not shutil.which("rsync"):
        hint = f"{format_install_command('rsync')}, on this machine and on the server"
        raise MissingToolError("rsync, which uploads the index, is not installed", hint=hint)
    for options in _RSYNC_PASSES:
        argv = ("rsync", "-rt", *options, "--", f"{Path(index)}/", dest)
        shell.run_command(Command(argv, env, f"upload the index to {dest}", log=log))
