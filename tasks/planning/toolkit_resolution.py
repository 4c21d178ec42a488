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
    wanted = settings.toolkit.version if settings.toolkit.version != "auto" else (cuda or "")
    if provider == "path":
        return _resolve_path_toolkit(settings, host)
    require_toolkit_targets(knowledge, wanted, targets)
    same = [found for found in host.toolkits if found.release == wanted]
    if provider in {"auto", "system"} and same:
        return ToolkitResolution(
            "system", wanted, same[0].home, f"CUDA {same[0].version} is at {same[0].home}"
        )
    if provider != "system" and _is_on_pypi(knowledge, wanted):
        return ToolkitResolution("pypi", wanted, "", f"CUDA {wanted} from Python packages")
    here = ", ".join(f"{found.version} at {found.home}" for found in host.toolkits) or "none"
    raise UnsatisfiableError(
        f"CUDA {wanted} is needed and is not on this machine (found: {here})",
        location="toolkit",
        hint="choose another torch, or other cards in target.gpus",
    )


def is_toolkit_obtainable(settings: Settings, host: Host, knowledge: Knowledge, cuda: str) -> bool:
    """Return True if toolkit.provider can provide that CUDA release here."""
    provider = settings.toolkit.provider
    found = [kit for kit in host.toolkits if kit.release == cuda]
    match provider:
        case "path":
            return any(kit.asked for kit in found)
        case "system":
            return bool(found)
    return (provider == "auto" and bool(found)) or _is_on_pypi(knowledge, cuda)


def _is_on_pypi(knowledge: Knowledge, cuda: str) -> bool:
    try:
        return find_toolkit(knowledge, cuda).pypi
    except KnowledgeError as error:
        raise SettingsError(error.message, location="toolkit.version", hint=error.hint) from error


def _resolve_path_toolkit(settings: Settings, host: Host) -> ToolkitResolution:
    path = settings.toolkit.path
    found = [kit for kit in host.toolkits if kit.asked]
    if not path or not found:
        raise SettingsError(
            f"no CUDA toolkit at {path}" if path else "provider path needs a path",
            location="toolkit.path",
            hint="name the folder that has bin/nvcc",
        )
    if settings.toolkit.version not in {"auto", found[0].release}:
        raise UnsatisfiableError(
            f"CUDA {found[0].version} is at {path}, and {settings.toolkit.version} was asked for",
            location="toolkit.version",
            hint="name another toolkit.path",
        )
    return ToolkitResolution(
        "path", found[0].release, found[0].home, f"CUDA {found[0].version} at {path}, as asked"
    )


def require_toolkit_targets(knowledge: Knowledge, cuda: str, targets: tuple[Arch, ...]) -> None:
    """Raise `UnsatisfiableError` if the toolkit cannot compile for a target.

    The message names a toolkit that can.
    """
    try:
        require_toolkit(knowledge, cuda, targets)
    except KnowledgeError as error:
        # No toolkit is suggested: this torch may not build with one that can compile the targets
        known = format_major_minor(cuda) in knowledge.toolkits
        todo = "choose another torch, or other cards in target.gpus"
        if not known:
            todo = f"describe CUDA {format_major_minor(cuda)} in config/knowledge/toolkits.yaml"
        raise UnsatisfiableError(error.message, location="toolkit.version", hint=todo) from error
