"""A checkout in miniature for reports: its settings, a profile that a test writes, and an ear."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tasks.core.errors import TorchyardError
from tasks.core.model import Gpu, Host, Interpreter
from tasks.core.ninja_progress import Progress
from tasks.core.project import Project
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.lock.opened_profile_io import Profile, SelectedProfile
from tasks.planning.profile_plan import build_layout, make_plan
from tasks.settings.layers_io import load_settings

ROOT = Path(__file__).parents[2]
# How many times as many random moments and values the long tier tries; 11 takes hours
MOMENTS = int(os.environ.get("TORCHYARD_TEST_MOMENTS", "1"))
KNOWLEDGE = load_knowledge(ROOT / "config" / "knowledge")
# Of tests that name its CUDA releases and packages. The default may be newer
RELEASE = KNOWLEDGE.releases["2.15"].patch
CARD = Gpu("NVIDIA GeForce RTX 5090", "12.0", 32_607)
HOST = Host("linux", "x86_64", Interpreter("/usr/bin/python3", "3.12.4"), (CARD,))

OnSystem = Callable[..., None]  # takes the names of a system, as /etc/os-release has them


class Heard(list[str]):
    """Everything that was said."""

    print_line = print_report = print_warning = list.append

    def show_progress(self, text: str, progress: Progress | None = None) -> None:
        self.append(f"{text} {progress}" if progress else text)

    @property
    def text(self) -> str:
        return "\n".join(self)


def pin_torch(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings that name a release of torch: their own, or `RELEASE`."""
    return {**settings, "torch": {"version": RELEASE, **settings.get("torch", {})}}


def pin_default_torch(text: str) -> str:
    """Return the text of config/default.yaml with `RELEASE` as torch.version."""
    pinned, count = re.subn(r"(?m)^(torch:\n(?:  .*\n)*?  version: )\S+", rf'\1"{RELEASE}"', text)
    assert count == 1
    return pinned


def write(yard: Path, text: str, profile: str = "mine") -> None:
    (yard / "config" / "profiles" / f"{profile}.yaml").write_text(text, encoding="utf-8")


def opened(yard: Path, profile: str = "mine", on: Host = HOST) -> SelectedProfile:
    project = Project.of_checkout(yard)
    loaded = load_settings(project, profile, {})
    layout = build_layout(project, profile, loaded.settings)
    choice, plan = make_plan(loaded.settings, on, KNOWLEDGE, layout)
    return SelectedProfile(project, profile, Profile(loaded, layout, on, KNOWLEDGE, choice, plan))


def broken(yard: Path, text: str) -> SelectedProfile:
    write(yard, text)
    with pytest.raises(TorchyardError) as found:
        load_settings(Project.of_checkout(yard), "mine", {})
    return SelectedProfile(Project.of_checkout(yard), "mine", None, found.value)
