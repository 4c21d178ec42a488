"""Check the archs that an extension is compiled for while it builds: if a target is missing, stop
the build at its first command instead of failing after the last.

Only commands of torch's cpp_extension are checked, which passes the same options to all files of a
library. Ninja prints a command only after it has ended, so build.ninja is read too.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tasks.core.errors import TorchyardError
from tasks.core.model import Arch
from tasks.knowledge import Knowledge
from tasks.knowledge.archs import MachineCode
from tasks.knowledge.covers import can_run_code, select_library_targets
from tasks.stages.extensions.job import ExtensionJob
from tasks.stages.extensions.project import Project, locate_project

_EXTENSION_NAME = re.compile(r"-DTORCH_EXTENSION_NAME=(\w+)")
_CPP_EXTENSION_DEFINE = (
    "-DTORCH_API_INCLUDE_EXTENSION_H"  # a CMakeLists.txt may define the name, too
)
_GENCODE_OPTION = re.compile(
    r"(?:-gencode|--generate-code)[= ]['\"\\]*arch=compute_\w+,code=['\"\\]*(\[[^\]]*\]|[\w,]+)"
)
_ARCH_OPTION = re.compile(r"(?:-arch|--gpu-architecture)[= ]['\"]?((?:sm|compute)_\w+)")
_CODE_NAME = re.compile(r"(sm|compute)_(\d{2,3}[af]?)\b")


def parse_nvcc_archs(command: str) -> MachineCode | None:
    """Return the machine code that the nvcc options of a command produce, None without an arch."""
    # -arch=sm_89 stands for the code and the PTX of it
    alone = [f"{arch},{arch.replace('sm_', 'compute_')}" for arch in _ARCH_OPTION.findall(command)]
    listed = " ".join([*_GENCODE_OPTION.findall(command), *alone])
    found = [
        (kind, Arch.parse_capability(f"sm_{digits}")) for kind, digits in _CODE_NAME.findall(listed)
    ]
    if not found:
        return None
    return MachineCode(
        cubins=frozenset(arch for kind, arch in found if kind == "sm"),
        ptx=frozenset(arch for kind, arch in found if kind == "compute"),
    )


@dataclass
class ArchGuard:
    """Checks the commands of a build. `maker` is the version of the CUDA toolkit; `stop` is set
    together with `error`.
    """

    job: ExtensionJob
    knowledge: Knowledge
    maker: str | None
    error: TorchyardError | None = None
    stop: threading.Event = field(default_factory=threading.Event)

    def check_line(self, line: str) -> None:
        """Check a line of the log."""
        if "nvcc" in line:
            self._check_command(line)

    def check_build_file(self) -> None:
        """Check the options for nvcc in the build.ninja of what is compiled now."""
        folder = Path(self.job.tree) / self.job.subdirectory / "build"
        for file in folder.glob("temp*/build.ninja"):
            options, whole, _ = file.read_text("utf-8", errors="replace").partition("\nbuild ")
            for line in options.splitlines() if whole else ():
                if line.startswith("cuda_"):
                    self._check_command(line)

    def _check_command(self, command: str) -> None:
        library, code = _EXTENSION_NAME.search(command), parse_nvcc_archs(command)
        if self.error or library is None or code is None or _CPP_EXTENSION_DEFINE not in command:
            return
        targets = select_library_targets(library[1], self.job.targets)
        left = [
            one for one in targets if not can_run_code(self.knowledge, code, one, maker=self.maker)
        ]
        if left:
            self.error = _build_arch_error(self.job, code, left)
            self.stop.set()


def _build_arch_error(job: ExtensionJob, code: MachineCode, left: Iterable[Arch]) -> TorchyardError:
    project = locate_project(job)
    archs = ", ".join(map(str, sorted(code.cubins | code.ptx)))
    return TorchyardError(
        f"{job.name} is being compiled for {archs}, not for {', '.join(map(str, left))} "
        "(target.gpus): the build was stopped at its first command",
        location=project.arch_setting_line or f"extensions ({job.name})",
        hint="\n  → ".join(_list_arch_hints(job, project)),
    )


def _list_arch_hints(job: ExtensionJob, project: Project) -> Iterator[str]:
    """Yield hints to make setup.py compile for the targets."""
    place = f"extensions ({job.name})"
    digits = ";".join(f"{arch.major}{arch.minor}" for arch in job.targets)
    names = [name for name in project.variables if "ARCH" in name]
    for name in names:
        if name in job.env:
            yield f'correct {name} in {place}.env: its value is "{job.env[name]}"'
        elif name != "TORCH_CUDA_ARCH_LIST":
            yield f'its setup.py reads {name}: set {place}.env, e.g. {{{name}: "{digits}"}}'
    yield (
        f"remove the archs from its setup.py with a patch ({place}.patches): then "
        "TORCH_CUDA_ARCH_LIST is used"
    )
