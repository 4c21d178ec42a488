"""What an installer would put into a person's environment, without doing it.

uv decides, or pip where uv cannot run: the same one that unpacks it afterwards, since the two do
not look at indexes in the same order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath

from packaging.utils import canonicalize_name

from tasks.core.errors import TorchyardError
from tasks.system import files, shell
from tasks.system.network import indexclient, indexes

_DRY_RUN_LINE = re.compile(
    r"^ [+~] ([A-Za-z0-9][\w.-]*)==(\S+)"
)  # `- name==1.0` is what it replaces


@dataclass(frozen=True)
class Installer:
    """Who resolves and unpacks for the interpreter `python` of the environment `prefix`: `uv`, or,
    where that is None, the pip of the interpreter `pip`. `folder` is one of ours for what they have
    to write. `index` is beside the default one.
    """

    python: str
    prefix: Path
    uv: str | None
    pip: str
    folder: Path
    log: PurePath
    index: str = ""
    constraints: tuple[str, ...] = ()

    def run_command(self, argv: Sequence[str], what: str) -> list[str]:
        """Its lines. A failure is explained by its kind."""
        lines: list[str] = []
        indexclient.run_index_client(
            argv, what, self.log, _build_installer_environment(), lines.append
        )
        return lines

    def build_command(self, *options: str) -> tuple[str, ...]:
        """The command for an install with these options. Pure."""
        if self.uv:
            first = (self.uv, "pip", "install", "--no-progress", "--color", "never")
            return (
                *first,
                "--python",
                self.python,
                *indexes.build_extra_index_options(self.index),
                *options,
            )
        first = (self.pip, "-m", "pip", "--python", self.python, "install")
        quiet = ("--disable-pip-version-check", "--no-input", "--progress-bar", "off")
        return (*first, *quiet, *indexes.build_extra_index_options(self.index), *options)


def resolve_requirements(
    by: Installer, wanted: Sequence[str], again: Sequence[str]
) -> Mapping[str, str]:
    """Normalized name → version of everything that would be installed or replaced for `wanted`,
    requirements or paths of wheels; those in `again` also where their version lies there.
    """
    constraints = by.folder / "constraints.txt"
    files.write_atomic(constraints, "".join(f"{pin}\n" for pin in by.constraints))
    what = "find out what torch needs there"
    options = ("--dry-run", "-c", str(constraints))
    if not by.uv:
        report = by.folder / "report.json"
        by.run_command(by.build_command(*options, "--report", str(report), *wanted), what)
        return _parse_pip_report(report)
    forced = (part for name in again for part in ("--reinstall-package", name))
    with _remove_uv_lock(by.prefix):
        lines = by.run_command(by.build_command(*options, *forced, *wanted), what)
    found = [match.groups() for line in lines if (match := _DRY_RUN_LINE.match(line))]
    return {canonicalize_name(name): version for name, version in found}


def _parse_pip_report(report: Path) -> Mapping[str, str]:
    found = json.loads(report.read_text(encoding="utf-8"))["install"]
    named = [one["metadata"] for one in found]
    return {canonicalize_name(one["name"]): one["version"] for one in named}


def unpack_wheels(by: Installer, staged: PurePath, wanted: Sequence[str]) -> None:
    """Install exactly `wanted`, as if the folder `staged` were the prefix of the environment: with
    the scripts, and the RECORD, that it would have there.
    """
    options = ("--prefix", str(staged), "--no-deps", *_list_unpack_options(by), *wanted)
    by.run_command(by.build_command(*options), "unpack what is to be installed")


def _list_unpack_options(by: Installer) -> tuple[str, ...]:
    """Bytecode would name the folder that it was made in."""
    if by.uv:
        return ("--no-compile-bytecode",)
    return ("--no-compile", "--ignore-installed", "--no-warn-script-location")


def _build_installer_environment() -> dict[str, str]:
    """With links, what lies there would be a part of uv's cache, which a person may clean."""
    given = shell.build_installer_env()
    return {n: v for n, v in given.items() if (n, v) != ("UV_LINK_MODE", "symlink")}


@contextmanager
def _remove_uv_lock(prefix: Path) -> Iterator[None]:
    """uv leaves an empty file in an environment that it only looked at."""
    lock = prefix / ".lock"
    was_there = lock.exists()
    try:
        yield
    finally:
        if not was_there:
            lock.unlink(missing_ok=True)


def require_versions(
    found: Mapping[str, str], expected: Mapping[str, str], where: PurePath
) -> None:
    """`BuildError` where not exactly what was resolved was unpacked."""
    if dict(found) != dict(expected):
        raise TorchyardError(
            f"unpacked were {_format_versions(found)}, and {_format_versions(expected)} were meant; nothing was changed",
            location=str(where),
        )


def _format_versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items())) or "none"
