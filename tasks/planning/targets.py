"""Which archs to build for. Pure."""

from __future__ import annotations

from tasks.core.errors import KnowledgeError, SettingsError
from tasks.core.model import Arch, Host
from tasks.core.resolution import UnsatisfiableError
from tasks.knowledge import Knowledge
from tasks.knowledge.facts import GpuFact
from tasks.knowledge.gpus import resolve_gpu, shorten_gpu_name
from tasks.knowledge.wheels import format_platform, normalize_machine
from tasks.settings.schema import Settings


def find_targets(
    settings: Settings, host: Host, knowledge: Knowledge
) -> tuple[tuple[Arch, ...], str]:
    """The archs to build for, ascending, and why these. Raises `SettingsError`, `UnmetError` for a
    card that is never in such a machine.
    """
    asked = settings.target.gpus
    if asked == "auto" and host.system == "macos":
        return (), "macOS has no CUDA"
    if asked == "auto" and host.gpus:
        seen = {Arch.parse_capability(gpu.capability) for gpu in host.gpus}
        names = ", ".join(sorted({gpu.name for gpu in host.gpus}))
        return tuple(sorted(seen)), f"{names} in this machine"
    if asked == "auto":
        assumed = resolve_gpu(knowledge, knowledge.default_gpu)
        return (
            assumed.arch,
        ), f"no NVIDIA card seen here: {shorten_gpu_name(assumed.name)} assumed"
    if asked and host.system == "macos":
        raise SettingsError(
            "CUDA builds are not for macOS", location="target.gpus", hint="write gpus: []"
        )
    try:
        facts = [resolve_gpu(knowledge, name) for name in asked]
    except KnowledgeError as error:
        raise SettingsError(error.message, location="target.gpus", hint=error.hint) from error
    _require_possible_machine(facts, host)
    why = ", ".join(asked) or "a build for the CPU was asked for"
    return tuple(sorted({fact.arch for fact in facts})), why


def _require_possible_machine(facts: list[GpuFact], host: Host) -> None:
    for fact in facts:
        if fact.machine and fact.machine != normalize_machine(host.machine):
            raise UnsatisfiableError(
                f"{shorten_gpu_name(fact.name)} is in {fact.machine} machines, and this is "
                f"{format_platform(host.system, host.machine)}: what is built here does not run there",
                location="target.gpus",
                hint=f"build on a machine of that kind ({fact.machine})",
            )
