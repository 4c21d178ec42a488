"""Resolve the target architectures and check that the toolchain accepts them."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.core.errors import KnowledgeError, SettingsError
from tasks.core.model import Arch, Host
from tasks.core.resolution import Resolution, UnsatisfiableError
from tasks.knowledge import Knowledge, arch_lists
from tasks.knowledge.cuda_toolkits import can_compile_arch
from tasks.knowledge.facts import GpuFact
from tasks.knowledge.gpus import resolve_gpu, shorten_gpu_name
from tasks.knowledge.machine_code_rules import (
    MachineCode,
    classify_compatibility,
    is_extension_arch_supported,
)
from tasks.knowledge.torch_releases import format_platform, normalize_machine
from tasks.settings.schema import Build, Settings


def find_targets(
    settings: Settings, host: Host, knowledge: Knowledge
) -> tuple[tuple[Arch, ...], str]:
    """Return the architectures to build for, ascending, and the reason for them.

    Raises `SettingsError`, and `UnsatisfiableError` for a GPU that does not exist in this kind of
    machine.
    """
    requested = settings.target.gpus
    if requested == "auto" and host.system == "macos":
        return (), "macOS has no CUDA"
    if requested == "auto" and host.gpus:
        archs = {Arch.parse_capability(gpu.capability) for gpu in host.gpus}
        names = ", ".join(sorted({gpu.name for gpu in host.gpus}))
        return tuple(sorted(archs)), f"{names} in this machine"
    if requested == "auto":
        default_gpu = resolve_gpu(knowledge, knowledge.default_gpu)
        return (
            default_gpu.arch,
        ), f"no NVIDIA card seen here: {shorten_gpu_name(default_gpu.name)} assumed"
    if requested and host.system == "macos":
        raise SettingsError(
            "CUDA builds are not for macOS", location="target.gpus", hint="write gpus: []"
        )
    try:
        facts = [resolve_gpu(knowledge, name) for name in requested]
    except KnowledgeError as error:
        raise SettingsError(error.message, location="target.gpus", hint=error.hint) from error
    _require_possible_machine(facts, host)
    why = ", ".join(requested) or "a build for the CPU was asked for"
    return tuple(sorted({fact.arch for fact in facts})), why


def _require_possible_machine(facts: list[GpuFact], host: Host) -> None:
    for fact in facts:
        if fact.machine and fact.machine != normalize_machine(host.machine):
            raise UnsatisfiableError(
                f"{shorten_gpu_name(fact.name)} is in {fact.machine} machines, and this is "
                f"{format_platform(host.system, host.machine)}: what is built here does not "
                "run there",
                location="target.gpus",
                hint=f"build on a machine of that kind ({fact.machine})",
            )


_TORCH_VARIABLE = "TORCH_CUDA_ARCH_LIST"
_CMAKE_VARIABLES = {"CUDAARCHS", "CMAKE_CUDA_ARCHITECTURES"}


def require_arch_support(settings: Settings, knowledge: Knowledge, choice: Resolution) -> None:
    """Raise an error if the build tools cannot build for a target.

    `UnsatisfiableError`: the tools do not accept a target. `SettingsError`: an arch variable of the
    user is not understood, or leaves out a target.
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
    """Raise an error if torch does not accept a target.

    `UnsatisfiableError`, for which another torch is suggested, is raised only if some torch accepts
    it.
    """
    torch = choice.torch
    extension_names = [*(item.name for item in settings.extensions), *settings.companions]
    for arch in choice.targets if settings.extensions or choice.extensions else ():
        try:
            arch_lists.format_extension_archs(knowledge, torch, [arch])
        except KnowledgeError as error:
            is_supported_anywhere = any(
                is_extension_arch_supported(knowledge, minor, arch) for minor in knowledge.releases
            )
            raise (UnsatisfiableError if is_supported_anywhere else SettingsError)(
                f"torch {torch} builds no extensions for {arch}: no {extension_names[0]}",
                location="target.gpus",
                hint=_format_arch_hint(knowledge, torch, arch) or error.hint,
            ) from error
    if choice.strategy == "source":
        try:
            arch_lists.format_torch_cmake_archs(knowledge, torch, choice.targets)
        except KnowledgeError as error:
            raise UnsatisfiableError(
                error.message, location="target.gpus", hint=error.hint
            ) from error


