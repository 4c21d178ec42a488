"""What machine code an extension's wheel holds, read before it is installed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from tasks.effects.binaries.codereader import Reader
from tasks.effects.wheels import wheelfile
from tasks.errors import BadArtifactError
from tasks.knowledge import load
from tasks.knowledge.archs import MachineCode
from tasks.knowledge.covers import covers
from tasks.model import Arch
from tasks.stages.deps.job import Deps
from tasks.stages.extensions.job import ExtensionJob

_TODO = (
    "its setup.py sets the archs itself; without that TORCH_CUDA_ARCH_LIST counts",
    "no official wheel of it will do: build it, with its git and ref in extensions",
)


def archs(
    job: ExtensionJob, deps: Deps, unpacked: Path, recorded: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """Library → archs ("12.0", "12.0+PTX"), of each library that has device code.

    `recorded` are the wheel's members, `unpacked` the folder where they lie. Raises
    `BadArtifactError` where a target is not covered.
    """
    found: dict[str, tuple[str, ...]] = {}
    maker = deps.toolkit.version if deps.toolkit and job.kind != "wheel" else None
    reader = Reader(deps.cuobjdump or "")
    for name in wheelfile.libraries(recorded):
        code = reader.images(unpacked / name).code
        if code.cubins or code.ptx:
            _require_targets(job, name, code, maker)
            found[name] = (*map(str, sorted(code.cubins)), *_with_ptx(code))
    return found


def _with_ptx(code: MachineCode) -> Iterable[str]:
    return (f"{arch}+PTX" for arch in sorted(code.ptx))


def _require_targets(job: ExtensionJob, name: str, code: MachineCode, maker: str | None) -> None:
    knowledge = load(Path(job.knowledge))
    missing = [arch for arch in job.targets if not covers(knowledge, code, arch, maker=maker)]
    if missing:
        raise BadArtifactError(
            f"{name} holds code for {_list(code.cubins)} and none that runs on {_list(missing)}",
            where=f"extensions ({job.name})",
            todo=_TODO[job.kind == "wheel"],
        )


def _list(found: Iterable[Arch]) -> str:
    return ", ".join(map(str, sorted(found))) or "no arch"
