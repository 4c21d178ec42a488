"""Whether a torch that is built here takes CUDA's libraries from NVIDIA's Python packages. Pure."""

from __future__ import annotations

from tasks.deciding.choice import Choice
from tasks.errors import SettingsError
from tasks.settings.schema import Settings


def takes_packages(settings: Settings, choice: Choice) -> bool:
    """By wheel.cuda; left to us, as the toolkit came. `SettingsError` where that cannot be."""
    if choice.strategy != "source" or not choice.cuda:
        return False
    asked = settings.wheel.cuda
    if asked == "packages" and choice.system != "linux":
        raise SettingsError(
            "packages is for Linux: elsewhere torch does not look for CUDA in NVIDIA's packages",
            where="wheel.cuda",
            todo="set it to auto",
        )
    by_packages = choice.toolkit.provider == "pypi" if asked == "auto" else asked == "packages"
    return by_packages and choice.system == "linux"