def _format_arch_hint(knowledge: Knowledge, torch: str, arch: Arch) -> str:
    """Suggest another arch for one that torch's extension builder does not accept.

    The code of the suggested arch runs on the same GPU. Return "" if there is no such arch.
    """
    gpu_arch = Arch(arch.major, arch.minor)
    compilable = {
        cubin for kit in knowledge.toolkits.values() for cubin in kit.makes if not cubin.suffix
    }
    alternatives = [
        other
        for other in sorted(compilable, reverse=True)
        if classify_compatibility(knowledge, MachineCode(frozenset([other])), gpu_arch)
        and is_extension_arch_supported(knowledge, torch, other)
    ]
    if not alternatives:
        return ""
    note = "" if alternatives[0] == gpu_arch else f", whose code runs on {gpu_arch}"
    return f'write "{alternatives[0]}"{note}'


def _require_arch_variables(
    given: Mapping[str, str],
    where: str,
    knowledge: Knowledge,
    choice: Resolution,
    *,
    extension: bool,
) -> None:
    """Require that each arch list is valid and compilable, and covers all targets.

    CMake's variables need not cover the targets in a build of PyTorch: its tree discards them.
    CMake still validates them first (pytorch.yaml, cmake-cuda-architectures-*).
    """
    for name in sorted({_TORCH_VARIABLE, *_CMAKE_VARIABLES} & given.keys()):
        try:
            code = _parse_arch_list(name, given[name], knowledge, choice, extension=extension)
            if code:
                _require_toolkit_archs(knowledge, code, choice)
                if extension or name == _TORCH_VARIABLE:
                    arch_lists.require_covered_targets(knowledge, code, choice.targets, given[name])
        except KnowledgeError as error:
            raise SettingsError(
                error.message, location=f"{where}.{name}", hint=error.hint
            ) from error


def _parse_arch_list(
    name: str, text: str, knowledge: Knowledge, choice: Resolution, *, extension: bool
) -> MachineCode | None:
    if name in _CMAKE_VARIABLES:
        return arch_lists.parse_cmake_archs(knowledge, choice.toolkit.version, text)
    parse = arch_lists.parse_extension_archs if extension else arch_lists.parse_torch_cmake_archs
    return parse(knowledge, choice.torch, text)


def _require_toolkit_archs(knowledge: Knowledge, code: MachineCode, choice: Resolution) -> None:
    for arch in sorted(code.cubins | code.ptx):
        if not can_compile_arch(knowledge, choice.toolkit.version, arch):
            raise KnowledgeError(
                f"CUDA {choice.toolkit.version} makes no code for {arch}",
                hint=f"leave it out: target.gpus says what it is built for "
                f"({', '.join(map(str, choice.targets))})",
            )


_USE_CUDA = "USE_CUDA"
# From PyTorch's tools/setup_helpers/env.py, check_negative_env_flag; for CMake "" is false, too
_FALSE_VALUES = {"", "0", "OFF", "NO", "FALSE", "N"}


def require_consistent_use_cuda(build: Build, choice: Resolution) -> None:
    """Raise `SettingsError` if USE_CUDA contradicts the targets.

    It must not be set for a CPU build, nor be off in a build for GPUs.
    """
    # build.env takes precedence over build.flags
    values = {"build.flags": build.flags.get(_USE_CUDA), "build.env": build.env.get(_USE_CUDA)}
    assignments = [(section, value) for section, value in values.items() if value is not None]
    if choice.strategy != "source" or not assignments:
        return
    section, value = assignments[-1]
    is_enabled = str(value).strip().upper() not in _FALSE_VALUES
    if is_enabled == bool(choice.targets):
        return
    if is_enabled:
        message = "it asks for a torch with CUDA, and this is a build for the CPU"
        hint = "take it out, or name the cards in target.gpus"
    else:
        archs = ", ".join(map(str, choice.targets))
        message = f"it asks for a torch without CUDA, and target.gpus for code for {archs}"
        hint = "take it out; a build for the CPU is target.gpus: []"
    raise SettingsError(
        f"{message} ({choice.targets_why})", location=f"{section}.{_USE_CUDA}", hint=hint
    )
