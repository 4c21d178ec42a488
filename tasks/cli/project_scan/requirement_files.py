"""Read which Python, torch and companion packages the requirement files of a project name."""

import re
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from tasks.cli.project_scan.setup_files import read_small_file
from tasks.core.pip_requirements import parse_requirements

_ENVIRONMENT_FILES = ("environment.yml", "environment.yaml")
_COMPANIONS = ("torchvision", "torchaudio")
_NAMES = ("python", "torch", *_COMPANIONS, "cudatoolkit", "pytorch-cuda", "cuda-version")
_CONDA_NAMES = {"pytorch": "torch", "pytorch-gpu": "torch", "cuda-toolkit": "cudatoolkit"}
_CONDA_SPEC = re.compile(r"(?:\S+::)?(?P<name>[\w.-]+)\s*(?P<version>[=<>!~\d].*)?")
_EXACT_VERSION = re.compile(r"===?(\d+(?:\.\d+)+)(?:\+[\w.]+)?")
_RELEASE = re.compile(r"\d+\.\d+\.\d+")


@dataclass(frozen=True)
class RequiredPackage:
    """A package that a file of the project requires. `specifier` is as in PEP 440, "" for any."""

    file: str
    name: str
    specifier: str

    @property
    def version(self) -> str:
        """Return the exact version without a local part, "" if the specifier allows several."""
        found = _EXACT_VERSION.fullmatch(self.specifier)
        return found[1] if found else ""

    @property
    def is_release(self) -> bool:
        """Return True if exactly one release is required, such as 2.9.1."""
        return bool(_RELEASE.fullmatch(self.version))

    def allows(self, version: str) -> bool:
        """Return True if the specifier allows this version."""
        try:
            return SpecifierSet(self.specifier).contains(version, prereleases=True)
        except InvalidSpecifier:
            return True

    def __str__(self) -> str:
        name = "Python" if self.name == "python" else self.name
        return f"{name} {self.version or self.specifier.replace(',', ' and ')}".rstrip()


@dataclass(frozen=True)
class Requirements:
    """The packages that the files of a project require, and the name of its conda environment."""

    packages: tuple[RequiredPackage, ...] = ()
    conda_name: str = ""

    @property
    def companions(self) -> dict[str, str]:
        """Return the file that names each companion package."""
        found = (one for one in self.packages if one.name in _COMPANIONS)
        return {one.name: one.file for one in reversed([*found])}

    def find_torch(self) -> RequiredPackage | None:
        """Return the requirement of torch: one for a release if there is one, else the first."""
        found = [one for one in self.packages if one.name == "torch" and one.specifier]
        return next((one for one in found if one.is_release), found[0] if found else None)

    def describe_files(self) -> Iterator[str]:
        """Yield a line for each file, such as `environment.yml: Python 3.8, torch 1.12.1`."""
        for file in dict.fromkeys(one.file for one in self.packages):
            found = [one for one in self.packages if one.file == file]
            found.sort(key=lambda one: _NAMES.index(one.name))
            yield f"{file}: {', '.join(map(str, found))}"


def read_requirements(root: Path) -> Requirements:
    """Return the requirements in pyproject.toml, requirements*.txt and environment.yml."""
    packages = [*_read_pyproject(root)]
    for path in sorted([*root.glob("requirements*.txt"), *root.glob("requirements/*.txt")])[:20]:
        file = path.relative_to(root).as_posix()
        packages += _select_pip_packages(file, read_small_file(path).splitlines())
    conda_name = ""
    for file in _ENVIRONMENT_FILES:
        document = _parse_yaml_mapping(read_small_file(root / file))
        packages += _list_conda_packages(file, document.get("dependencies"))
        conda_name = conda_name or str(document.get("name") or "")
    return Requirements(tuple(dict.fromkeys(packages)), conda_name)


def _read_pyproject(root: Path) -> Iterator[RequiredPackage]:
    file = "pyproject.toml"
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        project = tomllib.loads(read_small_file(root / file))["project"]
        if isinstance(python := project.get("requires-python"), str):
            yield RequiredPackage(file, "python", python)
        yield from _select_pip_packages(file, map(str, project.get("dependencies", ())))


def _select_pip_packages(file: str, lines: Iterable[str]) -> Iterator[RequiredPackage]:
    texts = (re.split(r"(?:^|\s)#|\s--", line)[0].strip() for line in lines)
    for requirement in parse_requirements(texts):
        if (name := canonicalize_name(requirement.name)) in _NAMES:
            yield RequiredPackage(file, name, str(requirement.specifier))


def _parse_yaml_mapping(text: str) -> dict[str, Any]:
    with suppress(yaml.YAMLError, ValueError, RecursionError):
        document = yaml.safe_load(text)
        return document if isinstance(document, dict) else {}
    return {}


def _list_conda_packages(file: str, dependencies: object) -> Iterator[RequiredPackage]:
    for item in dependencies if isinstance(dependencies, list) else ():
        if isinstance(item, dict) and isinstance(pip := item.get("pip"), list):
            yield from _select_pip_packages(file, map(str, pip))
        elif isinstance(item, str) and (package := _parse_conda_spec(file, item)):
            yield package


def _parse_conda_spec(file: str, text: str) -> RequiredPackage | None:
    """Return the package of a conda spec such as `pytorch=2.1`, if its version matters here."""
    if not (found := _CONDA_SPEC.fullmatch(text.strip())):
        return None
    name = _CONDA_NAMES.get(found["name"].lower(), found["name"].lower())
    if name not in _NAMES:
        return None
    version = (found["version"] or "").strip()
    if version[:1].isdigit() or re.match(r"=(?!=)", version):
        number = re.split(r"[= ]", version.lstrip("= "))[0].removesuffix("*").rstrip(".")
        # for conda, `pytorch=2.1` is any release of 2.1
        is_range = name == "torch" and not _RELEASE.fullmatch(number)
        version = f"=={number}.*" if is_range else f"=={number}"
    elif version.startswith("=="):  # a build can follow: `==2.1.0=py3.10_cuda12.1`
        version = f"=={version.lstrip('=').partition('=')[0].strip()}"
    return RequiredPackage(file, name, version.replace(" ", ""))
