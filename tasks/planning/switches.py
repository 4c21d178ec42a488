"""USE_CUDA in build.flags or build.env, against what target.gpus asks for. Pure.

It goes before ours: the build would make no code for the cards, or some that nobody asked for, and
its wheel would be named after what was.
"""

from __future__ import annotations

from tasks.core.errors import SettingsError
from tasks.core.resolution import Resolution
from tasks.settings.build import Build

_USE_CUDA = "USE_CUDA"
# PyTorch's tools/setup_helpers/env.py, check_negative_env_flag; CMake takes an empty one so, too
_FALSE_VALUES = {"", "0", "OFF", "NO", "FALSE", "N"}


def require_consistent_use_cuda(build: Build, choice: Resolution) -> None:
    """`SettingsError` where it has a torch built with CUDA for the CPU, or without it for cards."""
    # build.env goes before build.flags
    given = {"build.flags": build.flags.get(_USE_CUDA), "build.env": build.env.get(_USE_CUDA)}
    said = [(section, value) for section, value in given.items() if value is not None]
    if choice.strategy != "source" or not said:
        return
    section, value = said[-1]
    wanted = str(value).strip().upper() not in _FALSE_VALUES
    if wanted == bool(choice.targets):
        return
    if wanted:
        what = "it asks for a torch with CUDA, and this is a build for the CPU"
        todo = "take it out, or name the cards in target.gpus"
    else:
        archs = ", ".join(map(str, choice.targets))
        what = f"it asks for a torch without CUDA, and target.gpus for code for {archs}"
        todo = "take it out; a build for the CPU is target.gpus: []"
    raise SettingsError(
        f"{what} ({choice.targets_why})", location=f"{section}.{_USE_CUDA}", hint=todo
    )
