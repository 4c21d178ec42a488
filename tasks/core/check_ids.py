"""List the ids of the checks of `doit doctor`, for the setting doctor.ignore."""

from typing import Literal, get_args

_MachineCheck = Literal["settings", "os", "python", "uv", "git"]
_ToolCheck = Literal["compiler", "visual-studio", "windows-sdk", "toolkit", "torch-checks"]
_BuildCheck = Literal["submodules", "conflicts", "cards", "targets", "driver", "cmake", "ninja"]
_DiskCheck = Literal["known-bad", "disk", "filesystem", "memory", "swap", "paths", "long-paths"]
_HostCheck = Literal["locale", "variables", "proxies", "index", "knowledge", "git-hosts", "workers"]
_FolderCheck = Literal["leftovers", "torch-shadow", "names", "trust"]
# In the order in which `doit doctor` shows the checks
CheckId = Literal[_MachineCheck, _ToolCheck, _BuildCheck, _DiskCheck, _HostCheck, _FolderCheck]

CHECK_IDS: tuple[CheckId, ...] = get_args(CheckId)
ALL_CHECK_IDS = frozenset(CHECK_IDS)

# The checks that run before a build writes anything. Each can find a problem, and uses neither
# the network nor slow processes
GATE_CHECK_IDS: frozenset[CheckId] = frozenset(
    {
        *("os", "python", "git", "compiler", "toolkit", "cards", "driver"),
        *("torch-checks", "submodules", "conflicts", "known-bad", "disk", "memory", "paths"),
    }
)
