"""Resolve the CUDA toolkit: the system's, the one in toolkit.path, or Python packages."""

from __future__ import annotations

from tasks.core.errors import KnowledgeError, SettingsError
from tasks.core.model import Arch, Host
from tasks.core.resolution import ToolkitResolution, UnsatisfiableError
from tasks.knowledge import Knowledge
from tasks.knowledge.cuda_toolkits import find_toolkit, require_toolkit
from tasks.knowledge.versions import format_major_minor
from tasks.settings.schema import Settings

CUDA_ARCHIVE_URL = "https://developer.nvidia.com/cuda-toolkit-archive"


def resolve_toolkit(
    settings: Settings,
    host: Host,
    knowledge: Knowledge,
    cuda: str | None,
    targets: tuple[Arch, ...],
) -> ToolkitResolution:
    """Return the toolkit for a torch with that CUDA release.

    Raises `UnsatisfiableError` if it is not available, or cannot compile for the targets (checked
    first), and `SettingsError` if toolkit.path has no toolkit.
    """
    provider = settings.toolkit.provider
    required = settings.toolkit.version if settings.toolkit.version != "auto" else (cuda or "")
    if provider == "path":
        return _resolve_path_toolkit(settings, host)
    require_toolkit_targets(knowledge, required, targets)
    matching = [toolkit for toolkit in host.toolkits if toolkit.release == required]
    if provider in {"auto", "system"} and matching:
        home = matching[0].home
        why = f"CUDA {matching[0].version} is at {home}"
        return ToolkitResolution("system", required, home, why)
    if provider != "system" and _is_on_pypi(knowledge, required):
        return ToolkitResolution("pypi", required, "", f"CUDA {required} from Python packages")
    installed = ", ".join(f"{toolkit.version} at {toolkit.home}" for toolkit in host.toolkits)
    raise UnsatisfiableError(
        f"CUDA {required} is needed and is not on this machine (found: {installed or 'none'})",
        location="toolkit",
        hint="choose another torch, or other GPUs in target.gpus",
    )


def is_toolkit_obtainable(settings: Settings, host: Host, knowledge: Knowledge, cuda: str) -> bool:
    """Return True if toolkit.provider can provide that CUDA release here."""
    provider = settings.toolkit.provider
    matching = [toolkit for toolkit in host.toolkits if toolkit.release == cuda]
    match provider:
        case "path":
            return any(toolkit.asked for toolkit in matching)
        case "system":
            return bool(matching)
    return (provider == "auto" and bool(matching)) or _is_on_pypi(knowledge, cuda)


def _is_on_pypi(knowledge: Knowledge, cuda: str) -> bool:
    try:
        return find_toolkit(knowledge, cuda).pypi
    except KnowledgeError as error:
        raise SettingsError(error.message, location="toolkit.version", hint=error.hint) from error


def _resolve_path_toolkit(settings: Settings, host: Host) -> ToolkitResolution:
    path = settings.toolkit.path
    kits = [kit for kit in host.toolkits if kit.asked]
    if not path or not kits:
        raise SettingsError(
            f"no CUDA toolkit at {path}" if path else "provider path needs toolkit.path",
            location="toolkit.path",
            hint="set toolkit.path to the folder that contains bin/nvcc",
        )
    if settings.toolkit.version not in {"auto", kits[0].release}:
        raise UnsatisfiableError(
            f"CUDA {kits[0].version} is at {path}, but {settings.toolkit.version} is required",
            location="toolkit.version",
            hint="set another toolkit.path",
        )
    why = f"CUDA {kits[0].version} at {path}, from toolkit.path"
    return ToolkitResolution("path", kits[0].release, kits[0].home, why)


def require_toolkit_targets(knowledge: Knowledge, cuda: str, targets: tuple[Arch, ...]) -> None:
    """Raise `UnsatisfiableError` if the toolkit cannot compile for a target.

    The message names a toolkit that can.
    """
    try:
        require_toolkit(knowledge, cuda, targets)
    except KnowledgeError as error:
        # No toolkit is suggested: this torch may not build with one that can compile the targets
        hint, release = (
            "choose another torch, or other GPUs in target.gpus",
            format_major_minor(cuda),
        )
        if release not in knowledge.toolkits:
            hint = f"describe CUDA {release} in config/knowledge/toolkits.yaml"
        raise UnsatisfiableError(error.message, location="toolkit.version", hint=hint) from error
