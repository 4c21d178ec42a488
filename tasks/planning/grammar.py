"""Archs as those who read them take them: torch's extension builder, PyTorch's CMake, CMake. Pure.

What a person wrote into build.env or an extension's env goes before ours. It is judged here, and
nowhere else, so that no build stops at it after hours, or leaves a card out.
"""

from __future__ import annotations

from collections.abc import Mapping

from tasks.core.errors import KnowledgeError, SettingsError
from tasks.core.model import Arch
from tasks.core.resolution import Resolution, UnsatisfiableError
from tasks.knowledge import Knowledge
from tasks.knowledge.archs import MachineCode, is_extension_arch_supported
from tasks.knowledge.covers import classify_compatibility
from tasks.knowledge.grammar import format_extension_archs, format_torch_cmake_archs
from tasks.knowledge.ownlists import (
    parse_cmake_archs,
    parse_extension_archs,
    parse_torch_cmake_archs,
    require_covered_targets,
)
from tasks.knowledge.toolkits import can_compile_arch
from tasks.settings.schema import Settings

_TORCH_VARIABLE = "TORCH_CUDA_ARCH_LIST"
_CMAKE_VARIABLES = {"CUDAARCHS", "CMAKE_CUDA_ARCHITECTURES"}


def require_arch_support(settings: Settings, knowledge: Knowledge, choice: Resolution) -> None:
    """`UnmetError` for a target that what compiles cannot be told of, `SettingsError` for a
    variable of a person's own that it would not understand, or that leaves a target out.
    """
    if choice.toolkit.provider == "none" or not choice.targets:
        return
    _require_supported_targets(settings, knowledge, choice)
    if choice.strategy == "source":
        _require_arch_variables(settings.build.env, "build.env", knowledge, choice, extension=False)
    for item in settings.extensions:
        where = f"extensions ({item.name}).env"
        _require_arch_variables(item.env, where, knowledge, choice, extension=True)


def _require_supported_targets(
    settings: Settings, knowledge: Knowledge, choice: Resolution
) -> None:
    """Another torch is looked for only where there is one that takes the arch."""
    torch = choice.torch
    built = [*(item.name for item in settings.extensions), *settings.companions]
    for arch in choice.targets if settings.extensions or choice.extensions else ():
        try:
            format_extension_archs(knowledge, torch, [arch])
        except KnowledgeError as error:
            ever = any(
                is_extension_arch_supported(knowledge, minor, arch) for minor in knowledge.releases
            )
            raise (UnsatisfiableError if ever else SettingsError)(
                f"torch {torch} builds no extensions for {arch}: no {built[0]}",
                location="target.gpus",
                hint=_format_arch_hint(knowledge, torch, arch) or error.hint,
            ) from error
    if choice.strategy == "source":
        try:
            format_torch_cmake_archs(knowledge, torch, choice.targets)
        except KnowledgeError as error:
            raise UnsatisfiableError(
                error.message, location="target.gpus", hint=error.hint
            ) from error


def _format_arch_hint(knowledge: Knowledge, torch: str, arch: Arch) -> str:
    """What to write for an arch that torch's extension builder has no name for: one whose machine
    code runs on the same card. Empty where there is none.
    """
    card = Arch(arch.major, arch.minor)
    makes = {made for kit in knowledge.toolkits.values() for made in kit.makes if not made.suffix}
    fitting = [
        other
        for other in sorted(makes, reverse=True)
        if classify_compatibility(knowledge, MachineCode(frozenset([other])), card)
        and is_extension_arch_supported(knowledge, torch, other)
    ]
    if not fitting:
        return ""
    more = "" if fitting[0] == card else f", whose code runs on {card}"
    return f'write "{fitting[0]}"{more}'


def _require_arch_variables(
    given: Mapping[str, str],
    where: str,
    knowledge: Knowledge,
    choice: Resolution,
    *,
    extension: bool,
) -> None:
    """Each list is understood by its reader, made by the toolkit, and reaches every target.

    The tree of PyTorch is no reader of CMake's: it discards what these say, but CMake tries it out
    before (pytorch.yaml, cmake-cuda-architectures-*).
    """
    for name in sorted({_TORCH_VARIABLE, *_CMAKE_VARIABLES} & given.keys()):
        try:
            code = _parse_arch_list(name, given[name], knowledge, choice, extension=extension)
            if code:
                _require_toolkit_archs(knowledge, code, choice)
                if extension or name == _TORCH_VARIABLE:
                    require_covered_targets(knowledge, code, choice.targets, given[name])
        except KnowledgeError as error:
            raise SettingsError(
                error.message, location=f"{where}.{name}", hint=error.hint
            ) from error


def _parse_arch_list(
    name: str, text: str, knowledge: Knowledge, choice: Resolution, *, extension: bool
) -> MachineCode | None:
    if name in _CMAKE_VARIABLES:
        return parse_cmake_archs(knowledge, choice.toolkit.version, text)
    read = parse_extension_archs if extension else parse_torch_cmake_archs
    return read(knowledge, choice.torch, text)


def _require_toolkit_archs(knowledge: Knowledge, code: MachineCode, choice: Resolution) -> None:
    for arch in sorted(code.cubins | code.ptx):
        if not can_compile_arch(knowledge, choice.toolkit.version, arch):
            raise KnowledgeError(
                f"CUDA {choice.toolkit.version} makes no code for {arch}",
                hint=f"leave it out: target.gpus says what it is built for "
                f"({', '.join(map(str, choice.targets))})",
            )
