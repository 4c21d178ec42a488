"""What machine code an extension's wheel holds, read before it is installed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath

from tasks.core.deps_model import Deps
from tasks.core.errors import BadArtifactError
from tasks.core.formatting.few import few
from tasks.core.model import Arch
from tasks.knowledge import load
from tasks.knowledge.archs import MachineCode
from tasks.knowledge.covers import covers, targets_of
from tasks.stages.extensions.job import ExtensionJob
from tasks.stages.extensions.project import Project, project_of
from tasks.system import trees
from tasks.wheels.binaries.codereader import Reader
from tasks.wheels.files import wheelfile

_TODO = (
    "its setup.py sets the archs itself; without that TORCH_CUDA_ARCH_LIST counts",
    "no official wheel of it will do: build it, with its git and ref in extensions",
)
# Variables with CUDA in their names that do not enable CUDA
_NO_SWITCH = {"CUDA_HOME", "CUDA_PATH", "TORCH_CUDA_ARCH_LIST", "CUDA_VISIBLE_DEVICES"}


def archs(
    job: ExtensionJob, deps: Deps, unpacked: Path, recorded: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """Library → archs ("12.0", "12.0+PTX"), of each library that has device code.

    `recorded` are the wheel's members, `unpacked` the folder where they lie. Raises
    `BadArtifactError` where a target is not covered.
    """
    found: dict[str, tuple[str, ...]] = {}
    cubins, ptx = set[Arch](), set[Arch]()
    maker = deps.toolkit.version if deps.toolkit and job.kind != "wheel" else None
    reader = Reader(deps.cuobjdump or "")
    for name in wheelfile.libraries(recorded):
        code = reader.images(unpacked / name).code
        if code.cubins or code.ptx:
            _require_targets(job, name, code, maker)
            cubins, ptx = cubins | code.cubins, ptx | code.ptx
            found[name] = code.names
    if found:
        whole = MachineCode(frozenset(cubins), frozenset(ptx))
        _require_targets(job, "the wheel", whole, maker)
    return found


def needs_code(job: ExtensionJob, unpacked: Path, recorded: Mapping[str, str]) -> bool:
    """Return True if a library of the wheel must hold device code: its settings say so, or its
    source has .cu files. A wheel that holds these but no library compiles them at first use.
    """
    if not job.targets or job.kind == "wheel" or job.cuda == "none":
        return False
    if job.cuda == "required":
        return True
    carries = not any(wheelfile.libraries(recorded)) and any(unpacked.rglob("*.cu"))
    return bool(_kernels(job)) and not carries


def missing_code_error(job: ExtensionJob) -> BadArtifactError:
    """Return the error for a wheel that needs device code and has none."""
    sources, project = _kernels(job), project_of(job)
    return BadArtifactError(
        f"{job.name} was built without device code, "
        + (
            f"though its source has {few([path.as_posix() for path in sources], 2)}"
            if sources
            else f"and extensions ({job.name}).cuda is required"
        ),
        where=project.asks_for_gpu or f"extensions ({job.name})",
        todo="\n  → ".join(_ways_to_code(job, project)),
    )


def _ways_to_code(job: ExtensionJob, project: Project) -> Iterable[str]:
    """Yield hints to get the .cu files compiled, the most likely first."""
    place, forced = f"extensions ({job.name})", job.env.get("FORCE_CUDA")
    reads = [name for name in project.variables if "CUDA" in name and name not in _NO_SWITCH]
    if forced != "1" and "FORCE_CUDA" in reads:
        yield f'set {place}.env: {{FORCE_CUDA: "1"}}'
    elif project.asks_for_gpu:
        yield (
            "this line checks whether this machine has a GPU: change it with a patch "
            f"({place}.patches), or build on a machine with a GPU"
        )
    others = [name for name in reads if name not in ("FORCE_CUDA", *job.env)]
    if others:
        yield f"its setup.py reads {few(others, 3)}: set what it needs in {place}.env"
    yield f"if it needs no CUDA code, set {place}.cuda: none"


def _kernels(job: ExtensionJob) -> tuple[PurePath, ...]:
    return trees.find_kernels(job.tree / job.subdirectory)


def _require_targets(job: ExtensionJob, name: str, code: MachineCode, maker: str | None) -> None:
    knowledge = load(Path(job.knowledge))
    targets = targets_of(PurePath(name).name, job.targets)
    missing = [arch for arch in targets if not covers(knowledge, code, arch, maker=maker)]
    if missing:
        raise BadArtifactError(
            f"{name} holds code for {_list(code.cubins)} and none that runs on {_list(missing)}",
            where=f"extensions ({job.name})",
            todo=_TODO[job.kind == "wheel"],
        )


def _list(found: Iterable[Arch]) -> str:
    return ", ".join(map(str, sorted(found))) or "no arch"
