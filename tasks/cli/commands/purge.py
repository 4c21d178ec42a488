"""`doit purge`: remove what this profile made and nobody else needs.

That is its build folder and the wheels in the wheelhouse that no other
profile's manifest names. What was installed into a person's own interpreter (strategy existing)
stays, and so does what may be the only copy: what install.into replaced, and sources in which
somebody worked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from tasks.core.errors import NotOwnedError
from tasks.core.formatting.size import size
from tasks.lock.profile import Subject
from tasks.stages.install.transaction import journal
from tasks.stages.source.yours import yours
from tasks.system import files, git
from tasks.system.typed import with_profile
from tasks.system.voice import show
from tasks.wheels.files import wheelhouse


def run(subject: Subject, yes: bool = False) -> None:
    """Show what would go, and with `yes` remove it."""
    layout = subject.of_build().layout
    build = Path(layout.build)
    if build.exists() and not files.is_owned(build):
        raise NotOwnedError("torchyard did not make this and will not remove it", where=str(build))
    wheels = sorted(_ours_alone(build, Path(layout.wheelhouse)))
    if not build.exists() and not wheels:
        show("nothing of this profile is there to remove")
        return
    stays = dict(_stays(build))
    _show((build, *wheels), "removing" if yes else "would remove")
    for name, why in stays.items():
        show(f"but {build / name} stays: {why}")
    if not yes:
        show("nothing was removed; to do it: doit purge --yes" + with_profile(subject.name))
        return
    if build.exists():
        _remove(build, wheels, but=tuple(stays))


def _show(paths: Iterable[Path], verb: str) -> None:
    for path in paths:
        if path.exists():
            show(f"{verb} {path} ({size(_bytes(path) / 2**20)})")


def _remove(build: Path, wheels: Iterable[Path], but: tuple[str, ...]) -> None:
    with files.lock(build):  # nobody is at work in it
        for wheel in wheels:
            _remove_wheel(wheel)
        if but:
            files.empty_owned(build, but=but)
    if not but:
        files.remove_owned(build)


def _stays(build: Path) -> Iterator[tuple[str, str]]:
    """What must not go, by its path in the build folder: why, and what to do."""
    if why := _replaced(build / "replaced"):
        yield "replaced", why
    if trees := yours(build / "src"):
        yield "src", "; ".join(_worked(tree, held) for tree, held in trees.items())
    for clone in sorted(build.glob("extensions/*/clone")):
        if held := git.own_work(clone):
            yield clone.relative_to(build).as_posix(), _worked(clone, held)


def _worked(tree: Path, held: Iterable[str]) -> str:
    return (
        f"{tree} holds {' and '.join(held)} of your own; push or copy them, and remove it yourself "
        "once you need none"
    )


def _replaced(replaced: Path) -> str:
    """Why what was replaced must not go, and what to do; "" where there is nothing."""
    stamps = list(journal.stamps(replaced))
    if there := [one.prefix for stamp in stamps if (one := journal.lies(stamp))]:
        return f"it holds what was in {', '.join(there)} before; doit restore puts that back"
    own = any((stamp / journal.ASIDE).is_dir() for stamp in stamps)
    return "it holds files of your own; remove it yourself once you need none" if own else ""


def _remove_wheel(wheel: Path) -> None:
    """With the line on where it is from, and the statement."""
    wheel.unlink()
    wheelhouse.statement_of(wheel).unlink(missing_ok=True)
    Path(wheelhouse.origin_of(wheel)).unlink(missing_ok=True)


def _ours_alone(build: Path, house: Path) -> Iterator[Path]:
    needed = {name for other in build.parent.glob("*") if other != build for name in _named(other)}
    places = (house / name for name in set(_named(build)) - needed)
    yield from (place for place in places if place.is_file())


def _named(build: Path) -> Iterator[str]:
    """The wheels that the manifests of a build folder name."""
    for manifest in [*build.glob("*.json"), *build.glob("extensions/*.json")]:
        try:
            found = json.loads(manifest.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(found, dict) and isinstance(found.get("artifact"), dict):
            yield Path(str(found["artifact"].get("name", ""))).name


def _bytes(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(item.lstat().st_size for item in path.rglob("*") if not item.is_dir())
