"""`doit purge`: remove what this profile made and nobody else needs.

That is its build folder and the wheels in the wheelhouse that no other
profile's manifest names. What was installed into a person's own interpreter (strategy existing)
stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tasks.effects import files
from tasks.effects.voice import show
from tasks.errors import BuildError
from tasks.reports.subject import Subject


def run(subject: Subject, yes: bool = False) -> None:
    """Show what would go, and with `yes` remove it."""
    if subject.opened is None:
        raise subject.problem or BuildError("this profile did not open")
    layout = subject.opened.layout
    build = Path(layout.build)
    wheels = sorted(_ours_alone(build, Path(layout.wheelhouse)))
    for path in (build, *wheels):
        if path.exists():
            show(f"{'removing' if yes else 'would remove'} {path} ({_size(path) // 2**20:,} MiB)")
    if not yes:
        show("nothing was removed; to do it: doit purge --yes" + _with_profile(subject))
        return
    if build.exists():
        with files.lock(build):  # nobody is at work in it
            for wheel in wheels:
                wheel.unlink()
        files.remove_owned(build)


def _with_profile(subject: Subject) -> str:
    return "" if subject.name == "quickstart" else f" profile={subject.name}"


def _ours_alone(build: Path, wheelhouse: Path) -> Iterator[Path]:
    needed = {name for other in build.parent.glob("*") if other != build for name in _named(other)}
    for name in set(_named(build)) - needed:
        if (wheelhouse / name).is_file():
            yield wheelhouse / name


def _named(build: Path) -> Iterator[str]:
    """The wheels that the manifests of a build folder name."""
    for manifest in [*build.glob("*.json"), *build.glob("extensions/*.json")]:
        try:
            found = json.loads(manifest.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(found, dict) and isinstance(found.get("artifact"), dict):
            yield str(found["artifact"].get("name", ""))


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(item.lstat().st_size for item in path.rglob("*") if not item.is_dir())
