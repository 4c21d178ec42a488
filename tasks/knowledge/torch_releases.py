"""Query PyTorch releases: their requirements, and the official wheel with code for a GPU."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch
from tasks.knowledge.facts import Channel, OfficialWheel, Release
from tasks.knowledge.knowledge_files import Knowledge
from tasks.knowledge.machine_code_rules import MachineCode, can_run_code
from tasks.knowledge.read_facts import find_nearest
from tasks.knowledge.versions import (
    find_release_channel,
    format_major_minor,
    format_published_version,
    parse_major_minor,
    parse_version_numbers,
    remove_local_part,
)

_MACHINE_ALIASES = {"amd64": "x86_64", "arm64": "aarch64"}


def normalize_machine(machine: str) -> str:
    """Return the machine name as in wheel tags: `x86_64` for `AMD64`."""
    return _MACHINE_ALIASES.get(machine.lower(), machine.lower())


def format_platform(system: str, machine: str) -> str:
    """Format a platform for messages: `Linux x86_64`."""
    name = "macOS" if system == "macos" else system.capitalize()
    return f"{name} {normalize_machine(machine)}"


def format_index_url(knowledge: Knowledge, cuda: str | None, channel: Channel = "") -> str:
    """Return the URL of pytorch.org's index for a CUDA release, or for the CPU."""
    index_kind = "_".join(filter(None, (channel, "" if cuda else "cpu"))) or "cuda"
    digits = "".join(cuda.split(".")[:2]) if cuda else ""
    return str(knowledge.pytorch_notes["indexes"][index_kind]).format(digits=digits)


def list_platform_wheels(
    release: Release, system: str, machine: str, cuda: str | None
) -> list[OfficialWheel]:
    """Return the wheels for a system and machine, of one CUDA release if `cuda` is set."""
    platform = (system, normalize_machine(machine))
    return [w for w in _list_cuda_wheels(release, cuda) if (w.system, w.machine) == platform]


def _list_cuda_wheels(release: Release, cuda: str | None) -> list[OfficialWheel]:
    version = parse_major_minor(cuda or "")
    return [w for w in release.wheels if not cuda or parse_major_minor(w.cuda) == version]


def list_uncovered_archs(
    knowledge: Knowledge, wheel: OfficialWheel, targets: Sequence[Arch]
) -> list[Arch]:
    """Return the targets, without suffixes, that the wheel has no code for.

    PTX counts only for a GPU with a newer major version than all known toolkits compile for.
    """
    archs = [Arch(target.major, target.minor) for target in targets]
    newest = max(arch.major for kit in knowledge.toolkits.values() for arch in kit.sm)
    cubins, is_read = MachineCode(wheel.archs), not wheel.status.startswith("unverified")
    codes = {arch: wheel.code if is_read and arch.major > newest else cubins for arch in archs}
    return [a for a in archs if not can_run_code(knowledge, codes[a], a, maker=wheel.cuda)]


def _describe_missing_code(
    knowledge: Knowledge, wheels: list[OfficialWheel], targets: Sequence[Arch]
) -> str:
    """Describe the targets that no wheel has code for, as in `12.0: its newest arch is 9.0`."""
    missing = [
        target
        for target in targets
        if all(list_uncovered_archs(knowledge, wheel, [target]) for wheel in wheels)
    ]
    if not missing:
        return " and ".join(map(str, targets)) + " together"
    cubins = sorted({arch for wheel in wheels for arch in wheel.archs})
    if min(missing) > cubins[-1]:
        limit = f"its newest arch is {cubins[-1]}"
    elif max(missing) < cubins[0]:
        limit = f"its oldest arch is {cubins[0]}"
    else:
        limit = f"its archs are {', '.join(map(str, cubins))}"
    return f"{', '.join(map(str, missing))}: {limit}"


@dataclass(frozen=True)
class SelectedWheel:
    """An official wheel. `cuda` is `None` for a CPU wheel.

    `index` is the URL of the package index, empty for the default index of pip. `verified` is True
    if the machine code of exactly this release was inspected, False if it was inferred.
    """

    cuda: str | None
    index: str
    why: str
    verified: bool = True


def find_release(knowledge: Knowledge, version: str) -> Release:
    """Return the release of a version: `2.7`, `v2.7.1`, `2.7.1+cu128` or `2.16.0.dev20261101`.

    The facts of an unknown version are those of the nearest known release; its `origin` and
    `status` say so. Raises `KnowledgeError` for a version older than all known ones, and for text
    that is no version.
    """
    match = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", version.strip())
    if not match:
        raise KnowledgeError(f'"{version}" is not a torch version', hint='write it as "2.15.0"')
    minor, numbers = f"{match[1]}.{match[2]}", match[0].removeprefix("v")
    patch, channel = remove_local_part(version), find_release_channel(version)
    if read := knowledge.read_releases.get(patch):
        return read
    if release := knowledge.releases.get(minor):
        is_known = match[3] is None or numbers in {release.patch, *release.patches}
        if channel:
            origin = f"assumed to be as {release.patch}"
            return replace(release, patch=patch, channel=channel, origin=origin)
        return release if is_known else _assume_release(release, minor, patch, release.patch)
    nearest = knowledge.releases.get(find_nearest(knowledge.releases, minor))
    if nearest is None:
        oldest = next(iter(knowledge.releases))
        message = f"torch {version} is older than {oldest}, the oldest that torchyard supports"
        raise KnowledgeError(message, hint="choose a later release in torch.version")
    patch = patch if match[3] else f"{minor}.0"
    return replace(_assume_release(nearest, minor, patch, nearest.patch), channel=channel)


