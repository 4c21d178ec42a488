"""What is known to fail with the sources of a release, said before hours are spent on it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tasks.core.model import Host
from tasks.core.resolution import Resolution
from tasks.knowledge import Knowledge
from tasks.knowledge.combinations import find_known_bad
from tasks.knowledge.gpus import (
    find_only_machine,
    is_capability,
    resolve_gpu,
    shorten_gpu_name,
    summarize_gpus,
)
from tasks.knowledge.minimums import find_too_old_versions
from tasks.knowledge.wheels import format_platform, normalize_machine
from tasks.settings.load import LoadedSettings


def list_known_bad_warnings(knowledge: Knowledge, host: Host, choice: Resolution) -> Iterator[str]:
    """A warning for each known-bad combination that a source build meets, and for what is too old,
    by what planning knows; and whatever the strategy, for archs that are in machines of another
    kind. Compilers and glibc are looked at by `doctor`, of which every build asks a part before it
    begins. What a stage cures is no warning.
    """
    yield from _list_machine_warnings(knowledge, host, choice)
    if choice.strategy != "source":
        return
    combination = choice.build_combination(host)
    for finding in (
        *find_known_bad(knowledge, combination),
        *find_too_old_versions(knowledge, combination),
    ):
        if finding.level != "info":
            yield f"known not to work: {finding.message}. What helps: {finding.fix}"


def _list_machine_warnings(knowledge: Knowledge, host: Host, choice: Resolution) -> Iterator[str]:
    """A capability says less than the name of a card: this is told of, where that is refused."""
    for arch in choice.targets:
        machine, cards = find_only_machine(knowledge, arch)
        if machine and machine != normalize_machine(host.machine):
            named = f" ({', '.join(map(shorten_gpu_name, cards))})" if cards else ""
            yield (
                f"{arch} is in {machine} machines alone{named}, and this is "
                f"{format_platform(host.system, host.machine)}: what is built here does not run there"
            )


def list_capability_warnings(
    loaded: LoadedSettings, host: Host, knowledge: Knowledge
) -> Iterator[str]:
    """Yield a warning if the only target is a capability and no GPU is visible: some guides
    confuse the capability of the RTX 50 series with 10.0 or 8.9.

    No warning for several targets, a matrix entry or a suffix (`9.0a`), which are chosen on
    purpose, nor for the capability of the GPU that `auto` assumes.
    """
    gpus = loaded.settings.target.gpus
    if gpus == "auto" or len(gpus) != 1 or host.gpus or "@" in loaded.profile:
        return
    arch = resolve_gpu(knowledge, gpus[0]).arch
    usual = resolve_gpu(knowledge, knowledge.default_gpu)
    if arch == usual.arch or arch.suffix or not is_capability(gpus[0]):
        return
    cards = summarize_gpus(knowledge, arch) or "no known GPU"
    yield (
        f'target.gpus is "{gpus[0]}", and no GPU is visible here: {arch} is {cards}; the RTX 50 '
        f"series is {usual.arch}. If you mean another GPU, write its name, such as "
        f'target.gpus: ["{shorten_gpu_name(usual.name)}"]'
    )
