"""Decide whether the companion packages torchvision, torchaudio and triton are fetched or built.

For torchvision and torchaudio, this depends on the strategy of torch. With `prebuilt`, they are
fetched from torch's index. With `existing`, they are fetched if that torch is an official wheel,
else built against that torch. With `source`, they are built against the built torch. A wheel that
needs only torch's stable ABI is fetched and never built. triton is always fetched, unless torch
requires triton as a dependency.
"""

import re
from dataclasses import dataclass
from typing import Literal

from tasks.core.errors import KnowledgeError, SettingsError
from tasks.core.resolution import Resolution
from tasks.knowledge import Knowledge
from tasks.knowledge.extension_facts import StableAbiWheel
from tasks.knowledge.known_problems import is_version_within
from tasks.knowledge.machine_code_rules import can_run_code
from tasks.knowledge.torch_releases import find_release, format_index_url, normalize_machine
from tasks.knowledge.versions import find_release_channel
from tasks.settings.schema import Settings

_OFFICIAL_VERSION = re.compile(r"\+(cu\d{3}|cpu)$")
_RELEASE_TAG = re.compile(r"v\d+\.\d+\.\d+(-rc\d+)?")


@dataclass(frozen=True)
class Companion:
    """The way to obtain a companion package. `why` is the reason for the strategy, as a sentence.

    The strategy `wheel` fetches `requirement` from `index` ("" is the default index). `pinned` is
    True if the PyTorch tree specifies the version. The strategy `git` builds the tag or branch
    `ref`; `version` overrides the version in the source tree if not "". `with torch` means that
    torch itself requires the package.
    """

    name: str
    strategy: Literal["wheel", "git", "with torch"]
    why: str
    requirement: str = ""
    index: str = ""
    pinned: bool = False
    ref: str = ""
    version: str = ""

    @property
    def description(self) -> str:
        """The package and its origin, for display."""
        return {
            "git": f"{self.name} from source at {self.ref}",
            "wheel": f"the wheel {self.requirement}",
            "with torch": f"{self.name} with torch",
        }[self.strategy]


def resolve_companions(
    settings: Settings, choice: Resolution, knowledge: Knowledge
) -> tuple[Companion, ...]:
    """Return the companion packages. Raises `SettingsError` if one has no version for torch."""
    return tuple(
        _resolve_triton(settings, choice, knowledge)
        if name == "triton"
        else _resolve_library(name, choice, knowledge)
        for name in settings.companions
    )


def needs_companion_build(settings: Settings, choice: Resolution, knowledge: Knowledge) -> bool:
    """Return True if a companion package must be compiled."""
    return any(one.strategy == "git" for one in resolve_companions(settings, choice, knowledge))


def find_companion_specifier(knowledge: Knowledge, torch: str, name: str) -> str:
    """Return which versions of a package fit this torch version, or "" if unknown."""
    try:
        release = find_release(knowledge, torch)
    except KnowledgeError:
        return ""
    # The source tree of a published release can have the version 2.9.0a0, too
    is_published = release.channel == "nowhere" and release.minor in knowledge.releases
    if release.channel and not is_published:
        return ""
    version = torch.strip().removeprefix("v").partition("+")[0]
    return release.patches.get(version, {}).get(name, "") or str(getattr(release, name))


def _resolve_library(name: str, choice: Resolution, knowledge: Knowledge) -> Companion:
    specifier = find_companion_specifier(knowledge, choice.torch, name)
    *_, newest = knowledge.releases.values()
    if not specifier and not getattr(newest, name):
        raise _create_discontinued_error(name, choice, knowledge)
    torch, requirement = f"torch {choice.torch}", f"{name}{specifier}"
    if specifier and choice.strategy == "prebuilt":
        reason = f"made for {torch}, on the same index"
        return Companion(name, "wheel", reason, requirement, choice.index)
    if specifier and choice.strategy == "existing" and _is_official_torch(choice):
        reason = f"made for {torch}, whose version is that of an official build"
        index = _find_companion_index(choice, knowledge)
        return Companion(name, "wheel", reason, requirement, index)
    if wheel := _find_independent_wheel(name, choice, knowledge):
        caveat = "; not verified with a torch that is not an official wheel"
        reason = wheel.why + (caveat if wheel.beside_built.startswith("unverified") else "")
        return Companion(name, "wheel", reason, wheel.wheel)
    if not specifier:
        if is_version_within(choice.torch, f"<{next(iter(knowledge.releases))}"):
            raise _create_unpaired_error(name, choice)
        return Companion(name, "git", f"no version of {name} is known for {torch}", ref="main")
    version = specifier.removeprefix("==")
    reason = f"official wheels of {name} are made for the official torch"
    if choice.strategy == "existing":
        reason = f"{torch} does not have the version of an official build"
    return Companion(name, "git", reason, ref=f"v{version}", version=version)


