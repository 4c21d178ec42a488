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

from tasks.core.errors import BuildError
from tasks.core.model import Arch
from tasks.knowledge import Knowledge
from tasks.knowledge.archs import MachineCode
from tasks.knowledge.covers import covers, targets_of
from tasks.stages.extensions.job import ExtensionJob
from tasks.stages.extensions.project import Project, project_of

_LIBRARY = re.compile(r"-DTORCH_EXTENSION_NAME=(\w+)")
_OF_CPP_EXTENSION = "-DTORCH_API_INCLUDE_EXTENSION_H"  # a CMakeLists.txt may define the name, too
_GENCODE = re.compile(
    r"(?:-gencode|--generate-code)[= ]['\"\\]*arch=compute_\w+,code=['\"\\]*(\[[^\]]*\]|[\w,]+)"
)
_ARCH = re.compile(r"(?:-arch|--gpu-architecture)[= ]['\"]?((?:sm|compute)_\w+)")
_CODE = re.compile(r"(sm|compute)_(\d{2,3}[af]?)\b")


def code_of(command: str) -> MachineCode | None:
    """Return the machine code that the nvcc options of a command produce, None without an arch."""
    # -arch=sm_89 stands for the code and the PTX of it
    alone = [f"{arch},{arch.replace('sm_', 'compute_')}" for arch in _ARCH.findall(command)]
    listed = " ".join([*_GENCODE.findall(command), *alone])
    found = [(kind, Arch.parse(f"sm_{digits}")) for kind, digits in _CODE.findall(listed)]
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
    error: BuildError | None = None
    stop: threading.Event = field(default_factory=threading.Event)

    def take(self, line: str) -> None:
        """Check a line of the log."""
        if "nvcc" in line:
            self._check(line)

    def look(self) -> None:
        """Check the options for nvcc in the build.ninja of what is compiled now."""
        folder = Path(self.job.tree) / self.job.subdirectory / "build"
        for file in folder.glob("temp*/build.ninja"):
            options, whole, _ = file.read_text("utf-8", errors="replace").partition("\nbuild ")
            for line in options.splitlines() if whole else ():
                if line.startswith("cuda_"):
                    self._check(line)

    def _check(self, command: str) -> None:
        library, code = _LIBRARY.search(command), code_of(command)
        if self.error or library is None or code is None or _OF_CPP_EXTENSION not in command:
            return
        targets = targets_of(library[1], self.job.targets)
        left = [one for one in targets if not covers(self.knowledge, code, one, maker=self.maker)]
        if left:
            self.error = _left_out(self.job, code, left)
            self.stop.set()


def _left_out(job: ExtensionJob, code: MachineCode, left: Iterable[Arch]) -> BuildError:
    project = project_of(job)
    archs = ", ".join(map(str, sorted(code.cubins | code.ptx)))
    return BuildError(
        f"{job.name} is being compiled for {archs}, not for {', '.join(map(str, left))} "
        "(target.gpus): the build was stopped at its first command",
        where=project.sets_archs or f"extensions ({job.name})",
        todo="\n  → ".join(_hints(job, project)),
    )


def _hints(job: ExtensionJob, project: Project) -> Iterator[str]:
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
