"""Which CUDA toolkit compiles: the system's, a person's own, or Python packages. Pure."""

from __future__ import annotations

from tasks.core.errors import KnowledgeError, SettingsError
from tasks.core.model import Arch, Host
from tasks.core.resolution import ToolkitChoice, UnmetError
from tasks.knowledge import Knowledge
from tasks.knowledge.toolkits import require_toolkit, toolkit
from tasks.knowledge.versions import major_minor
from tasks.settings.schema import Settings

ARCHIVE = "https://developer.nvidia.com/cuda-toolkit-archive"


def decide_toolkit(
    settings: Settings,
    host: Host,
    knowledge: Knowledge,
    cuda: str | None,
    targets: tuple[Arch, ...],
) -> ToolkitChoice:
    """The toolkit for a torch with that CUDA. Raises `UnmetError` where it is not to be had, and
    sooner where it would be of no use; `SettingsError` for a toolkit.path that holds none.
    """
    provider = settings.toolkit.provider
    wanted = settings.toolkit.version if settings.toolkit.version != "auto" else (cuda or "")
    if provider == "path":
        return _toolkit_at(settings, host)
    require_reach(knowledge, wanted, targets)
    same = [found for found in host.toolkits if found.release == wanted]
    if provider in {"auto", "system"} and same:
        return ToolkitChoice(
            "system", wanted, same[0].home, f"CUDA {same[0].version} is at {same[0].home}"
        )
    if provider != "system" and _from_packages(knowledge, wanted):
        return ToolkitChoice("pypi", wanted, "", f"CUDA {wanted} from Python packages")
    here = ", ".join(f"{found.version} at {found.home}" for found in host.toolkits) or "none"
    raise UnmetError(
        f"CUDA {wanted} is needed and is not on this machine (found: {here})",
        where="toolkit",
        todo="choose another torch, or other cards in target.gpus",
    )


def obtainable(settings: Settings, host: Host, knowledge: Knowledge, cuda: str) -> bool:
    """Whether toolkit.provider can give that CUDA here."""
    provider = settings.toolkit.provider
    found = [kit for kit in host.toolkits if kit.release == cuda]
    match provider:
        case "path":
            return any(kit.asked for kit in found)
        case "system":
            return bool(found)
    return (provider == "auto" and bool(found)) or _from_packages(knowledge, cuda)


def _from_packages(knowledge: Knowledge, cuda: str) -> bool:
    try:
        return toolkit(knowledge, cuda).pypi
    except KnowledgeError as error:
        raise SettingsError(error.what, where="toolkit.version", todo=error.todo) from error


def _toolkit_at(settings: Settings, host: Host) -> ToolkitChoice:
    path = settings.toolkit.path
    found = [kit for kit in host.toolkits if kit.asked]
    if not path or not found:
        raise SettingsError(
            f"no CUDA toolkit at {path}" if path else "provider path needs a path",
            where="toolkit.path",
            todo="name the folder that has bin/nvcc",
        )
    if settings.toolkit.version not in {"auto", found[0].release}:
        raise UnmetError(
            f"CUDA {found[0].version} is at {path}, and {settings.toolkit.version} was asked for",
            where="toolkit.version",
            todo="name another toolkit.path",
        )
    return ToolkitChoice(
        "path", found[0].release, found[0].home, f"CUDA {found[0].version} at {path}, as asked"
    )


def require_reach(knowledge: Knowledge, cuda: str, targets: tuple[Arch, ...]) -> None:
    """`UnmetError` that names a toolkit which makes code for the one that this cannot make."""
    try:
        require_toolkit(knowledge, cuda, targets)
    except KnowledgeError as error:
        # which toolkits make the archs is no advice: whether this torch is built with them counts
        known = major_minor(cuda) in knowledge.toolkits
        todo = "choose another torch, or other cards in target.gpus"
        if not known:
            todo = f"describe CUDA {major_minor(cuda)} in config/knowledge/toolkits.yaml"
        raise UnmetError(error.what, where="toolkit.version", todo=todo) from error
