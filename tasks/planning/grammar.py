"""Archs as those who read them take them: torch's extension builder, PyTorch's CMake, CMake. Pure.

What a person wrote into build.env or an extension's env goes before ours. It is judged here, and
nowhere else, so that no build stops at it after hours, or leaves a card out.
"""

from __future__ import annotations

from collections.abc import Mapping

from tasks.core.errors import KnowledgeError, SettingsError
from tasks.core.model import Arch
from tasks.core.resolution import Choice, UnmetError
from tasks.knowledge import Knowledge
from tasks.knowledge.archs import MachineCode, extension_accepts
from tasks.knowledge.covers import how
from tasks.knowledge.grammar import for_extension, for_torch_cmake
from tasks.knowledge.ownlists import (
    read_for_cmake,
    read_for_extension,
    read_for_torch_cmake,
    require_targets,
)
from tasks.knowledge.toolkits import can_make
from tasks.settings.schema import Settings

_TORCH = "TORCH_CUDA_ARCH_LIST"
_CMAKE = {"CUDAARCHS", "CMAKE_CUDA_ARCHITECTURES"}


def require_grammar(settings: Settings, knowledge: Knowledge, choice: Choice) -> None:
    """`UnmetError` for a target that what compiles cannot be told of, `SettingsError` for a
    variable of a person's own that it would not understand, or that leaves a target out.
    """
    if choice.toolkit.provider == "none" or not choice.targets:
        return
    _require_targets(settings, knowledge, choice)
    if choice.strategy == "source":
        _require_variables(settings.build.env, "build.env", knowledge, choice, extension=False)
    for item in settings.extensions:
        where = f"extensions ({item.name}).env"
        _require_variables(item.env, where, knowledge, choice, extension=True)


def _require_targets(settings: Settings, knowledge: Knowledge, choice: Choice) -> None:
    """Another torch is looked for only where there is one that takes the arch."""
    torch = choice.torch
    built = [*(item.name for item in settings.extensions), *settings.companions]
    for arch in choice.targets if settings.extensions or choice.extensions else ():
        try:
            for_extension(knowledge, torch, [arch])
        except KnowledgeError as error:
            ever = any(extension_accepts(knowledge, minor, arch) for minor in knowledge.releases)
            raise (UnmetError if ever else SettingsError)(
                f"torch {torch} builds no extensions for {arch}: no {built[0]}",
                where="target.gpus",
                todo=_instead(knowledge, torch, arch) or error.todo,
            ) from error
    if choice.strategy == "source":
        try:
            for_torch_cmake(knowledge, torch, choice.targets)
        except KnowledgeError as error:
            raise UnmetError(error.what, where="target.gpus", todo=error.todo) from error


def _instead(knowledge: Knowledge, torch: str, arch: Arch) -> str:
    """What to write for an arch that torch's extension builder has no name for: one whose machine
    code runs on the same card. Empty where there is none.
    """
    card = Arch(arch.major, arch.minor)
    makes = {made for kit in knowledge.toolkits.values() for made in kit.makes if not made.suffix}
    fitting = [
        other
        for other in sorted(makes, reverse=True)
        if how(knowledge, MachineCode(frozenset([other])), card)
        and extension_accepts(knowledge, torch, other)
    ]
    if not fitting:
        return ""
    more = "" if fitting[0] == card else f", whose code runs on {card}"
    return f'write "{fitting[0]}"{more}'


def _require_variables(
    given: Mapping[str, str], where: str, knowledge: Knowledge, choice: Choice, *, extension: bool
) -> None:
    """Each list is understood by its reader, made by the toolkit, and reaches every target.

    The tree of PyTorch is no reader of CMake's: it discards what these say, but CMake tries it out
    before (pytorch.yaml, cmake-cuda-architectures-*).
    """
    for name in sorted({_TORCH, *_CMAKE} & given.keys()):
        try:
            code = _read(name, given[name], knowledge, choice, extension=extension)
            if code:
                _require_made(knowledge, code, choice)
                if extension or name == _TORCH:
                    require_targets(knowledge, code, choice.targets, given[name])
        except KnowledgeError as error:
            raise SettingsError(error.what, where=f"{where}.{name}", todo=error.todo) from error


def _read(
    name: str, text: str, knowledge: Knowledge, choice: Choice, *, extension: bool
) -> MachineCode | None:
    if name in _CMAKE:
        return read_for_cmake(knowledge, choice.toolkit.version, text)
    read = read_for_extension if extension else read_for_torch_cmake
    return read(knowledge, choice.torch, text)


def _require_made(knowledge: Knowledge, code: MachineCode, choice: Choice) -> None:
    for arch in sorted(code.cubins | code.ptx):
        if not can_make(knowledge, choice.toolkit.version, arch):
            raise KnowledgeError(
                f"CUDA {choice.toolkit.version} makes no code for {arch}",
                todo=f"leave it out: target.gpus says what it is built for "
                f"({', '.join(map(str, choice.targets))})",
            )
