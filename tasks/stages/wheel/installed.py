"""A torch as it lies installed, read from its files: version, CUDA, and the surface that extensions
compile against.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tasks.digest import canonical, sha256_text
from tasks.effects import pythons, wheelfile
from tasks.errors import BadArtifactError
from tasks.model import TorchFound
from tasks.stages.deps.job import Deps
from tasks.stages.wheel.job import Surface

_HEADERS = ("torch/include/", "torch/share/cmake/")
_LIBRARIES = ("torch/lib/", "torch/_C")


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


def surface(found: TorchFound, deps: Deps) -> Surface:
    """What an extension compiles against, from the installed RECORD, or from the files where there
    is none.
    """
    recorded = wheelfile.installed_record(Path(found.folder).parent, "torch") or _looked_at(
        Path(found.folder)
    )
    return Surface(
        release=found.version.partition("+")[0],
        cuda=found.cuda,
        python_tag="cp" + "".join(deps.python_version.split(".")[:2]),
        headers=_digest(recorded, _HEADERS),
        libraries=_digest(recorded, _LIBRARIES),
        identity=deps.identity,
    )


def _digest(recorded: Mapping[str, str], beginnings: tuple[str, ...]) -> str:
    return sha256_text(
        canonical({name: d for name, d in recorded.items() if name.startswith(beginnings)})
    )


def _looked_at(folder: Path) -> dict[str, str]:
    """Size and time stand for the bytes of a torch that came without RECORD (conda, a system
    package).
    """
    places = [folder / "include", folder / "share" / "cmake", folder / "lib"]
    named = [path for place in places for path in sorted(place.rglob("*")) if path.is_file()]
    modules = [path for path in folder.glob("_C*") if path.is_file()]
    return {
        path.relative_to(
            folder.parent
        ).as_posix(): f"{path.stat().st_size}:{path.stat().st_mtime_ns}"
        for path in (*named, *modules)
    }


def _named(cuda: str | None) -> str:
    return f"CUDA {cuda}" if cuda else "no CUDA"