def _create_discontinued_error(
    name: str, choice: Resolution, knowledge: Knowledge
) -> SettingsError:
    release = [item for item in knowledge.releases.values() if getattr(item, name)][-1]
    version = getattr(release, name).removeprefix("==")
    return SettingsError(
        f"{name} {version} is the last release and supports torch {release.minor}, not torch "
        f"{choice.torch}",
        location="companions",
        hint=f'remove {name} from companions, or set torch.version: "{release.patch}"',
    )


def _find_independent_wheel(
    name: str, choice: Resolution, knowledge: Knowledge
) -> StableAbiWheel | None:
    """Return a stable-ABI wheel that fits torch, CUDA and all targets, or None if no wheel fits."""
    platform = (choice.system, normalize_machine(choice.machine))
    fitting = (
        wheel
        for wheel in knowledge.companions[name].independent
        if (wheel.system, wheel.machine) == platform
        and is_version_within(choice.torch, wheel.torch)
        and is_version_within(choice.cuda or "", wheel.cuda)
        and all(can_run_code(knowledge, wheel.code, arch) for arch in choice.targets)
    )
    return next(fitting, None)


def _resolve_triton(settings: Settings, choice: Resolution, knowledge: Knowledge) -> Companion:
    name, torch, facts = "triton", f"torch {choice.torch}", knowledge.companions["triton"]
    package = facts.packages.get(choice.system, "")
    if not package:
        message = f"triton has no package for {choice.system}"
        hint = "remove triton from companions"
        raise SettingsError(message, location="companions", hint=hint)
    specifier = find_companion_specifier(knowledge, choice.torch, name)
    if choice.system == "windows":
        # this package has post releases of its own: only major and minor version must match
        if not (numbers := re.search(r"\d+\.\d+", specifier)):
            raise _create_unpaired_error(name, choice)
        reason = f"{torch} requires triton {numbers[0]}; {package} is not verified"
        return Companion(name, "wheel", reason, f"{package}=={numbers[0]}.*")
    is_official = choice.strategy == "prebuilt" and settings.torch.index == "auto"
    is_official |= choice.strategy == "existing" and _is_official_torch(choice)
    # the METADATA of the official wheels for Linux and CUDA requires triton
    if specifier and is_official and choice.cuda is not None:
        reason = f"the official wheel of {torch} requires {name}{specifier}"
        return Companion(name, "with torch", reason)
    source = settings.source
    has_tag = source.ref == "auto" or bool(_RELEASE_TAG.fullmatch(source.ref))
    is_edited = source.path or source.tarball or find_release_channel(choice.torch)
    if choice.strategy == "source" and (not specifier or not has_tag or is_edited):
        reason = "PyTorch's tree names the commit of triton"
        return Companion(name, "wheel", reason, package, facts.pins["index"], pinned=True)
    if not specifier:
        raise _create_unpaired_error(name, choice)
    reason = f"the version for {torch}; triton does not use torch's ABI"
    return Companion(name, "wheel", reason, f"{package}{specifier}")


def _create_unpaired_error(name: str, choice: Resolution) -> SettingsError:
    return SettingsError(
        f"no version of {name} is known for torch {choice.torch}",
        location="companions",
        hint=f"remove {name} from companions and install it by hand, or set torch.version to a "
        "known release",
    )


def _is_official_torch(choice: Resolution) -> bool:
    """Return True if torch's version is that of an official wheel.

    Except on macOS, the version of every official wheel ends with its CUDA (`+cu130`) or `+cpu`.
    """
    return choice.system == "macos" or bool(_OFFICIAL_VERSION.search(choice.torch))


def _find_companion_index(choice: Resolution, knowledge: Knowledge) -> str:
    """Return the package index with the companion wheels for an official torch ("" is PyPI)."""
    cuda_digits = choice.torch.partition("+cu")[2]
    cuda = f"{cuda_digits[:2]}.{cuda_digits[2:]}" if cuda_digits else None
    pypi = find_release(knowledge, choice.torch).pypi_cuda
    if choice.system == "macos" or (choice.system, cuda) == ("linux", pypi):
        return ""
    return format_index_url(knowledge, cuda)
