"""What moved in torch's surface since an extension was built for it, in words."""

from __future__ import annotations

from tasks.core.errors import BuildError
from tasks.stages import surfaces
from tasks.stages.extensions.differences import differences
from tasks.stages.extensions.job import Built, ExtensionJob
from tasks.stages.wheel.job import Surface
from tasks.system import manifests
from tasks.wheels.binaries import symbols

_LONGEST = 80  # of a symbol with its parameters


def told(job: ExtensionJob) -> tuple[str, ...]:
    """A line for each kind of thing that moved; none where that is not known any more."""
    try:
        built, now = manifests.read(job.manifest, Built), manifests.read(job.surface, Surface)
    except BuildError:
        return ()
    if built.surface == now.name:
        return ("the environment was made anew",)
    before, after = (surfaces.read(job.surfaces, name) for name in (built.surface, now.name))
    return tuple(differences(before, after, _named)) if before and after else ()


def _named(symbol: str) -> str:
    """`c10::detail::torchCheckFail(…)`; a short one with its parameters."""
    whole, short = symbols.demangled(symbol)
    return whole if len(whole) <= _LONGEST or whole == short else f"{short}(…)"
