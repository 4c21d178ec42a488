"""What the questions go by: the profile without config/local.yaml, this machine, the knowledge."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tasks.cli.commands.init.answers import Answers
from tasks.cli.opening import asked
from tasks.core.errors import BuildError, KnowledgeError
from tasks.core.formatting.duration import roughly
from tasks.core.model import Gpu, Host
from tasks.doctor.ask import places
from tasks.doctor.disks import told
from tasks.doctor.host_facts import Asked, Disk
from tasks.doctor.probes.disks import disks
from tasks.knowledge import Knowledge, load
from tasks.knowledge.gpus import resolve_gpu, short_name
from tasks.lock.profile import Subject
from tasks.planning.plan import layout_of
from tasks.planning.ways import Way, ways
from tasks.settings.load import DEFAULTS, LOCAL
from tasks.settings.load import load as load_settings
from tasks.settings.schema import Settings
from tasks.stages.install.target.interpreter import Glance, find, glance, python_in
from tasks.system.hardware import capacity, probe

_NEW = ("RTX 5090", "RTX 5080", "RTX 5070 Ti", "RTX 5060 Ti", "RTX PRO 6000", "B200", "H200")


@dataclass(frozen=True)
class Companions:
    """Whether somebody has `set` them, and those that the `local` file says, None for none."""

    set: bool = False
    local: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Here:
    """`settings` are the defaults where the profile is broken; `build` is its folder, as people
    name it.
    """

    root: Path
    build: str
    settings: Settings
    host: Host
    knowledge: Knowledge
    disks: tuple[Disk, ...] = ()
    companions: Companions = Companions()

    @property
    def seen(self) -> tuple[str, ...]:
        """The cards here as the settings take them: by name, a new one by its capability."""
        return tuple(dict.fromkeys(map(self._card, self.host.gpus)))

    @property
    def usual_cards(self) -> tuple[str, ...]:
        """What is taken where nobody answers: the profile's own, the cards here, the default."""
        if self.settings.target.gpus != "auto":
            return self.settings.target.gpus
        return self.seen or (short_name(self.knowledge.default_gpu),)

    def new_cards(self) -> Iterator[tuple[str, str]]:
        """Some that people have bought lately, with their capability."""
        for name in _NEW:
            yield name, str(resolve_gpu(self.knowledge, name).arch)

    def ways(self, gpus: tuple[str, ...] | str) -> tuple[Way, ...]:
        """The three, for these cards, by the profile's other settings."""
        return ways(self._for(gpus), self.host, self.knowledge)

    def glance(self, into: str) -> Glance:
        """What that interpreter is."""
        return glance(find(into, self.root), "install.into")

    def beside_torch(self, found: Glance) -> tuple[str, ...]:
        """The companions that lie there: each belongs to the torch that gives way."""
        sites = list(map(Path, found.sites))
        names = self.knowledge.companions
        return tuple(
            name for name in names if any((one / name / "__init__.py").is_file() for one in sites)
        )

    def _card(self, gpu: Gpu) -> str:
        try:
            known = resolve_gpu(self.knowledge, gpu.name)
        except KnowledgeError:
            return gpu.capability
        return short_name(gpu.name) if str(known.arch) == gpu.capability else gpu.capability

    def _for(self, gpus: tuple[str, ...] | str) -> Settings:
        target = self.settings.target.model_copy(update={"gpus": gpus})
        torch = self.settings.torch.model_copy(update={"strategy": "auto"})
        return self.settings.model_copy(update={"target": target, "torch": torch})


def look(subject: Subject) -> Here:
    """Looked at now: cards that were pinned may be others by now."""
    try:
        settings = load_settings(subject.root / "config", subject.name, os.environ, "").settings
    except BuildError:
        settings = Settings()  # told once the answers are planned
    pin = Path(layout_of(subject.root, subject.name, settings).build) / "host.json"
    host = replace(probe.host(asked(settings), pin), gpus=probe.cards())
    knowledge = load(subject.root / "config" / "knowledge")
    return Here(
        subject.root,
        f"build/{subject.build.name}",
        settings,
        host,
        knowledge,
        _disks(subject, settings, host),
        _companions(subject),
    )


def _companions(subject: Subject) -> Companions:
    """Where the settings cannot be read nothing is known of them, and none is to be guessed."""
    try:
        loaded = load_settings(subject.root / "config", subject.name, os.environ)
    except BuildError:
        return Companions(set=True)
    where = loaded.origin.get("companions", DEFAULTS)
    local = loaded.settings.companions if where.startswith(LOCAL) else None
    return Companions(not where.startswith(DEFAULTS), local)


def _disks(subject: Subject, settings: Settings, host: Host) -> tuple[Disk, ...]:
    layout = layout_of(subject.root, subject.name, settings)
    lie = tuple(places(layout, layout.build))
    into = settings.install.into or ""
    return tuple(disks(Asked(subject.root, host, lie, into=into)))


def usual(known: Here) -> Answers:
    """What is written where nobody answers anything. Companions that a file to be replaced says
    stay.
    """
    own = known.settings.target.gpus != "auto"
    return Answers(gpus=None if own else known.usual_cards, companions=known.companions.local)


def with_into(answers: Answers, text: str, known: Here) -> Answers:
    """With the interpreter `text`: the one that has the torch, or the one that all is put into; a
    folder of an environment stands for its Python. One of another release than the profile's is
    what is built for, too. Raises `BuildError`.
    """
    into = str(Path(text).expanduser())
    if (folder := known.root / into).is_dir():
        into = str(python_in(folder) or folder)
    found = known.glance(into)
    if answers.way == "existing":
        return replace(answers, python=into)
    release = known.host.python.minor
    answers = replace(answers, into=into, python=into if found.minor != release else "")
    there = known.beside_torch(found)
    return replace(answers, companions=there) if there and not known.companions.set else answers


def takes(way: Way, on: tuple[Disk, ...]) -> str:
    """`about 3 h, 6.2 GiB of disk` on this machine, "" where nothing is known."""
    cost = way.cost.on(capacity.cores())
    parts = (
        f"about {roughly(sum(cost.seconds) / 2)}" if cost.seconds else "",
        told(on, cost.room),
    )
    return ", ".join(filter(None, parts))
