"""The section of one profile, key by key. Extra keys are refused: what is not understood cannot be
kept.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Annotated, Literal

from pydantic import Field

from tasks.settings import forms
from tasks.settings.section import StrictModel

Sha256 = Annotated[str, Field(pattern=forms.SHA256_PATTERN)]
Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40,64}$")]
Packages = dict[Annotated[str, Field(pattern=forms.SDIST_PATTERN)], tuple[Sha256, ...]]


class LockedInputs(StrictModel):
    """What torch, an extension or a companion was made of: one of git, sdist, wheel, tarball and
    path, a path without a pin. `requires` are the packages that its build imported, `packages`
    those that came because it asks for them.
    """

    git: str = ""
    ref: str = ""
    """What was asked for; `commit` is what it stood for."""
    commit: Commit | Literal[""] = ""
    submodules: dict[str, Commit] = {}
    sdist: str = ""
    wheel: str = ""
    """The name of the file."""
    tarball: str = ""
    path: str = ""
    sha256: Sha256 | Literal[""] = ""
    patches: tuple[Sha256, ...] = ()
    requires: Packages = {}
    packages: Packages = {}


class LockSection(StrictModel):
    """One profile. `python` is major and minor, `platform` system and machine: what is locked are
    files for these.
    """

    python: str
    platform: str
    strategy: Literal["source", "prebuilt", "existing"]
    release: str
    """Of torch, without its local part."""
    torch: LockedInputs = LockedInputs()
    extensions: dict[str, LockedInputs] = {}
    """By name, companions among them."""
    packages: Packages = {}
    """What the build environment holds beside those that torch and the extensions ask for."""
    toolkit: Packages = {}
    """What lies in a folder of its own: the CUDA toolkit beside an existing torch, cuobjdump."""


def merge_kept_extensions(
    now: LockSection, held: LockSection | None, names: Container[str]
) -> LockSection:
    """The section `now`, with what `held` has of the extensions `names`, which `now` is without."""
    before = held.extensions if held else {}
    kept = {name: made for name, made in before.items() if name in names}
    return now.model_copy(update={"extensions": {**kept, **now.extensions}})
