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
from tasks.wheels.files.difference import Difference
from tasks.wheels.files.distribution import Installed
from tasks.wheels.files.recordfile import Row
from tasks.wheels.files.staging import Staged


@dataclass(frozen=True)
class Renewal:
    """`wheel` is to take the place of `before`, both verified. `here` is the installation of
    `before`, which was taken from one of `places`. `scratch` is a folder of ours on the same disk.
    """

    here: Installed
    before: Path
    places: tuple[PurePath, ...]
    wheel: Path
    scratch: PurePath
    python: str
    log: PurePath


def renew(renewal: Renewal) -> int | None:
    """How many files were written or removed; None where an installer has to do its work."""
    with zipfile.ZipFile(renewal.before) as old, zipfile.ZipFile(renewal.wheel) as new:
        change = difference.between(renewal.here, old, new)
        own = origin.again(_own(renewal.here), renewal.places, renewal.wheel)
        if change is None or own is None:
            return None
        try:
            staged = Staged(renewal.scratch)
            staged.unpack(new, (*change.written, *change.described))
            for name, data in own.items():
                staged.write(f"{change.info}/{name}", data)
            _exchange(renewal, change, staged)
        except OSError:  # a file in use, a folder in the way: an installer can tell
            return None
    return len(change.written) + len(change.vanished)


def _own(here: Installed) -> dict[str, bytes]:
    """What the installer left in dist-info, but RECORD."""
    found = {name: here.info / name for name in difference.OWN if name != "RECORD"}
    return {name: path.read_bytes() for name, path in found.items() if path.is_file()}


def _exchange(renewal: Renewal, change: Difference, staged: Staged) -> None:
    here, site = renewal.here, renewal.here.site
    info = site / change.info
    listed = {**staged.rows, **change.rows, **here.rows}
    _put_record(staged, listed.values(), here, here.info)
    for name in change.written:
        staged.put(name, site / name)
        _forget(site / name)
    for name in change.vanished:
        _remove(site / name, site)
    if here.info != info:
        here.info.rename(info)
    described = [name for name in staged.rows if name.startswith(f"{change.info}/")]
    for name in described:
        staged.put(name, site / name)
    for path in _others(info, site, {*described, f"{change.info}/RECORD"}):
        _remove(path, site)
    _put_record(staged, _rows(renewal, change, staged), here, info)


def _put_record(staged: Staged, listed: Iterable[Row], here: Installed, info: Path) -> None:
    staged.write("RECORD", recordfile.text(listed, here.ending).encode())
    del staged.rows["RECORD"]  # which has no row of its own making
    staged.put("RECORD", info / "RECORD")


def _others(info: Path, site: Path, names: set[str]) -> list[Path]:
    """What the dist-info of the wheel before had more."""
    found = [path for path in info.rglob("*") if path.is_file()]
    return [path for path in found if path.relative_to(site).as_posix() not in names]


def _forget(path: Path) -> None:
    """Bytecode of what was there; Python would see that it is old, if it looks."""
    if path.suffix == ".py":
        for found in (path.parent / "__pycache__").glob(f"{glob.escape(path.stem)}.*.pyc"):
            found.unlink()


def _remove(path: Path, site: Path) -> None:
    """Remove a file, and the folders that are empty without it."""
    path.unlink(missing_ok=True)
    _forget(path)
    with contextlib.suppress(OSError):  # one that is not empty
        for folder in path.relative_to(site).parents[:-1]:
            with contextlib.suppress(OSError):
                (site / folder / "__pycache__").rmdir()
            (site / folder).rmdir()


def _rows(renewal: Renewal, change: Difference, staged: Staged) -> Iterator[Row]:
    yield from {**change.rows, **staged.rows}.values()
    compiled = [row for row in change.kept if difference.is_bytecode(row.path)]
    yield from (row for row in change.kept if row not in compiled)
    written = {name for name in change.written if name.endswith(".py")}
    if compiled and written:
        yield from _compiled(renewal, compiled[0].path, sorted(written))
    for row in compiled:
        source = difference.source_of(row.path)
        if source not in written and source in change.rows:
            yield row


def _compiled(renewal: Renewal, example: str, sources: list[str]) -> Iterator[Row]:
    """pip compiles what it installs, and lists it; what does not compile it passes over."""
    site, listing = renewal.here.site, Path(renewal.scratch) / "sources"
    listing.write_text("".join(f"{site / name}\n" for name in sources), encoding="utf-8")
    argv = (renewal.python, "-m", "compileall", "-q", "-f", "-i", str(listing))
    with contextlib.suppress(CommandFailedError):
        shell.run(Command(argv, shell.host_env(), "compile what changed", log=renewal.log))
    tag = PurePosixPath(example).name.partition(".")[2]
    for name in sources:
        path = PurePosixPath(name)
        made = path.parent / "__pycache__" / f"{path.stem}.{tag}"
        if (site / made).is_file():
            yield Row(str(made))
