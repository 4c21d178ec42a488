"""What the questions go by: the profile without config/local.yaml, this machine, the knowledge."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tasks.cli.commands.init.answers import Answers
from tasks.cli.opening import build_host_query
from tasks.core.errors import KnowledgeError, TorchyardError
from tasks.core.formatting.duration import format_rough_duration
from tasks.core.model import Gpu, Host
from tasks.doctor.ask import list_build_places
from tasks.doctor.disks import format_disk_usage
from tasks.doctor.host_facts import Disk, ProbeRequest
from tasks.doctor.probes.disks import list_disks
from tasks.knowledge import Knowledge, load_knowledge
from tasks.knowledge.gpus import resolve_gpu, shorten_gpu_name
from tasks.lock.profile import SelectedProfile
from tasks.planning.plan import build_layout
from tasks.planning.ways import StrategyOption, compare_strategies
from tasks.settings.load import DEFAULTS_PREFIX, LOCAL_PREFIX
from tasks.settings.load import load_settings as load_settings
from tasks.settings.schema import Settings
from tasks.stages.install.target.interpreter import (
    InterpreterInfo,
    find_interpreter,
    find_python_in,
    inspect_interpreter,
)
from tasks.system.hardware import capacity, probe

_RECENT_GPUS = (
    "RTX 5090",
    "RTX 5080",
    "RTX 5070 Ti",
    "RTX 5060 Ti",
    "RTX PRO 6000",
    "B200",
    "H200",
)


@dataclass(frozen=True)
class CompanionSettings:
    """Whether somebody has `set` them, and those that the `local` file says, None for none."""

    set: bool = False
    local: tuple[str, ...] | None = None


@dataclass(frozen=True)
class InitFacts:
    """`settings` are the defaults where the profile is broken; `build` is its folder, as people
    name it.
    """

    root: Path
    build: str
    settings: Settings
    host: Host
    knowledge: Knowledge
    disks: tuple[Disk, ...] = ()
    companions: CompanionSettings = CompanionSettings()

    @property
    def visible_gpus(self) -> tuple[str, ...]:
        """The cards here as the settings take them: by name, a new one by its capability."""
        return tuple(dict.fromkeys(map(self._name_gpu, self.host.gpus)))

    @property
    def default_gpus(self) -> tuple[str, ...]:
        """What is taken where nobody answers: the profile's own, the cards here, the default."""
        if self.settings.target.gpus != "auto":
            return self.settings.target.gpus
        return self.visible_gpus or (shorten_gpu_name(self.knowledge.default_gpu),)

    def list_recent_gpus(self) -> Iterator[tuple[str, str]]:
        """Some that people have bought lately, with their capability."""
        for name in _RECENT_GPUS:
            yield name, str(resolve_gpu(self.knowledge, name).arch)

    def list_strategies(self, gpus: tuple[str, ...] | str) -> tuple[StrategyOption, ...]:
        """The three, for these cards, by the profile's other settings."""
        return compare_strategies(self._override_settings(gpus), self.host, self.knowledge)

    def inspect_interpreter(self, into: str) -> InterpreterInfo:
        """What that interpreter is."""
        return inspect_interpreter(find_interpreter(into, self.root), "install.into")

    def find_companions(self, found: InterpreterInfo) -> tuple[str, ...]:
        """The companions that lie there: each belongs to the torch that gives way."""
        sites = list(map(Path, found.sites))
        names = self.knowledge.companions
        return tuple(
            name for name in names if any((one / name / "__init__.py").is_file() for one in sites)
        )

    def _name_gpu(self, gpu: Gpu) -> str:
        try:
            known = resolve_gpu(self.knowledge, gpu.name)
        except KnowledgeError:
            return gpu.capability
        return shorten_gpu_name(gpu.name) if str(known.arch) == gpu.capability else gpu.capability

    def _override_settings(self, gpus: tuple[str, ...] | str) -> Settings:
        target = self.settings.target.model_copy(update={"gpus": gpus})
        torch = self.settings.torch.model_copy(update={"strategy": "auto"})
        return self.settings.model_copy(update={"target": target, "torch": torch})


def gather_init_facts(subject: SelectedProfile) -> InitFacts:
    """Looked at now: cards that were pinned may be others by now."""
    try:
        settings = load_settings(subject.root / "config", subject.name, os.environ, "").settings
    except TorchyardError:
        settings = Settings()  # told once the answers are planned
    pin = Path(build_layout(subject.root, subject.name, settings).build) / "host.json"
    host = replace(probe.read_host(build_host_query(settings), pin), gpus=probe.list_gpus())
    knowledge = load_knowledge(subject.root / "config" / "knowledge")
    return InitFacts(
        subject.root,
        f"build/{subject.build.name}",
        settings,
        host,
        knowledge,
        _probe_disks(subject, settings, host),
        _read_companion_settings(subject),
    )


def _read_companion_settings(subject: SelectedProfile) -> CompanionSettings:
    """Where the settings cannot be read nothing is known of them, and none is to be guessed."""
    try:
        loaded = load_settings(subject.root / "config", subject.name, os.environ)
    except TorchyardError:
        return CompanionSettings(set=True)
    where = loaded.origin.get("companions", DEFAULTS_PREFIX)
    local = loaded.settings.companions if where.startswith(LOCAL_PREFIX) else None
    return CompanionSettings(not where.startswith(DEFAULTS_PREFIX), local)


def _probe_disks(subject: SelectedProfile, settings: Settings, host: Host) -> tuple[Disk, ...]:
    layout = build_layout(subject.root, subject.name, settings)
    lie = tuple(list_build_places(layout, layout.build))
    into = settings.install.into or ""
    return tuple(list_disks(ProbeRequest(subject.root, host, lie, into=into)))


def build_default_answers(known: InitFacts) -> Answers:
    """What is written where nobody answers anything. Companions that a file to be replaced says
    stay.
    """
    own = known.settings.target.gpus != "auto"
    return Answers(gpus=None if own else known.default_gpus, companions=known.companions.local)


def apply_install_target(answers: Answers, text: str, known: InitFacts) -> Answers:
    """With the interpreter `text`: the one that has the torch, or the one that all is put into; a
    folder of an environment stands for its Python. One of another release than the profile's is
    what is built for, too. Raises `BuildError`.
    """
    into = str(Path(text).expanduser())
    if (folder := known.root / into).is_dir():
        into = str(find_python_in(folder) or folder)
    found = known.inspect_interpreter(into)
    if answers.strategy == "existing":
        return replace(answers, python=into)
    release = known.host.python.minor
    answers = replace(answers, into=into, python=into if found.minor != release else "")
    there = known.find_companions(found)
    return replace(answers, companions=there) if there and not known.companions.set else answers


def format_strategy_cost(way: StrategyOption, on: tuple[Disk, ...]) -> str:
    """`about 3 h, 6.2 GiB of disk` on this machine, "" where nothing is known."""
    cost = way.cost.scale_to_cores(capacity.count_usable_cores())
    parts = (
        f"about {format_rough_duration(sum(cost.seconds) / 2)}" if cost.seconds else "",
        format_disk_usage(on, cost.disk_usage),
    )
    return ", ".join(filter(None, parts))
