"""Resolve the companion packages torchvision, torchaudio and triton for a torch: fetch or build.

torchvision and torchaudio depend on the strategy. prebuilt: fetch from torch's index. existing:
fetch if that torch is an official wheel, else build against that torch. source: build against the
built torch. A wheel that needs only torch's stable ABI is fetched instead of a build. triton is
always fetched, unless torch requires triton as a dependency.
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
    """How a companion package is obtained, and `why` as a sentence.

    A `wheel` is the `requirement` from `index` ("" is the default index); if it is `pinned`, the
    PyTorch tree specifies the version. A `git` build is of the tag or branch `ref`; `version` is
    its version, or "" to keep the tree's. For `with torch`, nothing needs to be installed.
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
        match self.strategy:
            case "git":
                return f"{self.name} from source at {self.ref}"
            case "wheel":
                return f"the wheel {self.requirement}"
            case _:
                return f"{self.name} with torch"


def resolve_companions(
    settings: Settings, choice: Resolution, knowledge: Knowledge
) -> tuple[Companion, ...]:
    """Return the companions of the settings, in order.

    Raises `SettingsError` if there is no such companion for this torch.
    """
    return tuple(
        _resolve_triton(settings, choice, knowledge)
        if name == "triton"
        else _resolve_library(name, choice, knowledge)
        for name in settings.companions
    )


def needs_companion_build(settings: Settings, choice: Resolution, knowledge: Knowledge) -> bool:
    """Return True if a companion must be compiled."""
    companions = resolve_companions(settings, choice, knowledge)
    return any(companion.strategy == "git" for companion in companions)


def find_companion_specifier(knowledge: Knowledge, torch: str, name: str) -> str:
    """Return the version specifier of the companion for that torch, or "" if none is known."""
    try:
        release = find_release(knowledge, torch)
    except KnowledgeError:
        return ""
    if release.channel and not (
        release.channel == "nowhere" and release.minor in knowledge.releases
    ):
        return ""  # the tree of a published release can have the version 2.9.0a0, too
    version = torch.strip().removeprefix("v").partition("+")[0]
    return release.patches.get(version, {}).get(name, "") or str(getattr(release, name))


def _resolve_library(name: str, choice: Resolution, knowledge: Knowledge) -> Companion:
    specifier = find_companion_specifier(knowledge, choice.torch, name)
    if not specifier:
        _require_released_companion(name, choice, knowledge)
    torch, requirement = f"torch {choice.torch}", f"{name}{specifier}"
    match choice.strategy:
        case "prebuilt" if specifier:
            reason = f"made for {torch}, on the same index"
            return Companion(name, "wheel", reason, requirement, choice.index)
        case "existing" if specifier and _is_official_torch(choice):
            reason = f"made for {torch}, which is an official build by its version"
            index = _find_companion_index(choice, knowledge)
            return Companion(name, "wheel", reason, requirement, index)
    if wheel := _find_independent_wheel(name, choice, knowledge):
        is_unverified = wheel.beside_built.startswith("unverified")
        caveat = "; not verified with a torch that is not an official wheel"
        return Companion(
            name, "wheel", f"{wheel.why}{caveat if is_unverified else ''}", wheel.wheel
        )
    if not specifier:
        if is_version_within(choice.torch, f"<{next(iter(knowledge.releases))}"):
            raise _create_unpaired_error(name, choice)
        return Companion(name, "git", f"no version of {name} is known for {torch}", ref="main")
    version = specifier.removeprefix("==")
    if choice.strategy == "existing":
        reason = f"{torch} is not an official build by its version"
    else:
        reason = f"official wheels of {name} are made for the official torch"
    return Companion(name, "git", reason, ref=f"v{version}", version=version)


def _require_released_companion(name: str, choice: Resolution, knowledge: Knowledge) -> None:
    """Raise `SettingsError` if the newest torch has no such companion: it is discontinued."""
    *_, newest = knowledge.releases.values()
    if getattr(newest, name):
        return
    release = [item for item in knowledge.releases.values() if getattr(item, name)][-1]
    version = getattr(release, name).removeprefix("==")
    raise SettingsError(
        f"{name} {version} is the last release and supports torch {release.minor}, not torch "
        f"{choice.torch}",
        location="companions",
        hint=f'remove {name} from companions, or set torch.version: "{release.patch}"',
    )


def _find_independent_wheel(
    name: str, choice: Resolution, knowledge: Knowledge
) -> StableAbiWheel | None:
    """Return a wheel that works with any torch of this version and has code for every target."""
    platform = (choice.system, normalize_machine(choice.machine))
    for wheel in knowledge.companions[name].independent:
        if (
            (wheel.system, wheel.machine) == platform
            and is_version_within(choice.torch, wheel.torch)
            and is_version_within(choice.cuda or "", wheel.cuda)
            and all(can_run_code(knowledge, wheel.code, arch) for arch in choice.targets)
        ):
            return wheel
    return None


def _resolve_triton(settings: Settings, choice: Resolution, knowledge: Knowledge) -> Companion:
    name, torch, facts = "triton", f"torch {choice.torch}", knowledge.companions["triton"]
    package = facts.packages.get(choice.system, "")
    if not package:
        hint = "remove triton from companions"
        raise SettingsError(
            f"triton has no package for {choice.system}", location="companions", hint=hint
        )
    specifier = find_companion_specifier(knowledge, choice.torch, name)
    if choice.system == "windows":
        # this package has post releases of its own: only major and minor version must match
        numbers = re.search(r"\d+\.\d+", specifier)
        if not numbers:
            raise _create_unpaired_error(name, choice)
        reason = f"{torch} requires triton {numbers[0]}; {package} is not verified"
        return Companion(name, "wheel", reason, f"{package}=={numbers[0]}.*")
    if specifier and _has_triton_dependency(settings, choice):
        reason = f"the official wheel of {torch} requires {name}{specifier}"
        return Companion(name, "with torch", reason)
    if choice.strategy == "source" and not (specifier and _is_release_tree(settings, choice)):
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


def _has_triton_dependency(settings: Settings, choice: Resolution) -> bool:
    """Return True for the official wheels for Linux and CUDA: their METADATA requires triton."""
    if choice.cuda is None:
        return False
    if choice.strategy == "existing":
        return _is_official_torch(choice)
    return choice.strategy == "prebuilt" and settings.torch.index == "auto"


def _is_official_torch(choice: Resolution) -> bool:
    """Return True if the version is that of an official wheel.

    Every official wheel names its CUDA (`+cu130`) or the CPU in `torch.version`, except on macOS.
    """
    return choice.system == "macos" or bool(_OFFICIAL_VERSION.search(choice.torch))


def _is_release_tree(settings: Settings, choice: Resolution) -> bool:
    """Return True if the tree is, by its tag, the release that the facts describe."""
    source = settings.source
    if source.path or source.tarball or find_release_channel(choice.torch):
        return False
    return source.ref == "auto" or bool(_RELEASE_TAG.fullmatch(source.ref))


def _find_companion_index(choice: Resolution, knowledge: Knowledge) -> str:
    """Return the index of wheels for an official torch; PyPI has the wheels of one CUDA only."""
    cuda_digits = choice.torch.partition("+cu")[2]
    cuda = f"{cuda_digits[:2]}.{cuda_digits[2:]}" if cuda_digits else None
    pypi = find_release(knowledge, choice.torch).pypi_cuda
    if choice.system == "macos" or (choice.system, cuda) == ("linux", pypi):
        return ""
    return format_index_url(knowledge, cuda)
