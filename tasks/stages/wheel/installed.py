"""A torch as it lies installed: is it the one that was meant?"""

from __future__ import annotations

from tasks.core.errors import BadArtifactError
from tasks.core.model import InstalledTorch
from tasks.system.python import pythons


def find_installed_torch(python: str) -> InstalledTorch:
    """The torch that an interpreter would import."""
    found = pythons.find_interpreter(python).torch
    if found is None:
        raise BadArtifactError(
            "torch is not there after it was installed",
            location=python,
            hint="doit clean wheel, then doit build",
        )
    return found


def require_release(found: InstalledTorch, release: str, cuda: str | None) -> None:
    """`BadArtifactError` where another release, or another CUDA, was installed than the plan stands
    on.
    """
    if found.version.partition("+")[0] != release:
        raise BadArtifactError(
            f"torch {found.version} was installed, and {release} was meant", location=found.folder
        )
    if found.cuda != cuda:
        raise BadArtifactError(
            f"this torch {found.version} has {_format_cuda(found.cuda)}, and {_format_cuda(cuda)} was meant",
            location=found.folder,
            hint=f'set toolkit.version: "{found.cuda}"'
            if found.cuda
            else "choose another torch.index",
        )


def _format_cuda(cuda: str | None) -> str:
    return f"CUDA {cuda}" if cuda else "no CUDA"
