"""Resolve the target architectures and the CUDA toolkit. Check that the tools accept both."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tasks.core.errors import KnowledgeError, SettingsError
from tasks.core.model import Arch, Host
from tasks.core.resolution import Resolution, ToolkitResolution, UnsatisfiableError
from tasks.knowledge import Knowledge, arch_lists, machine_code_rules
from tasks.knowledge.cuda_toolkits import can_compile_arch, find_toolkit, require_toolkit
from tasks.knowledge.gpus import find_only_machine, resolve_gpu, shorten_gpu_name
from tasks.knowledge.torch_releases import format_platform, normalize_machine
from tasks.knowledge.versions import format_major_minor
from tasks.settings.schema import Build, Settings

CUDA_ARCHIVE_URL = "https://developer.nvidia.com/cuda-toolkit-archive"
# If other settings work, they are suggested instead
_OTHER_GPUS_HINT = "choose other GPUs in target.gpus"


@contextmanager
def convert_errors(location: str, kind: type[SettingsError] = SettingsError) -> Iterator[None]:
    """Convert a `KnowledgeError` of the `with` block to the class `kind`, and add the location."""
    try:
        yield
    except KnowledgeError as error:
        raise kind(error.message, location=location, hint=error.hint) from error


def find_targets(
    settings: Settings, host: Host, knowledge: Knowledge
) -> tuple[tuple[Arch, ...], str]:
    """Return the sorted target architectures and the reason for them. Raises `SettingsError`."""
    requested, is_mac = settings.target.gpus, host.system == "macos"
    if requested == "auto":
        if is_mac:
            return (), "macOS has no CUDA"
        if host.gpus:
            names = ", ".join(sorted({gpu.name for gpu in host.gpus}))
            archs = {Arch.parse_capability(gpu.capability) for gpu in host.gpus}
            return tuple(sorted(archs)), f"{names} in this machine"
        default = resolve_gpu(knowledge, knowledge.default_gpu)
        return (default.arch,), f"no NVIDIA GPU found, {shorten_gpu_name(default.name)} assumed"
    if requested and is_mac:
        message, hint = "macOS has no CUDA builds", "set target.gpus: []"
        raise SettingsError(message, location="target.gpus", hint=hint)
    with convert_errors("target.gpus"):
        facts = [resolve_gpu(knowledge, name) for name in requested]
    for fact in facts:
        if fact.machine and fact.machine != normalize_machine(host.machine):
            gpu, platform = shorten_gpu_name(fact.name), format_platform(host.system, host.machine)
            message = f"{gpu} exists only in {fact.machine} machines, and this one is {platform}"
            message += ": what is built here does not run on them"
            hint = f"build on a machine of that kind ({fact.machine})"
            raise UnsatisfiableError(message, location="target.gpus", hint=hint)
    why = f"target.gpus is {', '.join(requested) or 'empty'}"
    return tuple(sorted({fact.arch for fact in facts})), why


@dataclass(frozen=True)
class CompiledTargets:
    """The archs to compile for. `ptx` is True if a target runs only PTX.

    `notes` has a sentence for each target that no known toolkit compiles for.
    """

    archs: tuple[Arch, ...]
    ptx: bool = False
    notes: tuple[str, ...] = ()


def select_compiled_targets(knowledge: Knowledge, targets: tuple[Arch, ...]) -> CompiledTargets:
    """Replace each target that is newer than the archs of all known toolkits.

    A GPU with a new minor version runs code for a lower minor version. A GPU with a new major
    version runs PTX of the newest arch, which its driver compiles.
    """
    toolkits = knowledge.toolkits.values()
    cubins = {arch for kit in toolkits for arch in kit.makes if not arch.suffix}
    shared = {arch for arch in cubins if not find_only_machine(knowledge, arch)[0]}
    known = {arch for family in knowledge.families for arch in family.archs}
    archs, ptx, notes = set[Arch](), False, []
    for arch in targets:
        lower = max((one for one in shared if one < arch and one.major == arch.major), default=None)
        if arch.suffix or arch in cubins or not (lower or arch > max(cubins)):
            archs.add(arch)
            if arch > max(known):
                notes.append(f"untested: {arch} is newer than the known GPUs")
            continue
        reason = f"no known CUDA toolkit compiles for {arch}"
        if lower:
            archs.add(lower)
            notes.append(f"untested: {reason}, which runs code for {lower}")
        else:
            archs.add(max(shared))
            ptx = True
            notes.append(f"untested: {reason}; its driver compiles PTX of {max(shared)}")
    return CompiledTargets(tuple(sorted(archs)), ptx, tuple(notes))


_TORCH_VARIABLE = "TORCH_CUDA_ARCH_LIST"
_CMAKE_VARIABLES = {"CUDAARCHS", "CMAKE_CUDA_ARCHITECTURES"}


def require_arch_support(settings: Settings, knowledge: Knowledge, choice: Resolution) -> None:
    """Raise `UnsatisfiableError` if the build tools do not accept a target.

    Raises `SettingsError` if an arch variable of the user is invalid or leaves out a target.
    """
    if choice.toolkit.provider == "none" or not choice.targets:
        return
    for arch in choice.targets if settings.extensions or choice.extensions else ():
        _require_extension_arch(settings, knowledge, choice, arch)
    if choice.strategy == "source":
        with convert_errors("target.gpus", UnsatisfiableError):
            arch_lists.format_torch_archs(knowledge, choice.torch, choice.targets, cmake=True)
        _require_arch_variables(settings.build.env, "build.env", knowledge, choice, extension=False)
    for item in settings.extensions:
        where = f"extensions ({item.name}).env"
        _require_arch_variables(item.env, where, knowledge, choice, extension=True)


def _require_extension_arch(
    settings: Settings, knowledge: Knowledge, choice: Resolution, arch: Arch
) -> None:
    """Require that the resolved torch can build extensions for `arch`.

    Raises `UnsatisfiableError` if another torch release can, `SettingsError` if no release can.
    """
    is_supported = arch_lists.is_extension_arch_supported
    try:
        arch_lists.format_torch_archs(knowledge, choice.torch, [arch])
    except KnowledgeError as error:
        gpu, hint = Arch(arch.major, arch.minor), error.hint
        cubins = find_toolkit(knowledge, choice.toolkit.version).makes
        for other in sorted(cubin for cubin in cubins if not cubin.suffix):
            code = machine_code_rules.MachineCode(frozenset([other]))
            if machine_code_rules.classify_compatibility(knowledge, code, gpu) and is_supported(
                knowledge, choice.torch, other
            ):
                hint = f'write "{other}"' + ("" if other == gpu else f", whose code runs on {gpu}")
        name = [*(item.name for item in settings.extensions), *settings.companions][0]
        exists_elsewhere = any(is_supported(knowledge, torch, arch) for torch in knowledge.releases)
        kind = UnsatisfiableError if exists_elsewhere else SettingsError
        message = f"torch {choice.torch} builds no extensions for {arch}, so {name} cannot be built"
        raise kind(message, location="target.gpus", hint=hint) from error


def _require_arch_variables(
    env: Mapping[str, str], key: str, knowledge: Knowledge, choice: Resolution, *, extension: bool
) -> None:
    """Require that each arch list in `env` is valid and compilable, and covers all targets.

    `extension` is False for torch's own build, which ignores the variables of CMake.
    """
    cuda, targets = choice.toolkit.version, choice.targets
    for name in sorted({_TORCH_VARIABLE, *_CMAKE_VARIABLES} & env.keys()):
        with convert_errors(f"{key}.{name}"):
            if name in _CMAKE_VARIABLES:
                code = arch_lists.parse_cmake_archs(knowledge, cuda, env[name])
            else:
                code = arch_lists.parse_torch_archs(
                    knowledge, choice.torch, env[name], cmake=not extension
                )
            for arch in sorted(code.cubins | code.ptx) if code else ():
                if not can_compile_arch(knowledge, cuda, arch):
                    names = ", ".join(map(str, targets))
                    hint = f"remove {arch} from the arch list; target.gpus is {names}"
                    raise KnowledgeError(f"CUDA {cuda} cannot compile code for {arch}", hint=hint)
            if code and (extension or name == _TORCH_VARIABLE):
                arch_lists.require_covered_targets(knowledge, code, targets, env[name])


_USE_CUDA = "USE_CUDA"
# From check_negative_env_flag in PyTorch's tools/setup_helpers/env.py; "" is false for CMake
_FALSE_VALUES = {"", "0", "OFF", "NO", "FALSE", "N"}


def require_consistent_use_cuda(build: Build, choice: Resolution) -> None:
    """Raise `SettingsError` if USE_CUDA is on for a CPU build or off for a GPU build."""
    values = {**build.flags, **build.env}  # build.env takes precedence
    section = "build.env" if _USE_CUDA in build.env else "build.flags"
    if choice.strategy != "source" or _USE_CUDA not in values:
        return
    is_enabled = str(values[_USE_CUDA]).strip().upper() not in _FALSE_VALUES
    if is_enabled == bool(choice.targets):
        return
    message = "USE_CUDA is on, but this is a CPU build"
    hint = "remove USE_CUDA, or set target.gpus to your GPUs"
    if not is_enabled:
        archs = ", ".join(map(str, choice.targets))
        message = f"USE_CUDA is off, but target.gpus requires code for {archs}"
        hint = "remove USE_CUDA; for a CPU build, set target.gpus: []"
    message += f" ({choice.targets_why})"
    raise SettingsError(message, location=f"{section}.{_USE_CUDA}", hint=hint)


def resolve_toolkit(
    settings: Settings,
    host: Host,
    knowledge: Knowledge,
    cuda: str | None,
    targets: tuple[Arch, ...],
) -> ToolkitResolution:
    """Return the toolkit for a torch with the CUDA release `cuda`.

    Raises `UnsatisfiableError` if the toolkit cannot compile for a target or is not available.
    """
    provider, required = settings.toolkit.provider, settings.toolkit.version
    required = (cuda or "") if required == "auto" else required
    if provider == "path":
        return _resolve_path_toolkit(settings, host, knowledge, targets)
    _require_toolkit_targets(knowledge, required, targets)
    matching = [toolkit for toolkit in host.toolkits if toolkit.release == required]
    if provider in {"auto", "system"} and matching:
        home = matching[0].home
        why = f"CUDA {matching[0].version} is at {home}"
        return ToolkitResolution("system", required, home, why)
    if provider != "system" and find_toolkit(knowledge, required).pypi:
        _require_published_toolkit(knowledge, required)
        return ToolkitResolution("pypi", required, "", f"CUDA {required} from Python packages")
    installed = ", ".join(f"{toolkit.version} at {toolkit.home}" for toolkit in host.toolkits)
    message = f"CUDA {required} is needed and is not on this machine (found: {installed or 'none'})"
    raise UnsatisfiableError(message, location="toolkit", hint=_OTHER_GPUS_HINT)


def _require_published_toolkit(knowledge: Knowledge, cuda: str) -> None:
    """Raise `UnsatisfiableError` for an unknown CUDA release that the package index lacks."""
    published = knowledge.read.cuda_versions
    if not find_toolkit(knowledge, cuda).origin or not published or cuda in published:
        return
    message = f"CUDA {cuda} is not on this machine and not on {knowledge.read.index}, "
    message += f"whose newest is {published[-1]}"
    raise UnsatisfiableError(message, location="toolkit.version", hint=_OTHER_GPUS_HINT)


def _resolve_path_toolkit(
    settings: Settings, host: Host, knowledge: Knowledge, targets: tuple[Arch, ...]
) -> ToolkitResolution:
    path = settings.toolkit.path
    kits = [kit for kit in host.toolkits if kit.asked]
    if not path or not kits:
        message = f"no CUDA toolkit at {path}" if path else "provider: path needs toolkit.path"
        hint = "set toolkit.path to the folder that contains bin/nvcc"
        raise SettingsError(message, location="toolkit.path", hint=hint)
    kit, required = kits[0], settings.toolkit.version
    if required not in {"auto", kit.release}:
        message = f"CUDA {kit.version} is at {path}, but {required} is required"
        hint = f"change toolkit.path to the folder of a toolkit with CUDA {required}"
        raise UnsatisfiableError(message, location="toolkit.version", hint=hint)
    _require_toolkit_targets(knowledge, kit.release, targets)
    why = f"CUDA {kit.version} at {path}, from toolkit.path"
    return ToolkitResolution("path", kit.release, kit.home, why)


def _require_toolkit_targets(knowledge: Knowledge, cuda: str, targets: tuple[Arch, ...]) -> None:
    try:
        require_toolkit(knowledge, cuda, targets)
    except KnowledgeError as error:
        # Suggest no other toolkit: this torch may not build with a toolkit for these targets
        hint = _OTHER_GPUS_HINT if format_major_minor(cuda) in knowledge.toolkits else error.hint
        raise UnsatisfiableError(error.message, location="toolkit.version", hint=hint) from error
