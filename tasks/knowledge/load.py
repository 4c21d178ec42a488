"""Reads config/knowledge, each file only when something first asks for it.

It does not know what the facts mean: `tasks.knowledge.facts` gives them types, the other modules
answer questions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from tasks.core.errors import KnowledgeError
from tasks.knowledge import plainyaml
from tasks.knowledge.extensionrows import read_companions, read_extensions
from tasks.knowledge.mirrors import read_mirrors
from tasks.knowledge.misread import WRONG, explained, ill_typed
from tasks.knowledge.packagemanagers import PackageManagers, read_package_managers
from tasks.knowledge.rows import (
    read_binary_rules,
    read_failures,
    read_families,
    read_folder_rules,
    read_gpus,
    read_known_bad,
    read_minimums,
    read_releases,
    read_toolkits,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tasks.knowledge.costfacts import CostFact, ExtensionCost
    from tasks.knowledge.extensionfacts import CompanionFact, ExtensionFact
    from tasks.knowledge.facts import (
        BinaryRules,
        Failure,
        FolderRule,
        GpuFact,
        GpuFamily,
        KnownBad,
        Minimum,
        Release,
        Toolkit,
    )
    from tasks.knowledge.mirrors import MirrorFact

T = TypeVar("T")

FOLDER = Path(__file__).parents[2] / "config" / "knowledge"  # of this checkout

_MEND = "git diff config/knowledge; python -m tasks.knowledge.check tells all that is wrong"


@dataclass(frozen=True)
class Knowledge:
    """The facts of one folder. Reading is lazy: who asks for no combination pays for none."""

    folder: Path

    @cached_property
    def gpus(self) -> tuple[GpuFact, ...]:
        """Every product name and Jetson module, in the order of gpus.yaml."""
        return self._facts("gpus", read_gpus)

    @cached_property
    def gpus_by_text(self) -> dict[str, GpuFact]:
        """Cache of resolved GPU names: the suggestions for a refusal look each up many times."""
        return {}

    @cached_property
    def families(self) -> tuple[GpuFamily, ...]:
        """Architectures by name, such as Blackwell, ascending."""
        return self._facts("gpus", read_families)

    @cached_property
    def line_words(self) -> frozenset[str]:
        """Words of product names that name no one product, such as `pro`; lower case."""
        return frozenset(word.lower() for word in self._file("gpus")["lines"]["words"])

    @property
    def default_gpu(self) -> str:
        """The card that is meant where none is named and none is found."""
        return str(self._file("gpus")["default"])

    @property
    def gpu_notes(self) -> Mapping[str, Any]:
        """gpus.yaml as it is written: names that mislead, and claims that are wrong."""
        return self._file("gpus")

    @cached_property
    def toolkits(self) -> Mapping[str, Toolkit]:
        """CUDA releases by `12.8`, ascending."""
        return self._facts("toolkits", read_toolkits)

    @cached_property
    def binary_rules(self) -> BinaryRules:
        """Systems on a chip and family archs: which machine code runs where."""
        return self._facts("toolkits", read_binary_rules)

    @property
    def toolkit_notes(self) -> Mapping[str, Any]:
        """toolkits.yaml as it is written: the PyPI components, drivers and rules."""
        return self._file("toolkits")

    @cached_property
    def releases(self) -> Mapping[str, Release]:
        """PyTorch releases by `2.7`, ascending."""
        return self._facts("pytorch", read_releases)

    @property
    def pytorch_notes(self) -> Mapping[str, Any]:
        """pytorch.yaml as it is written: indexes, accepted arch lists, how to build."""
        return self._file("pytorch")

    @cached_property
    def known_bad(self) -> tuple[KnownBad, ...]:
        """Combinations that are known not to work, in the order of combinations.yaml."""
        return self._facts("combinations", read_known_bad)

    @cached_property
    def minimums(self) -> tuple[Minimum, ...]:
        """What can be too old, in the order of combinations.yaml."""
        return self._facts("combinations", read_minimums)

    @cached_property
    def extensions(self) -> Mapping[str, ExtensionFact]:
        """CUDA extensions by name."""
        return self._facts("extensions", read_extensions)

    @cached_property
    def companions(self) -> Mapping[str, CompanionFact]:
        """torchvision, torchaudio and triton by name."""
        return self._facts("extensions", read_companions)

    @property
    def extension_notes(self) -> Mapping[str, Any]:
        """extensions.yaml as it is written: why each entry has what it has."""
        return self._file("extensions")

    @cached_property
    def folder_rules(self) -> tuple[FolderRule, ...]:
        """What a change means for a configured CMake folder; the first that matches decides."""
        return self._facts("buildfolder", read_folder_rules)

    @cached_property
    def failures(self) -> tuple[Failure, ...]:
        """What is known to go wrong; the first whose pattern is found is the cause."""
        return self._facts("failures", read_failures)

    @cached_property
    def package_managers(self) -> PackageManagers:
        """What the package manager of each system calls what remedies ask for."""
        return self._facts("packagemanagers", read_package_managers)

    @cached_property
    def costs(self) -> tuple[CostFact, ...]:
        """What each strategy takes, with CUDA and without."""
        from tasks.knowledge.costfacts import read_costs  # noqa: PLC0415 - of no use to list tasks

        return self._facts("costs", read_costs)

    @cached_property
    def extension_cost(self) -> ExtensionCost:
        """What an extension adds."""
        from tasks.knowledge.costfacts import read_extension_cost  # noqa: PLC0415 - as above

        return self._facts("costs", read_extension_cost)

    @property
    def package_sizes(self) -> Mapping[str, int]:
        """MiB of packages of an index once they are unpacked, by the beginning of a name."""
        sizes: Mapping[str, int] = self._file("costs")["packages"]["unpacked_mib"]
        return sizes

    @cached_property
    def mirrors(self) -> Mapping[str, MirrorFact]:
        """Public mirrors by the name that settings call them."""
        return self._facts("mirrors", read_mirrors)

    @cached_property
    def _read(self) -> dict[str, Mapping[str, Any]]:
        return {}

    def _facts(self, name: str, read: Callable[[Mapping[str, Any]], T]) -> T:
        """What `read` makes of a file; a person's mistake in it is a `KnowledgeError`."""
        data = self._file(name)
        try:
            found = read(data)
        except WRONG as error:
            raise self._wrong(name, *explained(read, data)) from error
        for key, what in ill_typed(found):
            raise self._wrong(name, key, what)
        return found

    def _wrong(self, name: str, key: str, what: str) -> KnowledgeError:
        file = self.folder / f"{name}.yaml"
        return KnowledgeError(what, where=f"{file}: {key}" if key else str(file), todo=_MEND)

    def _file(self, name: str) -> Mapping[str, Any]:
        if name not in self._read:
            self._read[name] = _parse(self.folder / f"{name}.yaml")
        return self._read[name]


def load(folder: Path) -> Knowledge:
    """The knowledge in `folder`; nothing is read yet.

    A file that is missing or is no YAML, and one that lacks a key or has a value of another type,
    is a `KnowledgeError` when it is first asked for.
    """
    return Knowledge(folder)


def _parse(path: Path) -> Mapping[str, Any]:
    try:
        content = plainyaml.read(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise KnowledgeError(
            "facts are missing", where=str(path), todo="git restore config/knowledge"
        ) from error
    except yaml.YAMLError as error:
        raise KnowledgeError("cannot be read as YAML", where=str(path), todo=str(error)) from error
    if not isinstance(content, dict):
        raise KnowledgeError("is not a mapping", where=str(path))
    return content
