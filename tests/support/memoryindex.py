"""A package index in memory. It keeps a list of what was asked of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import BinaryIO

from tasks.core.errors import FetchError
from tasks.core.package_files import IndexFile

Members = Mapping[str, str]
LINUX_TAG = "manylinux_2_28_x86_64"
CUDA_13_2 = {"13.2": {"x86_64": {75, 90, 120}}}


@dataclass
class MemoryIndex:
    """The `projects` have wheels by file name, with the texts of their members.

    `asked` are the projects whose files were listed, `read` the wheels that were read. With
    `problem`, every request fails; with a wheel in `unreadable`, so does reading that wheel.
    """

    projects: Mapping[str, Mapping[str, Members]]
    url: str = "https://pypi.org/simple"
    problem: str = ""
    unreadable: Sequence[str] = ()
    yanked: Sequence[str] = ()
    asked: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)

    def list_files(self, project: str) -> tuple[IndexFile, ...]:
        if self.problem:
            raise FetchError(self.problem, location=self.url)
        self.asked.append(project)
        wheels = self.projects.get(project, {})
        return tuple(self.make_file(name, content) for name, content in wheels.items())

    def make_file(self, name: str, content: Members) -> IndexFile:
        digest = hashlib.sha256(repr(sorted(content.items())).encode()).hexdigest()
        return IndexFile(name, f"{self.url}/{name}", digest, yanked=name in self.yanked)

    def read_members(self, file: IndexFile, names: Sequence[str]) -> Mapping[str, bytes]:
        if self.problem or file.name in self.unreadable:
            raise FetchError(self.problem or f"{file.name} cannot be read", location=self.url)
        self.read.append(file.name)
        wheels = {name: one for project in self.projects.values() for name, one in project.items()}
        return {
            name: text.encode()
            for name, text in wheels[file.name].items()
            if any(fnmatchcase(name, pattern) for pattern in names)
        }

    def open_member(self, file: IndexFile, name: str) -> AbstractContextManager[BinaryIO]:
        raise AssertionError(f"{name} of {file.name} is too large to be read")


def name_wheel(project: str, version: str, python: str = "cp312", tag: str = LINUX_TAG) -> str:
    abi = "none" if python.startswith("py") else python
    return f"{project}-{version}-{python}-{abi}-{tag}.whl"


def build_torch(
    version: str,
    cuda: str | None = "13.2",
    code: Mapping[str, Mapping[str, set[int]]] | None = None,
    requires: Sequence[str] = ("triton~=3.9.0",),
) -> dict[str, str]:
    """Return the members of a torch wheel; `code` is the table of archs by CUDA and machine."""
    table = CUDA_13_2 if code is None else code
    required = "".join(f"Requires-Dist: {one}\n" for one in requires)
    return {
        f"torch-{version}.dist-info/METADATA": build_metadata("torch", version) + required,
        "torch/version.py": f"__version__ = {version!r}\ncuda = {cuda!r}\n",
        "torch/cuda/__init__.py": f"PYTORCH_RELEASES_CODE_CC = {table!r}\n",
    }


def build_companion(project: str, version: str, torch: str) -> dict[str, str]:
    """Return the members of a wheel that requires a torch: ==2.15.0, or "" for none."""
    required = f"Requires-Dist: torch{torch}\n" if torch else ""
    return {f"{project}-{version}.dist-info/METADATA": build_metadata(project, version) + required}


def build_metadata(name: str, version: str) -> str:
    return f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nRequires-Python: >=3.11\n"
