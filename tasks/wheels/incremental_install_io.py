"""Update an installed wheel in place, including the files that uv and pip write to dist-info.

The format of an installer's file is known only if the present file is, byte for byte, the file
expected for the previous wheel. Otherwise the wheel is not updated in place.
"""

import contextlib
import glob
import hashlib
import json
import os
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from urllib.parse import quote

from tasks.core.errors import CommandFailedError
from tasks.core.model import Command
from tasks.system import files, shell
from tasks.wheels import installed_wheel_io, wheel_archive_io, wheel_record
from tasks.wheels.installed_wheel_io import InstalledWheel, WheelDifference
from tasks.wheels.wheel_record import RecordRow

# Characters that are not quoted in a URL: uv quotes fewer characters than pip
_SAFE_URL_CHARACTERS = {"uv": "/!$&'()*+,;:=@[]|^~", "pip": "/:" if os.name == "nt" else "/"}


def build_installer_files(
    own: Mapping[str, bytes], old: Iterable[PurePath], new: Path
) -> dict[str, bytes] | None:
    """Return the installer's files for the wheel `new` by name, None for an unknown format.

    `own` are the present files of the installer, `old` the possible paths of the previous wheel.
    """
    contents = dict(own)
    installer = own.get("INSTALLER", b"").decode().strip()
    if installer not in _SAFE_URL_CHARACTERS:
        return None
    try:
        if "direct_url.json" in own:
            contents["direct_url.json"] = _build_direct_url(
                own["direct_url.json"], installer, old, new
            )
        if "uv_cache.json" in own:
            contents["uv_cache.json"] = _build_uv_cache(own["uv_cache.json"], new)
    except (ValueError, KeyError, AttributeError, TypeError):
        return None
    return contents


def _build_direct_url(present: bytes, installer: str, old: Iterable[PurePath], new: Path) -> bytes:
    """Return direct_url.json (PEP 610) for the new wheel; raise an error for an unknown format.

    uv writes no digest and no spaces. pip writes the digest twice, before 23.1 once or not at all.
    """
    archive_info = json.loads(present)["archive_info"]
    digest = archive_info.get("hash", "").removeprefix("sha256=")
    twice = "hashes" in archive_info
    if not any(
        _format_direct_url(place, digest, installer, twice=twice) == present for place in old
    ):
        raise ValueError("another format or another wheel")
    new_digest = files.read_artifact(new).sha256 if digest else ""
    return _format_direct_url(new, new_digest, installer, twice=twice)


def _format_direct_url(wheel: PurePath, digest: str, installer: str, *, twice: bool) -> bytes:
    posix = wheel.as_posix()
    path = posix if posix.startswith("/") else f"/{posix}"
    url = f"file://{quote(path, safe=_SAFE_URL_CHARACTERS[installer])}"
    if installer == "uv":
        return json.dumps({"url": url, "archive_info": {}}, separators=(",", ":")).encode()
    hashes = {"hashes": {"sha256": digest}} if twice else {}
    archive_info = {"hash": f"sha256={digest}", **hashes} if digest else {}
    return json.dumps({"archive_info": archive_info, "url": url}, sort_keys=True).encode()


def _build_uv_cache(present: bytes, new: Path) -> bytes:
    """Return uv_cache.json with the ctime (on Windows, the mtime) of the new wheel."""
    stamp = json.loads(present)["timestamp"]
    nanoseconds = stamp["secs_since_epoch"] * 10**9 + stamp["nanos_since_epoch"]
    if _format_uv_timestamp(nanoseconds) != present:
        raise ValueError("another format")
    status = new.stat()
    new_time = status.st_mtime_ns if sys.platform == "win32" else status.st_ctime_ns
    return _format_uv_timestamp(new_time)


def _format_uv_timestamp(nanoseconds: int) -> bytes:
    seconds, rest = divmod(nanoseconds, 10**9)
    timestamp = {"secs_since_epoch": seconds, "nanos_since_epoch": rest}
    document = {"timestamp": timestamp, "commit": None, "tags": None, "env": {}, "directories": {}}
    return json.dumps(document, separators=(",", ":")).encode()


class StagedFiles:
    """New files of an installation, kept in a temporary directory until they are moved."""

    def __init__(self, folder: PurePath) -> None:
        files.remove_owned(folder)
        self.folder = files.create_owned_folder(folder)
        self.rows: dict[str, RecordRow] = {}
        self._places: dict[str, Path] = {}

    def unpack_members(self, wheel: zipfile.ZipFile, names: Iterable[str]) -> None:
        """Extract `names` with the default file mode and executable bits, like uv and pip."""
        recorded = wheel_archive_io.read_record(wheel)
        for name in names:
            member = wheel.getinfo(name)
            place = self._places[name] = self.folder / f"{len(self._places)}"
            with wheel.open(member) as source, place.open("xb") as target:
                digest = wheel_archive_io.copy_and_hash(source, target)
            if digest != recorded[name]:
                raise wheel_archive_io.build_member_error(name, PurePath(wheel.filename or ""))
            if member.external_attr >> 16 & 0o111:
                place.chmod(place.stat().st_mode | 0o111)
            self.rows[name] = RecordRow(name, digest, str(member.file_size))

    def write_file(self, name: str, data: bytes) -> None:
        """Stage a file with the content `data`, instead of any staged file of the same name."""
        place = self._places[name] = self.folder / f"{len(self._places)}"
        place.write_bytes(data)
        digest = wheel_record.encode_digest(hashlib.sha256(data).digest())
        self.rows[name] = RecordRow(name, digest, str(len(data)))

    def move_into_place(self, name: str, target: Path) -> None:
        """Move a staged file to `target`, and replace an existing file there."""
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(self._places[name], target)  # noqa: PTH105 - a test patches this call


