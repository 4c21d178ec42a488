"""What a distribution asks for, and what of it an interpreter lacks.

Format: https://packaging.python.org/specifications/dependency-specifiers/.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path, PurePath

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tasks.core.dependencies import holds, readable
from tasks.core.model import Command
from tasks.knowledge.versions import major_minor
from tasks.system import shell
from tasks.wheels.files import wheelfile

_QUERY = """
import importlib.metadata as m, json
found = [(d.metadata["Name"] or "", d.version) for d in m.distributions()]
print(json.dumps(dict(reversed(found))))
"""


def installed(python: str, overlay: PurePath | None = None) -> Mapping[str, str]:
    """Name → version of what an interpreter finds, with the folder `overlay` before all else."""
    env = {**shell.host_env(), **({"PYTHONPATH": str(overlay)} if overlay else {})}
    told = shell.capture(Command((python, "-c", _QUERY), env, "list the packages"))
    return {canonicalize_name(name): version for name, version in json.loads(told).items()}


def lacking(asked: Iterable[str], have: Mapping[str, str]) -> tuple[str, ...]:
    """Those of the requirements that are not there in such a version. Pure."""
    return tuple(one for one in asked if not _met(Requirement(one), have))


def _met(asked: Requirement, have: Mapping[str, str]) -> bool:
    version = have.get(canonicalize_name(asked.name))
    return version is not None and asked.specifier.contains(version, prereleases=True)


def of_wheel(wheel: Path, python_version: str) -> tuple[str, ...]:
    """What a wheel's METADATA asks for on this machine and that Python, without its extras."""
    here: dict[str, str] = {
        **{name: str(value) for name, value in default_environment().items()},
        "python_full_version": python_version,
        "python_version": major_minor(python_version),
    }
    return tuple(_applying(_metadata(wheel).get_all("Requires-Dist", []), here))


def _applying(lines: Iterable[str], here: Mapping[str, str]) -> Iterator[str]:
    for asked in readable(lines):
        if holds(asked, here):
            asked.marker = None
            yield str(asked)


def _metadata(wheel: Path) -> Message:
    with wheelfile.opened(wheel) as archive:
        text = archive.read(wheelfile.described(archive, "METADATA"))
    return HeaderParser().parsestr(text.decode("utf-8"))
