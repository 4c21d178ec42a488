"""What machine code an extension's wheel holds, read before it is installed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath

from tasks.core.deps_model import DepsManifest
from tasks.core.errors import BadArtifactError
from tasks.core.formatting.few import format_short_list
from tasks.core.model import Arch
from tasks.knowledge import load_knowledge
from tasks.knowledge.archs import MachineCode
from tasks.knowledge.covers import can_run_code, select_library_targets
from tasks.stages.extensions.job import ExtensionJob
from tasks.stages.extensions.project import Project, locate_project
from tasks.system import trees
from tasks.wheels.binaries.codereader import MachineCodeReader
from tasks.wheels.files import wheelfile

_ARCH_HINTS = (
    "its setup.py sets the archs itself; without that TORCH_CUDA_ARCH_LIST counts",
    "no official wheel of it will do: build it, with its git and ref in extensions",
)
# Variables with CUDA in their names that do not enable CUDA
_NO_CUDA_SWITCHES = {"CUDA_HOME", "CUDA_PATH", "TORCH_CUDA_ARCH_LIST", "CUDA_VISIBLE_DEVICES"}


def read_library_archs(
    job: ExtensionJob, deps: DepsManifest, unpacked: Path, recorded: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """Library → archs ("12.0", "12.0+PTX"), of each library that has device code.

    `recorded` are the wheel's members, `unpacked` the folder where they lie. Raises
    `BadArtifactError` where a target is not covered.
    """
    found: dict[str, tuple[str, ...]] = {}
    cubins, ptx = set[Arch](), set[Arch]()
    maker = deps.toolkit.version if deps.toolkit and job.kind != "wheel" else None
    reader = MachineCodeReader(deps.cuobjdump or "")
    for name in wheelfile.list_libraries(recorded):
        code = reader.read_images(unpacked / name).code
        if code.cubins or code.ptx:
            _require_targets(job, name, code, maker)
            cubins, ptx = cubins | code.cubins, ptx | code.ptx
            found[name] = code.names
    if found:
        whole = MachineCode(frozenset(cubins), frozenset(ptx))
        _require_targets(job, "the wheel", whole, maker)
    return found


def needs_device_code(job: ExtensionJob, unpacked: Path, recorded: Mapping[str, str]) -> bool:
    """Return True if a library of the wheel must hold device code: its settings say so, or its
    source has .cu files. A wheel that holds these but no library compiles them at first use.
    """
    if not job.targets or job.kind == "wheel" or job.cuda == "none":
        return False
    if job.cuda == "required":
        return True
    carries = not any(wheelfile.list_libraries(recorded)) and any(unpacked.rglob("*.cu"))
    return bool(_find_kernel_sources(job)) and not carries


def build_missing_code_error(job: ExtensionJob) -> BadArtifactError:
    """Return the error for a wheel that needs device code and has none."""
    sources, project = _find_kernel_sources(job), locate_project(job)
    return BadArtifactError(
        f"{job.name} was built without device code, "
        + (
            f"though its source has {format_short_list([path.as_posix() for path in sources], 2)}"
            if sources
            else f"and extensions ({job.name}).cuda is required"
        ),
        location=project.gpu_check_line or f"extensions ({job.name})",
        hint="\n  → ".join(_list_code_hints(job, project)),
    )


def _list_code_hints(job: ExtensionJob, project: Project) -> Iterable[str]:
    """Yield hints to get the .cu files compiled, the most likely first."""
    place, forced = f"extensions ({job.name})", job.env.get("FORCE_CUDA")
    reads = [name for name in project.variables if "CUDA" in name and name not in _NO_CUDA_SWITCHES]
    if forced != "1" and "FORCE_CUDA" in reads:
        yield f'set {place}.env: {{FORCE_CUDA: "1"}}'
    elif project.gpu_check_line:
        yield (
            "this line checks whether this machine has a GPU: change it with a patch "
            f"({place}.patches), or build on a machine with a GPU"
        )
    others = [name for name in reads if name not in ("FORCE_CUDA", *job.env)]
    if others:
        yield f"its setup.py reads {format_short_list(others, 3)}: set what it needs in {place}.env"
    yield f"if it needs no CUDA code, set {place}.cuda: none"


def _find_kernel_sources(job: ExtensionJob) -> tuple[PurePath, ...]:
    return trees.find_kernels(job.tree / job.subdirectory)


def _require_targets(job: ExtensionJob, name: str, code: MachineCode, maker: str | None) -> None:
    knowledge = load_knowledge(Path(job.knowledge))
    targets = select_library_targets(PurePath(name).name, job.targets)
    missing = [arch for arch in targets if not can_run_code(knowledge, code, arch, maker=maker)]
    if missing:
        raise BadArtifactError(
            f"{name} holds code for {_format_archs(code.cubins)} and none that runs on {_format_archs(missing)}",
            location=f"extensions ({job.name})",
            hint=_ARCH_HINTS[job.kind == "wheel"],
        )


def _format_archs(found: Iterable[Arch]) -> str:
    return ", ".join(map(str, sorted(found))) or "no arch"
