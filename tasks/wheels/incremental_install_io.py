"""Update an installed wheel in place, including the files that uv and pip write to dist-info."""

import contextlib
import glob
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from urllib.parse import quote
from zipfile import ZipFile

from tasks.core.errors import CommandFailedError
from tasks.core.model import Command
from tasks.system import files, shell
from tasks.wheels import installed_wheel_io, wheel_archive_io, wheel_record
from tasks.wheels.installed_wheel_io import InstalledWheel, WheelDifference
from tasks.wheels.wheel_record import RecordRow

# Characters that are not quoted in a URL: uv quotes fewer characters than pip
_SAFE_URL_CHARACTERS = {"uv": "/!$&'()*+,;:=@[]|^~", "pip": "/:" if os.name == "nt" else "/"}


def _build_installer_files(
    own: Mapping[str, bytes], old: Iterable[PurePath], new: Path
) -> dict[str, bytes] | None:
    """Return the files that pip or uv adds to dist-info for `new`, such as direct_url.json.

    `own` has their old contents by name. Returns `None` if these cannot be updated.
    """
    contents = dict(own)
    installer = own.get("INSTALLER", b"").decode().strip()
    if installer not in _SAFE_URL_CHARACTERS:
        return None
    try:
        if (direct_url := own.get("direct_url.json")) is not None:
            contents["direct_url.json"] = _build_direct_url(direct_url, installer, old, new)
        if (uv_cache := own.get("uv_cache.json")) is not None:
            contents["uv_cache.json"] = _build_uv_cache(uv_cache, new)
    except (ValueError, KeyError, AttributeError, TypeError):
        return None
    return contents


def _build_direct_url(present: bytes, installer: str, old: Iterable[PurePath], new: Path) -> bytes:
    """Return direct_url.json (PEP 610) for `new`, in the format of the old file `present`."""

    def format_direct_url(wheel: PurePath, digest: str) -> bytes:
        path = f"/{wheel.as_posix().removeprefix('/')}"
        url = f"file://{quote(path, safe=_SAFE_URL_CHARACTERS[installer])}"
        if installer == "uv":
            return json.dumps({"url": url, "archive_info": {}}, separators=(",", ":")).encode()
        # pip writes the digest twice, before 23.1 once or not at all
        hashes = {"hashes": {"sha256": digest}} if twice else {}
        info = {"hash": f"sha256={digest}", **hashes} if digest else {}
        return json.dumps({"archive_info": info, "url": url}, sort_keys=True).encode()

    archive_info = json.loads(present)["archive_info"]
    digest, twice = archive_info.get("hash", "").removeprefix("sha256="), "hashes" in archive_info
    if not any(format_direct_url(path, digest) == present for path in old):
        raise ValueError("direct_url.json has an unknown format or belongs to another wheel")
    return format_direct_url(new, files.read_artifact(new).sha256 if digest else "")


def _build_uv_cache(present: bytes, new: Path) -> bytes:
    """Return uv_cache.json with the ctime (on Windows, the mtime) of the new wheel."""
    recorded, status = json.loads(present)["timestamp"], new.stat()
    new_time = status.st_mtime_ns if sys.platform == "win32" else status.st_ctime_ns
    old_time = recorded["secs_since_epoch"] * 10**9 + recorded["nanos_since_epoch"]
    if _format_uv_timestamp(old_time) != present:
        raise ValueError("this uv writes uv_cache.json in an unknown format")
    return _format_uv_timestamp(new_time)


def _format_uv_timestamp(nanoseconds: int) -> bytes:
    seconds, rest = divmod(nanoseconds, 10**9)
    timestamp = {"secs_since_epoch": seconds, "nanos_since_epoch": rest}
    document = {"timestamp": timestamp, "commit": None, "tags": None, "env": {}, "directories": {}}
    return json.dumps(document, separators=(",", ":")).encode()


