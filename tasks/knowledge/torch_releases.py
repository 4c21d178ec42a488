"""PyTorch releases: the requirements of each, and the official wheel with code for a GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch
from tasks.knowledge.machine_code_rules import classify_compatibility
from tasks.knowledge.versions import (
    find_release_channel,
    format_major_minor,
    format_published_version,
    parse_major_minor,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tasks.knowledge.facts import Channel, OfficialWheel, Release
    from tasks.knowledge.knowledge_files import Knowledge

_MACHINE_ALIASES = {"amd64": "x86_64", "arm64": "aarch64"}


def normalize_machine(machine: str) -> str:
    """Return the name of a machine in wheel tags: `AMD64` is `x86_64`."""
    return _MACHINE_ALIASES.get(machine.lower(), machine.lower())


def format_platform(system: str, machine: str) -> str:
    """Format a platform for messages: `Linux x86_64`."""
    name = {"macos": "macOS"}.get(system, system.capitalize())
    return f"{name} {normalize_machine(machine)}"


def format_index_url(knowledge: Knowledge, cuda: str | None, channel: Channel = "") -> str:
    """Return the URL of pytorch.org's index for a CUDA release, or for the CPU."""
    index_kind = "_".join(filter(None, (channel, "" if cuda else "cpu"))) or "cuda"
    digits = "".join(cuda.split(".")[:2]) if cuda else ""
    return str(knowledge.pytorch_notes["indexes"][index_kind]).format(digits=digits)


def list_platform_wheels(
    found: Release, system: str, machine: str, cuda: str | None
) -> list[OfficialWheel]:
    """Return the wheels for a system and machine, of one CUDA release if `cuda` is set.

    `AMD64` is `x86_64`.
    """
    name = normalize_machine(machine)
    return [
        wheel
        for wheel in found.wheels
        if (wheel.system, wheel.machine) == (system, name)
        and (cuda is None or parse_major_minor(wheel.cuda) == parse_major_minor(cuda))
    ]


def list_uncovered_archs(
    knowledge: Knowledge, wheel: OfficialWheel, targets: Sequence[Arch]
) -> list[Arch]:
    """Return the capabilities that the wheel has no cubin for.

    Suffixes are dropped: the GPU must be supported.
    """
    archs = [Arch(target.major, target.minor) for target in targets]
    compiled = ("native", "compatible")
    return [
        arch
        for arch in archs
        if classify_compatibility(knowledge, wheel.code, arch, maker=wheel.cuda) not in compiled
    ]


def format_wheel_code(wheel: OfficialWheel, target: Arch) -> str:
    """Return the cubin that a covered GPU runs: `sm_120`, or `sm_86 for 8.9`."""
    gpu_arch = Arch(target.major, target.minor)
    if gpu_arch in wheel.code.cubins:
        return gpu_arch.sm
    cubin = max(arch for arch in wheel.code.cubins if arch <= gpu_arch)
    return f"{cubin.sm} for {gpu_arch}"


def is_wheel_verified(wheel: OfficialWheel) -> bool:
    """Return True if the wheel was inspected, False if its code is inferred from similar wheels."""
    return not wheel.status.startswith("unverified")


def find_other_platform(
    knowledge: Knowledge,
    found: Release,
    here: Sequence[OfficialWheel],
    targets: Sequence[Arch],
    cuda: str | None,
) -> str:
    """Return another platform that has a wheel with code for every target: `Linux aarch64`.

    With `cuda`, only wheels of that CUDA release count. "" without such a platform, or if a wheel
    in `here` has the code.
    """
    if any(not list_uncovered_archs(knowledge, wheel, targets) for wheel in here):
        return ""
    for wheel in found.wheels:
        has_cuda = cuda is None or parse_major_minor(wheel.cuda) == parse_major_minor(cuda)
        if has_cuda and wheel not in here and not list_uncovered_archs(knowledge, wheel, targets):
            return format_platform(wheel.system, wheel.machine)
    return ""


def describe_missing_code(
    knowledge: Knowledge, wheels: list[OfficialWheel], targets: Sequence[Arch]
) -> str:
    """Describe the targets that `wheels` lack code for, and their limit.

    For example `12.0: its newest is 9.0`.
    """
    missing = [
        target
        for target in targets
        if all(list_uncovered_archs(knowledge, wheel, [target]) for wheel in wheels)
    ]
    if not missing:
        return " and ".join(map(str, targets)) + " together"
    cubins = sorted({arch for wheel in wheels for arch in wheel.code.cubins})
    if min(missing) > cubins[-1]:
        return f"{', '.join(map(str, missing))}: its newest is {cubins[-1]}"
    if max(missing) < cubins[0]:
        return f"{', '.join(map(str, missing))}: its oldest is {cubins[0]}"
    return f"{', '.join(map(str, missing))}: it holds {', '.join(map(str, cubins))}"