def _assume_release(release: Release, minor: str, patch: str, known_patch: str) -> Release:
    """Return a release that nobody has read, with the facts of the known release."""
    status = f"unverified: assumed to be as {known_patch}"
    wheels = tuple(replace(wheel, status=status) for wheel in release.wheels)
    unknown = {"patches": {}, "torchvision": "", "torchaudio": "", "triton": ""}
    origin = f"assumed to be as {known_patch}"
    return replace(
        release, minor=minor, patch=patch, wheels=wheels, status=status, origin=origin, **unknown
    )


def select_official_wheel(  # noqa: PLR0913, PLR0917  (the whole question)
    knowledge: Knowledge,
    version: str,
    targets: Sequence[Arch],
    system: str,
    machine: str,
    cuda: str | None = None,
    python: str | None = None,
) -> SelectedWheel | None:
    """Return an official wheel with a cubin for each target, or the CPU wheel without targets.

    A wheel on PyPI is preferred, then the newest CUDA. `cuda` fixes the CUDA release, `python`
    (`3.12.4`) the interpreter's version. `explain_missing_wheel` says why the result is `None`.
    """
    release = find_release(knowledge, version)
    if not _has_python_wheel(release, python, system, machine) or release.channel == "nowhere":
        return None
    on_pypi = not release.channel and _has_python_wheel(release, python, system, machine, pypi=True)
    if not targets and system == "macos" and on_pypi:
        return SelectedWheel(None, "", "PyPI's torch for macOS is the build for CPU and MPS")
    if not targets:
        index = format_index_url(knowledge, None, release.channel)
        return SelectedWheel(None, index, "no GPU is a target, so the CPU wheel is used")
    wheels = list_platform_wheels(release, system, machine, cuda)
    fitting = [wheel for wheel in wheels if not list_uncovered_archs(knowledge, wheel, targets)]
    if not fitting:
        return None
    official = not release.channel
    best = max(fitting, key=lambda one: (one.pypi and official, parse_major_minor(one.cuda)))
    best = replace(best, pypi=best.pypi and on_pypi)
    name = _resolve_patch_version(release, version)
    return _build_selected_wheel(knowledge, release, name, best, targets)


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
    if release.channel == "nowhere":
        return f"{torch} is not in any index: only a build from a branch has such a version"
    reasons, query = [], (targets, system, machine, cuda)
    if targets and not select_official_wheel(knowledge, version, *query):
        reasons.append(_explain_no_cuda_wheel(knowledge, release, torch, *query))
    first, last = find_wheel_pythons(release, system, machine)
    platform = format_platform(system, machine)
    if not last:
        reasons.append(f"no official wheel of {torch} is for {platform}")
    elif not _has_python_wheel(release, python, system, machine):
        place = "" if last == release.last_python else f" on {platform}"
        required, supported = format_major_minor(python or ""), f"{first} to {last}"
        reason = f"no official wheel of {torch} is for Python {required}{place}"
        reasons.append(f"{reason} (supported: {supported})")
    return "; ".join(reasons)


def find_newer_releases(knowledge: Knowledge) -> list[str]:
    """Return the newest torch and CUDA of the package index that are not recorded, as text."""
    recorded = [release for release in knowledge.releases.values() if not release.origin]
    patches = [*recorded[-1].patches, recorded[-1].patch]
    toolkits = [kit.cuda for kit in knowledge.toolkits.values() if not kit.origin]
    pairs = (
        ("torch", knowledge.read.versions, patches),
        ("CUDA", knowledge.read.cuda_versions, toolkits),
    )
    return [
        f"{name} {published[-1]}"
        for name, published, known in pairs
        if published
        and parse_version_numbers(published[-1]) > max(map(parse_version_numbers, known))
    ]


def list_nearest_releases(knowledge: Knowledge, version: str) -> tuple[Release, ...]:
    """Return the other releases: the newer ones, then the older ones, each nearest first.

    If the version is an unknown patch, the known patch of the same minor version comes first.
    """
    minors = list(knowledge.releases)
    requested = parse_major_minor(version.strip().removeprefix("v"))
    patch = remove_local_part(version)
    same = [
        minor
        for minor, release in knowledge.releases.items()
        if parse_major_minor(minor) == requested and patch not in {release.patch, *release.patches}
    ]
    newer = [minor for minor in minors if parse_major_minor(minor) > requested]
    older = [minor for minor in reversed(minors) if parse_major_minor(minor) < requested]
    return tuple(knowledge.releases[minor] for minor in (*same, *newer, *older))


