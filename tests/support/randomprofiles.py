"""Random profiles with a host each: torch, GPUs, toolkits, Pythons and platforms in any mix.

A third of them has a plan, since most values are drawn to suit the release of torch.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from tasks.core.model import Host, InstalledToolkit, InstalledTorch, Interpreter, System
from tasks.knowledge.facts import Release
from tasks.knowledge.torch_releases import find_release, is_python_supported, normalize_machine
from tasks.knowledge.versions import parse_major_minor
from tests.support.checkout import KNOWLEDGE
from tests.support.newest import LATER_TORCH, NEWEST_RELEASE, NEXT_TORCH

PLATFORMS: tuple[tuple[System, str], ...] = (
    ("linux", "x86_64"),
    ("linux", "aarch64"),
    ("windows", "AMD64"),
)
CUDAS = list(KNOWLEDGE.toolkits)
RELEASES = list(KNOWLEDGE.releases.values())
_LAST_PYTHON = max(parse_major_minor(release.last_python) for release in RELEASES)
PYTHONS = [f"3.{minor}" for minor in range(8, _LAST_PYTHON[1] + 1)]
CUDA_EXTENSION = {"name": "smoke", "path": "templates/smoke"}


def list_patches(release: Release) -> list[str]:
    """Return every patch of a minor release, those that the knowledge does not record too."""
    *_, last = release.patch.split(".")
    return [f"{release.minor}.{patch}" for patch in range(int(last) + 1)]


def list_pythons(version: str) -> list[str]:
    """Return the Pythons that a release of torch supports, all for the version `auto`."""
    if version == "auto":
        return PYTHONS
    release = find_release(KNOWLEDGE, version)
    return [python for python in PYTHONS if is_python_supported(release, python)]


NEXT_PATCH = f"{NEWEST_RELEASE.minor}.{len(list_patches(NEWEST_RELEASE))}"
UNKNOWN_TORCHES = (NEXT_PATCH, NEXT_TORCH, LATER_TORCH)
PATCHES = [patch for release in RELEASES for patch in list_patches(release)]
_CUBINS = sorted({arch for kit in KNOWLEDGE.toolkits.values() for arch in kit.makes})
_UNKNOWN_GPUS = ("12.3", f"{_CUBINS[-1].major + 1}.0")


@dataclass(frozen=True)
class RandomProfile:
    """The settings of a profile, as a mapping, and the host that it is for."""

    settings: dict[str, Any]
    host: Host

    def __str__(self) -> str:
        """Return everything that decides the plan, in one line."""
        torch, toolkit = self.settings["torch"], self.settings["toolkit"]
        host, installed = self.host, self.host.python.torch
        parts = [
            f"torch {torch['version']} {torch['strategy']}",
            f"gpus {', '.join(self.settings['target']['gpus'])}",
            f"toolkit {toolkit['version']} {toolkit['provider']}",
            "with an extension" if self.settings["extensions"] else "without extensions",
            f"{host.system} {host.machine}",
            f"Python {host.python.version}",
            f"has CUDA {' and '.join(kit.version for kit in host.toolkits) or 'nowhere'}",
        ]
        return "; ".join([*parts, *([f"has torch {installed.version}"] if installed else [])])


def make_profiles(seed: int, count: int) -> list[RandomProfile]:
    """Return `count` profiles, the same ones for the same seed and the same knowledge."""
    source = random.Random(seed)
    return [_make_profile(source) for _ in range(count)]


def _make_profile(source: random.Random) -> RandomProfile:
    system, machine = source.choices(PLATFORMS, (3, 1, 2))[0]
    versions = (source.choice(PATCHES), "auto", source.choice(UNKNOWN_TORCHES))
    version = source.choices(versions, (6, 3, 1))[0]
    strategy = source.choices(("auto", "prebuilt", "source", "existing"), (4, 3, 3, 2))[0]
    release = find_release(KNOWLEDGE, NEXT_TORCH if version == "auto" else version)
    has_torch = strategy == "existing" and source.random() < 0.9
    if has_torch:
        release = source.choice(RELEASES)
    kits = [_draw(source, release.cudas_built, CUDAS) for _ in range(source.randrange(3))]
    cuda = source.choice(release.cudas_built)
    torch = InstalledTorch(f"{release.patch}+cu{cuda.replace('.', '')}", cuda, "/site/torch")
    supported = list_pythons(release.patch)
    python = f"{_draw(source, supported, PYTHONS)}.{source.randrange(10)}"
    settings = {
        "torch": {"version": version, "strategy": strategy},
        "target": {"gpus": [_draw_gpu(source, machine) for _ in range(source.choice((1, 1, 2)))]},
        "toolkit": {
            "version": source.choice(["auto", "auto", _draw(source, release.cudas_built, CUDAS)]),
            "provider": source.choice(["auto", "auto", "pypi", "system"]),
        },
        "extensions": [CUDA_EXTENSION] * source.randrange(2),
    }
    interpreter = Interpreter("/usr/bin/python3", python, torch if has_torch else None)
    toolkits = tuple(InstalledToolkit(f"/cuda-{kit}", f"{kit}.1") for kit in dict.fromkeys(kits))
    return RandomProfile(settings, Host(system, machine, interpreter, (), toolkits))


def _draw(source: random.Random, fitting: list[str] | tuple[str, ...], known: list[str]) -> str:
    return source.choice(fitting if source.random() < 0.85 else known)


def _draw_gpu(source: random.Random, machine: str) -> str:
    """Return a GPU name or a capability. Few GPUs exist only in machines of another kind."""
    machines = {"", normalize_machine(machine)} if source.random() < 0.95 else {"", "aarch64"}
    names: dict[int, list[str]] = {}
    for gpu in KNOWLEDGE.gpus:
        if gpu.machine in machines:
            names.setdefault(gpu.arch.major, []).append(gpu.name)
    generations = list(names.values())
    generations += generations[2:]  # Volta and later, which most releases have code for
    plain = [str(arch) for arch in _CUBINS if not arch.suffix]
    suffixed = [str(arch) for arch in _CUBINS if arch.suffix]
    kinds = (source.choice(generations), plain, suffixed, _UNKNOWN_GPUS)
    return source.choice(source.choices(kinds, (7, 3, 1, 1))[0])
