"""The digests that an index lists for what is installed: of the very files, by their tags, and not
of those for other machines.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from tasks.core.errors import MissingToolError, TorchyardError
from tasks.core.model import LockedPackages
from tasks.system import files
from tasks.system.network import indexclient, indexes
from tasks.system.python.frozen import InstalledPackage
from tasks.system.voice import print_warning


@dataclass(frozen=True)
class DigestLister:
    """uv, asked for the interpreter `python`. `index` is beside the default one, `folder` one of
    ours for what is written.
    """

    uv: str | None
    python: str
    folder: PurePath
    log: PurePath

    def find_digests(self, packages: Iterable[InstalledPackage], index: str = "") -> LockedPackages:
        """Each pin with its digests. `FetchError` where the index has such a version no more."""
        wanted = {one.name: one for one in packages}
        if not wanted:
            return {}
        listed = dict(self._read_index_packages([one.pin for one in wanted.values()], index))
        return {one.pin: _select_digests(one, listed) for _, one in sorted(wanted.items())}

    def _read_index_packages(
        self, pins: list[str], index: str
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        if not self.uv:
            raise MissingToolError(
                "uv is needed to ask the index for digests", hint="pip install uv, beside doit"
            )
        asked, answer = self.folder / "pins.txt", self.folder / "pylock.toml"
        files.write_atomic(asked, "".join(f"{pin}\n" for pin in pins))
        argv = (self.uv, "pip", "compile", "--quiet", "--no-deps", "--no-header", "--python")
        form = ("--format", "pylock.toml", "--output-file", str(answer), "--upgrade")
        command = (*argv, self.python, *form, *indexes.build_extra_index_options(index), str(asked))
        indexclient.run_index_client(command, "ask the index for digests", self.log)
        with open(answer, "rb") as stream:  # noqa: PTH123 - a PurePath
            told = tomllib.load(stream)
        for package in told.get("packages", ()):
            yield canonicalize_name(package["name"]), package


def _select_digests(
    one: InstalledPackage, listed: Mapping[str, Mapping[str, Any]]
) -> tuple[str, ...]:
    package = listed.get(one.name, {})
    wheels = list(package.get("wheels", ()))
    sdists = [package["sdist"]] if "sdist" in package else []
    fit = [wheel for wheel in wheels if one.tags & _parse_wheel_tags(wheel)]
    if sdists and not fit:
        print_warning(f"{one.pin} came as an sdist: what its build asked for is not locked")
    chosen = fit or sdists or wheels
    found = {found["hashes"]["sha256"] for found in chosen if "sha256" in found.get("hashes", {})}
    if not found:
        raise TorchyardError(
            f"the index lists no sha256 for {one.pin}",
            hint="ask its owner for digests, or build without a lock: lock: false",
        )
    return tuple(sorted(found))


def _parse_wheel_tags(wheel: Mapping[str, Any]) -> frozenset[str]:
    place = wheel.get("url") or wheel.get("path", "")
    name = wheel.get("name") or PurePosixPath(unquote(urlsplit(str(place)).path)).name
    try:
        *_, tags = parse_wheel_filename(name)
    except InvalidWheelFilename:
        return frozenset()
    return frozenset(map(str, tags))