@dataclass(frozen=True)
class WheelUpdate:
    """An update of the installation `here` from the wheel `before` to the wheel `wheel`.

    Both wheels are verified. `places` are the paths from which `before` may have been installed.
    `scratch` is a managed directory on the same disk as the installation.
    """

    here: InstalledWheel
    before: Path
    places: tuple[PurePath, ...]
    wheel: Path
    scratch: PurePath
    python: str
    log: PurePath


def update_installed_wheel(update: WheelUpdate) -> int | None:
    """Update the installation and return the number of changed files, None to use an installer."""
    with zipfile.ZipFile(update.before) as old, zipfile.ZipFile(update.wheel) as new:
        change = installed_wheel_io.compare_wheels(update.here, old, new)
        paths = [update.here.info / name for name in installed_wheel_io.INSTALLER_FILES]
        present = {p.name: p.read_bytes() for p in paths if p.name != "RECORD" and p.is_file()}
        installer_files = build_installer_files(present, update.places, update.wheel)
        if change is None or installer_files is None:
            return None
        try:
            staged = StagedFiles(update.scratch)
            staged.unpack_members(new, (*change.written, *change.described))
            for name, data in installer_files.items():
                staged.write_file(f"{change.info}/{name}", data)
            _swap_files(update, change, staged)
        except OSError:  # a file in use or a directory at this path: the installer reports this
            return None
    return len(change.written) + len(change.vanished)


def _swap_files(update: WheelUpdate, change: WheelDifference, staged: StagedFiles) -> None:
    here, site = update.here, update.here.site
    info = site / change.info
    all_rows = {**staged.rows, **change.rows, **here.rows}
    _write_record(staged, all_rows.values(), here, here.info)
    for name in change.written:
        staged.move_into_place(name, site / name)
        _remove_bytecode(site / name)
    for name in change.vanished:
        _remove_file(site / name, site)
    if here.info != info:
        here.info.rename(info)
    described = [name for name in staged.rows if name.startswith(f"{change.info}/")]
    for name in described:
        staged.move_into_place(name, site / name)
    new_members = {*described, f"{change.info}/RECORD"}
    for path in [*info.rglob("*")]:  # remove files of the previous wheel
        if path.is_file() and path.relative_to(site).as_posix() not in new_members:
            _remove_file(path, site)
    _write_record(staged, _list_new_rows(update, change, staged), here, info)


def _write_record(
    staged: StagedFiles, rows: Iterable[RecordRow], here: InstalledWheel, info: Path
) -> None:
    staged.write_file("RECORD", wheel_record.format_record(rows, here.ending).encode())
    del staged.rows["RECORD"]  # RECORD lists itself without a digest
    staged.move_into_place("RECORD", info / "RECORD")


def _remove_bytecode(path: Path) -> None:
    """Remove the bytecode of a source file, because Python may use stale bytecode."""
    if path.suffix == ".py":
        for bytecode in (path.parent / "__pycache__").glob(f"{glob.escape(path.stem)}.*.pyc"):
            bytecode.unlink()


def _remove_file(path: Path, site: Path) -> None:
    """Remove a file, its bytecode, and the directories that become empty."""
    path.unlink(missing_ok=True)
    _remove_bytecode(path)
    with contextlib.suppress(OSError):  # the directory is not empty
        for folder in path.relative_to(site).parents[:-1]:
            with contextlib.suppress(OSError):
                (site / folder / "__pycache__").rmdir()
            (site / folder).rmdir()


def _list_new_rows(
    update: WheelUpdate, change: WheelDifference, staged: StagedFiles
) -> Iterator[RecordRow]:
    yield from {**change.rows, **staged.rows}.values()
    compiled = [row for row in change.kept if installed_wheel_io.is_bytecode(row.path)]
    yield from (row for row in change.kept if row not in compiled)
    written = {name for name in change.written if name.endswith(".py")}
    if compiled and written:
        yield from _compile_bytecode(update, compiled[0].path, sorted(written))
    for row in compiled:
        source = installed_wheel_io.find_bytecode_source(row.path)
        if source not in written and source in change.rows:
            yield row


def _compile_bytecode(update: WheelUpdate, example: str, sources: list[str]) -> Iterator[RecordRow]:
    """Compile `sources` as pip does, and yield the RECORD rows of the bytecode."""
    site, listing = update.here.site, Path(update.scratch) / "sources"
    listing.write_text("".join(f"{site / name}\n" for name in sources), encoding="utf-8")
    argv = (update.python, "-m", "compileall", "-q", "-f", "-i", str(listing))
    env, purpose = shell.build_host_env(), "compile the changed Python files"
    with contextlib.suppress(CommandFailedError):
        shell.run_command(Command(argv, env, purpose, log=update.log))
    tag = PurePosixPath(example).name.partition(".")[2]
    for name in sources:
        path = PurePosixPath(name)
        bytecode = path.parent / "__pycache__" / f"{path.stem}.{tag}"
        if (site / bytecode).is_file():
            yield RecordRow(str(bytecode))