class _StagedFiles:
    """New files of an installation, kept in a temporary directory until they are moved."""

    def __init__(self, folder: PurePath) -> None:
        files.remove_owned(folder)
        self.folder = files.create_owned_folder(folder)
        self.rows: dict[str, RecordRow] = {}
        self._paths: dict[str, Path] = {}

    def unpack_members(self, wheel: ZipFile, names: Iterable[str]) -> None:
        """Stage the members `names`, with the file modes that uv and pip would set."""
        recorded = wheel_archive_io.read_record(wheel)
        for name in names:
            member = wheel.getinfo(name)
            path = self._paths[name] = self.folder / f"{len(self._paths)}"
            with wheel.open(member) as source, path.open("xb") as target:
                digest = wheel_archive_io.copy_and_hash(source, target)
            if digest != recorded[name]:
                raise wheel_archive_io.build_member_error(name, PurePath(wheel.filename or ""))
            if member.external_attr >> 16 & 0o111:
                path.chmod(path.stat().st_mode | 0o111)
            self.rows[name] = RecordRow(name, digest, str(member.file_size))

    def write_file(self, name: str, data: bytes) -> None:
        """Stage a file with the content `data`. It replaces a staged file of the same name."""
        path = self._paths[name] = self.folder / f"{len(self._paths)}"
        path.write_bytes(data)
        digest = wheel_record.encode_digest(hashlib.sha256(data).digest())
        self.rows[name] = RecordRow(name, digest, str(len(data)))

    def move_into_place(self, name: str, target: Path) -> None:
        """Move a staged file to `target`, replacing any existing file."""
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(self._paths[name], target)  # noqa: PTH105 - a test patches this call


@dataclass(frozen=True)
class WheelUpdate:
    """An update of the installation `here` from the wheel file `before` to the new file `wheel`.

    Both wheels have been verified. `places` are possible earlier paths of `before`. `scratch` is a
    temporary directory. `python` is the interpreter of the installation.
    """

    here: InstalledWheel
    before: Path
    places: tuple[PurePath, ...]
    wheel: Path
    scratch: PurePath
    python: str
    log: PurePath


def update_installed_wheel(update: WheelUpdate) -> int | None:
    """Update the files and return how many changed, or None if pip or uv must install the wheel."""
    with ZipFile(update.before) as old, ZipFile(update.wheel) as new:
        change = installed_wheel_io.compare_wheels(update.here, old, new)
        paths = [update.here.info / name for name in installed_wheel_io.INSTALLER_FILES]
        present = {p.name: p.read_bytes() for p in paths if p.name != "RECORD" and p.is_file()}
        installer_files = _build_installer_files(present, update.places, update.wheel)
        if change is None or installer_files is None:
            return None
        try:
            staged = _StagedFiles(update.scratch)
            staged.unpack_members(new, (*change.written, *change.described))
            for name, data in installer_files.items():
                staged.write_file(f"{change.info}/{name}", data)
            _swap_files(update, change, staged)
        except OSError:  # such as a file in use: the installer reports this problem
            return None
    return len(change.written) + len(change.vanished)


def _swap_files(update: WheelUpdate, change: WheelDifference, staged: _StagedFiles) -> None:
    here, site = update.here, update.here.site
    info = site / change.info

    def write_record(rows: Iterable[RecordRow], folder: Path) -> None:
        staged.write_file("RECORD", wheel_record.format_record(rows, here.ending).encode())
        del staged.rows["RECORD"]  # RECORD lists itself without a digest
        staged.move_into_place("RECORD", folder / "RECORD")

    write_record({**staged.rows, **change.rows, **here.rows}.values(), here.info)
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
    write_record(_list_new_rows(update, change, staged), info)


def _remove_bytecode(path: Path) -> None:
    """Remove the bytecode of a changed source file, because Python may load outdated bytecode."""
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
    update: WheelUpdate, change: WheelDifference, staged: _StagedFiles
) -> Iterator[RecordRow]:
    yield from {**change.rows, **staged.rows}.values()
    compiled = [row for row in change.kept if installed_wheel_io.is_bytecode(row.path)]
    yield from (row for row in change.kept if row not in compiled)
    written = {name for name in change.written if name.endswith(".py")}
    if compiled and written:
        tag = PurePosixPath(compiled[0].path).name.partition(".")[2]  # "cpython-313.pyc"
        yield from _compile_bytecode(update, tag, sorted(written))
    for row in compiled:
        source = installed_wheel_io.find_bytecode_source(row.path)
        if source not in written and source in change.rows:
            yield row


def _compile_bytecode(update: WheelUpdate, tag: str, sources: list[str]) -> Iterator[RecordRow]:
    """Compile `sources` as pip does, and yield the RECORD rows of the bytecode."""
    site, listing = update.here.site, Path(update.scratch) / "sources"
    listing.write_text("".join(f"{site / name}\n" for name in sources), encoding="utf-8")
    argv = (update.python, "-m", "compileall", "-q", "-f", "-i", str(listing))
    env, purpose = shell.build_host_env(), "compile the changed Python files"
    with contextlib.suppress(CommandFailedError):
        shell.run_command(Command(argv, env, purpose, log=update.log))
    for path in map(PurePosixPath, sources):
        bytecode = path.parent / "__pycache__" / f"{path.stem}.{tag}"
        if (site / bytecode).is_file():
            yield RecordRow(str(bytecode))
