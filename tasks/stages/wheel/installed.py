"""A torch as it lies installed: is it the one that was meant?"""

from __future__ import annotations

from tasks.core.errors import BadArtifactError
from tasks.core.model import TorchFound
from tasks.system.python import pythons


def torch_of(python: str) -> TorchFound:
    """The torch that an interpreter would import."""
    found = pythons.interpreter(python).torch
    if found is None:
        raise BadArtifactError(
            "torch is not there after it was installed",
            where=python,
            todo="doit clean wheel, then doit build",
        )
    return found


def require(found: TorchFound, release: str, cuda: str | None) -> None:
    """`BadArtifactError` where another release, or another CUDA, was installed than the plan stands
    on.
    """
    if found.version.partition("+")[0] != release:
        raise BadArtifactError(
            f"torch {found.version} was installed, and {release} was meant", where=found.folder
        )
    if found.cuda != cuda:
        raise BadArtifactError(
            f"this torch {found.version} has {_named(found.cuda)}, and {_named(cuda)} was meant",
            where=found.folder,
            todo=f'set toolkit.version: "{found.cuda}"'
            if found.cuda
            else "choose another torch.index",
        )


def _named(cuda: str | None) -> str:
    return f"CUDA {cuda}" if cuda else "no CUDA"
