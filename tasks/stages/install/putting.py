"""What is to be installed, in the place of what is there: unpacked elsewhere and kept first, then
exchanged, then imported. What does not import gives way to what was there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tasks.core.errors import BadArtifactError
from tasks.core.formatting.few import few
from tasks.stages.install import fit, imported, unpacking
from tasks.stages.install.coming import Versions
from tasks.stages.install.job import InstallJob
from tasks.stages.install.target import environment, resolving, unpacked
from tasks.stages.install.target.environment import Target
from tasks.stages.install.target.resolving import Installer
from tasks.stages.install.target.unpacked import Unpacked
from tasks.stages.install.transaction import exchanging, interrupted, journal, keeping, settling
from tasks.stages.install.transaction.journal import ASIDE, CHANGE, FILES, Change, Exchange
from tasks.stages.install.transaction.settling import Settled
from tasks.stages.install.wheels import Chosen
from tasks.stages.wheel.job import Wheel
from tasks.system import manifests, space
from tasks.system.typed import with_profile
from tasks.system.voice import say, tick, warn

_MIB = 2**20


@dataclass(frozen=True)
class Order:
    """Everything that is known by now. `stamp` is the folder for what gives way."""

    job: InstallJob
    target: Target
    by: Installer
    chosen: Sequence[Chosen]
    coming: Versions
    stamp: Path


def put(order: Order) -> Exchange:
    """What lies there then. Whatever goes wrong, the environment is what it was before."""
    stamp = order.stamp
    try:
        made = _unpack(order)
        digests = {one.name: one.sha256 for one in order.chosen}
        new = keeping.keep(stamp, order.target, made, digests, interrupted.now())
        _require_room(order, made)
        journal.write_change(stamp, Change("installing", new))
    except BaseException:
        settling.drop(stamp)  # nothing of theirs was touched
        raise
    try:
        exchanging.exchange(new, stamp / CHANGE / "staged")
        _require_list(order)
        # the wheel's name may lack the local version that torch itself says: PyPI's 2.15.0+cu132
        torch = manifests.read(order.job.wheel, Wheel)
        imported.require(order.job, order.target, torch.version)
    except BaseException:
        _undo(stamp, new)
        raise
    _tell(order, new, settling.settle(stamp, new))
    return journal.held(stamp) or new


def _unpack(order: Order) -> Unpacked:
    own = {one.name: one for one in order.chosen if one.name in order.coming}
    others = [name for name in order.coming if name not in own]
    build = Path(order.job.replaced).parent
    what = f"unpacking what is to be installed in {order.target.prefix}"
    space.require(build, unpacking.takes(order), what, _where(order, build))
    tick(f"unpacking {', '.join(one.path.name for one in own.values()) or 'what is needed'}")
    staged = order.stamp / CHANGE / "staged"
    unpacked.prepare(staged, order.target.links())
    pins = [f"{name}=={order.coming[name]}" for name in others]
    resolving.unpack(order.by, staged, [*(str(one.path) for one in own.values()), *pins])
    made = unpacked.read(staged, order.target.sites)
    resolving.require(made.versions, order.coming, order.by.log)
    return made


def _require_room(order: Order, made: Unpacked) -> None:
    """On one disk a file has two names, on two it is there twice."""
    prefix = order.target.prefix
    if not unpacking.on_one_disk(prefix, order.stamp):
        need = sum(placed.size for placed in made.placed.values()) // _MIB + 1
        space.require(prefix, need, "what is to be installed", _where(order, prefix))


def _where(order: Order, folder: Path) -> str:
    """The environment as the person named it, and the folder where it is on another disk."""
    named = f"install.into: {order.job.into}"
    one = folder == order.target.prefix or unpacking.on_one_disk(folder, order.target.prefix)
    return named if one else f"{folder}, for {named}"


def _require_list(order: Order) -> None:
    now = environment.ask(Path(order.target.python))
    if wrong := fit.difference(order.target, now, order.coming):
        raise BadArtifactError(
            f"after the install this lies there: {'; '.join(wrong)}; what was there is put back",
            where=order.target.python,
            todo="see that nobody else installs there, then run the same command again",
        )


def _undo(stamp: Path, new: Exchange) -> None:
    """A person's environment is never left as it is in between."""
    tick("putting back what was there")
    aside = stamp / ASIDE / interrupted.now()
    interrupted.tell(exchanging.put_back(new, stamp / CHANGE / FILES, aside), new.prefix)
    settling.drop(stamp)


def _tell(order: Order, new: Exchange, settled: Settled) -> None:
    for text in _came(new):
        say(text)
    back = f"doit restore --yes{with_profile(order.job.profile)}"
    say(f"what was there before is kept; the way back: {back}")
    aside = order.stamp / ASIDE / new.when
    if settled.edited:
        warn(
            "files were changed since they were put there, and are now in "
            f"{aside}: {few(settled.edited, 3)}"
        )
    if settled.left:
        warn(
            f"what was there at first was replaced by somebody else since; it is now in {aside}, "
            "and doit restore puts back what took its place"
        )


def _came(new: Exchange) -> Iterator[str]:
    for name, part in new.parts.items():
        if part.wheel:
            yield f"{name} {part.before} → {part.after}" if part.before else f"{name} {part.after}"
    others = [f"{name} {part.after}" for name, part in new.parts.items() if not part.wheel]
    if others:
        yield f"and what they need: {', '.join(sorted(others))}"