@dataclass(frozen=True)
class SelectedWheel:
    """An official wheel.

    `cuda` is `13.2`, None for a CPU wheel. `index` is its URL, "" for pip's default index.
    `verified`: its machine code was inspected in this exact release, not inferred; `why` says so if
    not.
    """

    cuda: str | None
    index: str
    why: str
    verified: bool = True


def find_release(knowledge: Knowledge, version: str) -> Release:
    """Return the release of `2.7`, `v2.7.1`, `2.7.1+cu128` or a pre-release, `2.16.0.dev20261101`.

    A pre-release of the minor after the newest known one has the facts of the newest one, with its
    `channel` and marked as assumed. Any other version that is not in the table raises a
    `KnowledgeError`.
    """
    match = re.match(r"v?(\d+)\.(\d+)(?:\.\d+)?", version.strip())
    if not match:
        raise KnowledgeError(f'"{version}" is not a torch version', hint='write it as "2.15.0"')
    minor = f"{match[1]}.{match[2]}"
    channel = find_release_channel(version)
    if minor in knowledge.releases:
        release = knowledge.releases[minor]
        return (
            replace(release, patch=_strip_local_version(version), channel=channel)
            if channel
            else release
        )
    newest = _find_newest_release(knowledge)
    if channel and minor == f"{newest.minor.split('.')[0]}.{int(newest.minor.split('.')[1]) + 1}":
        status = f"unverified: assumed to be as {newest.minor}"
        return replace(
            newest, minor=minor, patch=_strip_local_version(version), channel=channel, status=status
        )
    raise _build_unknown_release_error(knowledge, version, minor)


def select_official_wheel(  # noqa: PLR0913, PLR0917  (the whole question)
    knowledge: Knowledge,
    version: str,
    targets: Sequence[Arch],
    system: str,
    machine: str,
    cuda: str | None = None,
    python: str | None = None,
) -> SelectedWheel | None:
    """Return the official wheel with a cubin for every target: PyPI's, else of the newest CUDA.

    `cuda` fixes the CUDA release, `python` (`3.12.4`) the version of the interpreter. No targets
    means the CPU wheel. Suffixes of targets are dropped: the GPU must be supported. None if there
    is no such wheel; `explain_missing_wheel` returns the reason.
    """
    release = find_release(knowledge, version)
    if not _has_python_wheel(release, python, system, machine) or release.channel == "nowhere":
        return None
    on_pypi = _has_python_wheel(release, python, system, machine, pypi=True)
    if not targets:
        return _select_cpu_wheel(knowledge, release, system, on_pypi=on_pypi)
    wheels = list_platform_wheels(release, system, machine, cuda)
    fitting = [wheel for wheel in wheels if not list_uncovered_archs(knowledge, wheel, targets)]
    if not fitting:
        return None
    best = max(
        fitting,
        key=lambda wheel: (wheel.pypi and not release.channel, parse_major_minor(wheel.cuda)),
    )
    best = replace(best, pypi=best.pypi and on_pypi)
    return _build_selected_wheel(
        knowledge, release, _resolve_patch_version(release, version), best, targets
    )


def explain_missing_wheel(  # noqa: PLR0913, PLR0917  (the same question)
    knowledge: Knowledge,
    version: str,
    targets: Sequence[Arch],
    system: str,
    machine: str,
    cuda: str | None = None,
    python: str | None = None,
) -> str:
    """Return one sentence with every reason why `select_official_wheel` returned None."""
    release = find_release(knowledge, version)
    torch = f"torch {_resolve_patch_version(release, version)}"
    reasons = []
    if release.channel == "nowhere":
        return f"{torch} is in no index: it is what a build from a branch calls itself"
    if (
        targets
        and select_official_wheel(knowledge, version, targets, system, machine, cuda) is None
    ):
        reasons.append(
            _explain_no_cuda_wheel(knowledge, release, torch, targets, system, machine, cuda)
        )
    first, last = find_wheel_pythons(release, system, machine)
    if not last:
        reasons.append(f"no official wheel of {torch} is for {format_platform(system, machine)}")
    elif not _has_python_wheel(release, python, system, machine):
        place = "" if last == release.python[1] else f" on {format_platform(system, machine)}"
        reasons.append(
            f"no official wheel of {torch} is for Python {format_major_minor(python or '')}{place} "
            f"(they are for {first} to {last})"
        )
    return "; ".join(reasons)


def list_nearest_releases(knowledge: Knowledge, version: str) -> tuple[Release, ...]:
    """Return the other releases: the newer ones, then the older ones, each the nearest first.

    The version need not be in the table.
    """
    minors = list(knowledge.releases)
    requested = parse_major_minor(version.strip().removeprefix("v"))
    newer = [minor for minor in minors if parse_major_minor(minor) > requested]
    older = [minor for minor in reversed(minors) if parse_major_minor(minor) < requested]
    return tuple(knowledge.releases[minor] for minor in (*newer, *older))


