"""An installed distribution turned into that of a newer wheel: only what changed is written.

A file is never written where it lies, for a running Python has it mapped, and uv's cache may share
it: each is made elsewhere and renamed. At every moment RECORD lists all that is there, so that a
renewal that was cut off can be uninstalled, or installed over, by pip and by uv: first it lists the
files of both wheels, then they are put in place, then dist-info, and the new RECORD last.
"""

from __future__ import annotations

import contextlib
import glob
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath

from tasks.core.errors import CommandFailedError
from tasks.core.model import Command
from tasks.system import shell
from tasks.wheels.files import difference, origin, recordfile
from tasks.wheels.files.difference import WheelDifference
from tasks.wheels.files.distribution import InstalledWheel
from tasks.wheels.files.recordfile import RecordRow
from tasks.wheels.files.staging import StagedFiles


@dataclass(frozen=True)
class WheelUpdate:
    """`wheel` is to take the place of `before`, both verified. `here` is the installation of
    `before`, which was taken from one of `places`. `scratch` is a folder of ours on the same disk.
    """

    here: InstalledWheel
    before: Path
    places: tuple[PurePath, ...]
    wheel: Path
    scratch: PurePath
    python: str
    log: PurePath


def update_installed_wheel(renewal: WheelUpdate) -> int | None:
    """How many files were written or removed; None where an installer has to do its work."""
    with zipfile.ZipFile(renewal.before) as old, zipfile.ZipFile(renewal.wheel) as new:
        change = difference.compare_wheels(renewal.here, old, new)
        own = origin.build_installer_files(
            _read_installer_files(renewal.here), renewal.places, renewal.wheel
        )
        if change is None or own is None:
            return None
        try:
            staged = StagedFiles(renewal.scratch)
            staged.unpack_members(new, (*change.written, *change.described))
            for name, data in own.items():
                staged.write_file(f"{change.info}/{name}", data)
            _swap_files(renewal, change, staged)
        except OSError:  # a file in use, a folder in the way: an installer can tell
            return None
    return len(change.written) + len(change.vanished)


def _read_installer_files(here: InstalledWheel) -> dict[str, bytes]:
    """What the installer left in dist-info, but RECORD."""
    found = {name: here.info / name for name in difference.INSTALLER_FILES if name != "RECORD"}
    return {name: path.read_bytes() for name, path in found.items() if path.is_file()}


def _swap_files(renewal: WheelUpdate, change: WheelDifference, staged: StagedFiles) -> None:
    here, site = renewal.here, renewal.here.site
    info = site / change.info
    listed = {**staged.rows, **change.rows, **here.rows}
    _write_record(staged, listed.values(), here, here.info)
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
    for path in _find_leftover_files(info, site, {*described, f"{change.info}/RECORD"}):
        _remove_file(path, site)
    _write_record(staged, _list_new_rows(renewal, change, staged), here, info)


def _write_record(
    staged: StagedFiles, listed: Iterable[RecordRow], here: InstalledWheel, info: Path
) -> None:
    staged.write_file("RECORD", recordfile.format_record(listed, here.ending).encode())
    del staged.rows["RECORD"]  # which has no row of its own making
    staged.move_into_place("RECORD", info / "RECORD")


def _find_leftover_files(info: Path, site: Path, names: set[str]) -> list[Path]:
    """What the dist-info of the wheel before had more."""
    found = [path for path in info.rglob("*") if path.is_file()]
    return [path for path in found if path.relative_to(site).as_posix() not in names]


def _remove_bytecode(path: Path) -> None:
    """Bytecode of what was there; Python would see that it is old, if it looks."""
    if path.suffix == ".py":
        for found in (path.parent / "__pycache__").glob(f"{glob.escape(path.stem)}.*.pyc"):
            found.unlink()


def _remove_file(path: Path, site: Path) -> None:
    """Remove a file, and the folders that are empty without it."""
    path.unlink(missing_ok=True)
    _remove_bytecode(path)
    with contextlib.suppress(OSError):  # one that is not empty
        for folder in path.relative_to(site).parents[:-1]:
            with contextlib.suppress(OSError):
                (site / folder / "__pycache__").rmdir()
            (site / folder).rmdir()


def _list_new_rows(
    renewal: WheelUpdate, change: WheelDifference, staged: StagedFiles
) -> Iterator[RecordRow]:
    yield from {**change.rows, **staged.rows}.values()
    compiled = [row for row in change.kept if difference.is_bytecode(row.path)]
    yield from (row for row in change.kept if row not in compiled)
    written = {name for name in change.written if name.endswith(".py")}
    if compiled and written:
        yield from _compile_bytecode(renewal, compiled[0].path, sorted(written))
    for row in compiled:
        source = difference.find_bytecode_source(row.path)
        if source not in written and source in change.rows:
            yield row


def _compile_bytecode(
    renewal: WheelUpdate, example: str, sources: list[str]
) -> Iterator[RecordRow]:
    """pip compiles what it installs, and lists it; what does not compile it passes over."""
    site, listing = renewal.here.site, Path(renewal.scratch) / "sources"
    listing.write_text("".join(f"{site / name}\n" for name in sources), encoding="utf-8")
    argv = (renewal.python, "-m", "compileall", "-q", "-f", "-i", str(listing))
    with contextlib.suppress(CommandFailedError):
        shell.run_command(
            Command(argv, shell.build_host_env(), "compile what changed", log=renewal.log)
        )
    tag = PurePosixPath(example).name.partition(".")[2]
    for name in sources:
        path = PurePosixPath(name)
        made = path.parent / "__pycache__" / f"{path.stem}.{tag}"
        if (site / made).is_file():
            yield RecordRow(str(made))
