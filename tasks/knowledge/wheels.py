"""The official wheels of a release: which fit a machine, what they lack, where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.core.model import Arch
from tasks.knowledge.covers import classify_compatibility
from tasks.knowledge.versions import parse_major_minor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tasks.knowledge.facts import Channel, OfficialWheel, Release
    from tasks.knowledge.load import Knowledge

_MACHINE_ALIASES = {"amd64": "x86_64", "arm64": "aarch64"}


def normalize_machine(machine: str) -> str:
    """The name that wheels have for a machine: `AMD64` is `x86_64`."""
    return _MACHINE_ALIASES.get(machine.lower(), machine.lower())


def format_platform(system: str, machine: str) -> str:
    """A platform for people: `Linux x86_64`."""
    name = {"macos": "macOS"}.get(system, system.capitalize())
    return f"{name} {normalize_machine(machine)}"


def format_index_url(knowledge: Knowledge, cuda: str | None, channel: Channel = "") -> str:
    """The address of pytorch.org's index for a CUDA release, or for CPU."""
    kind = "_".join(filter(None, (channel, "" if cuda else "cpu"))) or "cuda"
    digits = "".join(cuda.split(".")[:2]) if cuda else ""
    return str(knowledge.pytorch_notes["indexes"][kind]).format(digits=digits)


def list_platform_wheels(
    found: Release, system: str, machine: str, cuda: str | None
) -> list[OfficialWheel]:
    """The wheels for a system and machine (`AMD64` is `x86_64`), of one CUDA where it is given."""
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
    """The cards that the wheel has no finished code for.

    A suffix is left out: it is the card that counts.
    """
    cards = [Arch(target.major, target.minor) for target in targets]
    finished = ("native", "compatible")
    return [
        card
        for card in cards
        if classify_compatibility(knowledge, wheel.code, card, maker=wheel.cuda) not in finished
    ]


def format_wheel_code(wheel: OfficialWheel, target: Arch) -> str:
    """The cubin that a covered card runs: `sm_120`, or `sm_86 for 8.9`."""
    card = Arch(target.major, target.minor)
    if card in wheel.code.cubins:
        return card.sm
    below = max(arch for arch in wheel.code.cubins if arch <= card)
    return f"{below.sm} for {card}"


def is_wheel_verified(wheel: OfficialWheel) -> bool:
    """Whether what it holds was looked at, and not inferred from its neighbours."""
    return not wheel.status.startswith("unverified")


def find_other_platform(
    knowledge: Knowledge,
    found: Release,
    here: Sequence[OfficialWheel],
    targets: Sequence[Arch],
    cuda: str | None,
) -> str:
    """Another platform that has a wheel with code for every target, of that CUDA where it is given:
    `Linux aarch64`. Empty where there is none, and where one that is `here` has it.
    """
    if any(not list_uncovered_archs(knowledge, wheel, targets) for wheel in here):
        return ""
    for wheel in found.wheels:
        right = cuda is None or parse_major_minor(wheel.cuda) == parse_major_minor(cuda)
        if right and wheel not in here and not list_uncovered_archs(knowledge, wheel, targets):
            return format_platform(wheel.system, wheel.machine)
    return ""


def describe_missing_code(
    knowledge: Knowledge, wheels: list[OfficialWheel], targets: Sequence[Arch]
) -> str:
    """What `wheels` hold no code for, and what they reach to: `12.0: its newest is 9.0`."""
    never = [
        card
        for card in targets
        if all(list_uncovered_archs(knowledge, wheel, [card]) for wheel in wheels)
    ]
    if not never:
        return " and ".join(map(str, targets)) + " together"
    held = sorted({arch for wheel in wheels for arch in wheel.code.cubins})
    if min(never) > held[-1]:
        return f"{', '.join(map(str, never))}: its newest is {held[-1]}"
    if max(never) < held[0]:
        return f"{', '.join(map(str, never))}: its oldest is {held[0]}"
    return f"{', '.join(map(str, never))}: it holds {', '.join(map(str, held))}"