def _explain_no_cuda_wheel(  # noqa: PLR0913, PLR0917  (the same question)
    knowledge: Knowledge,
    found: Release,
    torch: str,
    targets: Sequence[Arch],
    system: str,
    machine: str,
    cuda: str | None,
) -> str:
    if system == "macos":
        return "macOS has no CUDA"
    platform_wheels = list_platform_wheels(found, system, machine, None)
    if not platform_wheels:
        return f"no official CUDA wheel of {torch} is known for {format_platform(system, machine)}"
    cuda_wheels = list_platform_wheels(found, system, machine, cuda)
    if not cuda_wheels:
        cudas = ", ".join(wheel.cuda for wheel in platform_wheels)
        return f"no official wheel of {torch} is built with CUDA {cuda}: there are {cudas}"
    cuda_text = f" with CUDA {cuda_wheels[0].cuda}" if cuda else ""
    missing = describe_missing_code(knowledge, cuda_wheels, targets)
    if other_platform := find_other_platform(knowledge, found, platform_wheels, targets, cuda):
        platform = format_platform(system, machine)
        return (
            f"no official wheel of {torch}{cuda_text} for {platform} holds code for {missing}; "
            f"one for {other_platform} does"
        )
    return f"no official wheel of {torch}{cuda_text} holds code for {missing}"


def is_python_supported(found: Release, python: str) -> bool:
    """Return True if the release supports that Python, `3.11` or `3.11.7`.

    Some platforms may still lack wheels for it.
    """
    return (
        parse_major_minor(found.python[0])
        <= parse_major_minor(python)
        <= parse_major_minor(found.python[1])
    )


def find_wheel_pythons(
    found: Release, system: str, machine: str, *, pypi: bool = False
) -> tuple[str, str]:
    """Return the first and the last Python with a wheel for that platform; with `pypi`, on PyPI.

    The last is "" if there is no wheel.
    """
    last_pythons = [
        limit.last
        for limit in found.fewer_pythons
        if (not limit.system or system in limit.system)
        and (not limit.machine or normalize_machine(machine) in limit.machine)
        and (pypi or not limit.pypi)
    ]
    return found.python[0], min([found.python[1], *last_pythons], key=parse_major_minor)


def _has_python_wheel(
    found: Release, python: str | None, system: str, machine: str, *, pypi: bool = False
) -> bool:
    first, last = find_wheel_pythons(found, system, machine, pypi=pypi)
    return parse_major_minor(first) <= parse_major_minor(python or last) <= parse_major_minor(last)


def _select_cpu_wheel(
    knowledge: Knowledge, found: Release, system: str, *, on_pypi: bool
) -> SelectedWheel:
    if system == "macos" and not found.channel and on_pypi:
        return SelectedWheel(None, "", "PyPI's torch for macOS is the CPU and MPS one")
    index = format_index_url(knowledge, None, found.channel)
    return SelectedWheel(None, index, "no GPU is a target: the CPU wheel")


def _build_selected_wheel(
    knowledge: Knowledge, found: Release, name: str, wheel: OfficialWheel, targets: Sequence[Arch]
) -> SelectedWheel:
    codes = ", ".join(sorted({format_wheel_code(wheel, target) for target in targets}))
    is_inspected = is_wheel_verified(wheel) and not found.channel
    is_verified = is_inspected and name == found.patch
    doubt = f"known for {found.patch}" if is_inspected else "by our facts, not verified"
    content = f"holds {codes}" if is_verified else f"is expected to hold {codes} ({doubt})"
    if wheel.pypi and not found.channel:
        reason = f"PyPI's torch {name} (CUDA {wheel.cuda}) {content}"
        return SelectedWheel(wheel.cuda, "", reason, is_verified)
    index = format_index_url(knowledge, wheel.cuda, found.channel)
    location = index.removeprefix("https://")
    if format_published_version(name) != name:
        location = f"{location}, where it is called {format_published_version(name)},"
    return SelectedWheel(wheel.cuda, index, f"torch {name} of {location} {content}", is_verified)


def _build_unknown_release_error(knowledge: Knowledge, version: str, minor: str) -> KnowledgeError:
    oldest, newest = next(iter(knowledge.releases)), _find_newest_release(knowledge)
    if parse_major_minor(minor) < parse_major_minor(oldest):
        return KnowledgeError(
            f"torch {version} is older than {oldest}, the oldest known",
            hint="choose a later release in torch.version",
        )
    return KnowledgeError(
        f"torch {version} is newer than {newest.patch}, the newest known",
        hint=f"describe torch {minor} in config/knowledge/pytorch.yaml",
    )


def _find_newest_release(knowledge: Knowledge) -> Release:
    return list(knowledge.releases.values())[-1]


def _resolve_patch_version(found: Release, version: str) -> str:
    return _strip_local_version(version) if version.count(".") >= 2 else found.patch


def _strip_local_version(version: str) -> str:
    return version.strip().removeprefix("v").split("+")[0]