def _explain_no_cuda_wheel(  # noqa: PLR0913, PLR0917  (the same question)
    knowledge: Knowledge,
    release: Release,
    torch: str,
    targets: Sequence[Arch],
    system: str,
    machine: str,
    cuda: str | None,
) -> str:
    if system == "macos":
        return "macOS has no CUDA"
    platform = format_platform(system, machine)
    platform_wheels = list_platform_wheels(release, system, machine, None)
    if not platform_wheels:
        return f"no official CUDA wheel of {torch} is known for {platform}"
    cuda_wheels = list_platform_wheels(release, system, machine, cuda)
    if not cuda_wheels:
        cudas = ", ".join(wheel.cuda for wheel in platform_wheels)
        return f"no official wheel of {torch} is built with CUDA {cuda}: the wheels have {cudas}"
    if cuda:
        torch = f"{torch} with CUDA {cuda_wheels[0].cuda}"
    missing = _describe_missing_code(knowledge, cuda_wheels, targets)
    wheels = _list_cuda_wheels(release, cuda)
    able = [wheel for wheel in wheels if not list_uncovered_archs(knowledge, wheel, targets)]
    able = [wheel for wheel in able if not wheel.status.startswith("unverified: assumed")]
    if able and all(list_uncovered_archs(knowledge, w, targets) for w in platform_wheels):
        other = format_platform(able[0].system, able[0].machine)
        torch, missing = f"{torch} for {platform}", f"{missing}; the wheel for {other} does"
    return f"no official wheel of {torch} holds code for {missing}"


def is_python_supported(release: Release, python: str) -> bool:
    """Return True if the release has wheels for that Python, `3.11.7`, on at least one platform."""
    first, last = map(parse_major_minor, release.python)
    return first <= parse_major_minor(python) <= last


def find_wheel_pythons(
    release: Release, system: str, machine: str, *, pypi: bool = False
) -> tuple[str, str]:
    """Return the first and the last Python with a wheel. The last is "" if there is no wheel."""
    machine = normalize_machine(machine)
    if pypi and release.pypi_pythons:
        pythons = release.pypi_pythons.get(f"{system} {machine}", ())
        return (pythons[0], pythons[-1]) if pythons else (release.python[0], "")
    last_pythons = [
        limit.last
        for limit in release.fewer_pythons
        if (not limit.system or system in limit.system)
        and (not limit.machine or machine in limit.machine)
        and (pypi or not limit.pypi)
    ]
    return release.python[0], min([release.python[1], *last_pythons], key=parse_major_minor)


def _has_python_wheel(
    release: Release, python: str | None, system: str, machine: str, *, pypi: bool = False
) -> bool:
    first, last = find_wheel_pythons(release, system, machine, pypi=pypi)
    return parse_major_minor(first) <= parse_major_minor(python or last) <= parse_major_minor(last)


def _build_selected_wheel(
    knowledge: Knowledge, release: Release, name: str, wheel: OfficialWheel, targets: Sequence[Arch]
) -> SelectedWheel:
    codes = set()  # `sm_120`, or `sm_86 for 8.9`
    for arch in (Arch(target.major, target.minor) for target in targets):
        cubin = max(cubin for cubin in wheel.archs if cubin <= arch)
        code = cubin.sm if cubin.major == arch.major else f"PTX of {max(wheel.ptx)}"
        codes.add(arch.sm if arch in wheel.archs else f"{code} for {arch}")
    code = ", ".join(sorted(codes))
    is_inspected = not wheel.status.startswith("unverified") and not release.channel
    is_verified = is_inspected and name == release.patch
    doubt = f"known for {release.patch}" if is_inspected else "inferred, not verified"
    doubt = release.origin if release.origin.startswith("assumed") else doubt
    content = f"holds {code}" if is_verified else f"is expected to hold {code} ({doubt})"
    content += " (read from the wheel)" if is_verified and release.origin else ""
    if wheel.pypi and not release.channel:
        reason = f"PyPI's torch {name} (CUDA {wheel.cuda}) {content}"
        return SelectedWheel(wheel.cuda, "", reason, is_verified)
    index = format_index_url(knowledge, wheel.cuda, release.channel)
    location, published = index.removeprefix("https://"), format_published_version(name)
    if published != name:
        location = f"{location} (named {published} in that index)"
    return SelectedWheel(wheel.cuda, index, f"torch {name} of {location} {content}", is_verified)


def _resolve_patch_version(release: Release, version: str) -> str:
    return remove_local_part(version) if version.count(".") >= 2 else release.patch
