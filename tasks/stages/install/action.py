"""Look, resolve, unpack, keep, exchange, import: only what imports stays."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tasks.effects import environments, files, manifests
from tasks.effects.replaced import exchanging, interrupted, journal, keeping, settling
from tasks.effects.replaced.journal import ASIDE, CHANGE, FILES, Change, Exchange
from tasks.effects.replaced.lying import record_digest
from tasks.effects.theirs import environment, interpreter, resolving, unpacked
from tasks.effects.theirs.environment import Target
from tasks.effects.theirs.resolving import Installer
from tasks.effects.theirs.unpacked import Unpacked
from tasks.effects.voice import say, tick, warn
from tasks.errors import BadArtifactError, BuildError
from tasks.stages.deps.job import Deps
from tasks.stages.install import fit, imported, wheels
from tasks.stages.install.job import Distribution, Installed, InstallJob
from tasks.stages.install.wheels import Chosen

_MIB = 2**20
_DEPENDENCY_MIB = 300  # of what comes from an index nobody tells how large it gets


def run(job: InstallJob) -> tuple[Installed]:
    """Leave what was built in a person's environment, or that environment as it was."""
    interrupted.mend(job.replaced)
    chosen = wheels.choose(job)
    python = interpreter.find(job.into, job.root)
    tick(f"asking {python} what it has")
    target = environment.ask(python)
    fit.require(target, chosen)
    _require_alone(job, target)
    stamp = journal.stamp_of(job.replaced, target.prefix, target.sites)
    held = journal.held(stamp) if stamp else None
    by = _installer(job, target)
    coming = _coming(by, chosen, held)
    if coming:
        held = _install(job, target, by, chosen, coming, stamp or _new_stamp(job))
    elif held:
        say(f"all of it lies in {target.prefix} already")
    return (_manifest(target, held),)


def _require_alone(job: InstallJob, target: Target) -> None:
    """What another profile replaced there, it alone can put back."""
    for other in sorted(Path(job.builds).glob("*/replaced")):
        taken = other != Path(job.replaced) and journal.stamp_of(other, target.prefix, target.sites)
        if taken:
            name = other.parent.name
            raise BuildError(
                f"profile {name} has put its torch into {target.prefix}; nothing was changed",
                where=str(taken),
                todo=f"doit restore --yes profile={name}, then run the same command again",
            )


def _installer(job: InstallJob, target: Target) -> Installer:
    deps = manifests.read(job.deps, Deps)
    return Installer(
        python=target.python,
        prefix=target.prefix,
        uv=environments.find_uv(),
        pip=deps.python,
        folder=Path(job.replaced),
        log=job.log,
        index=job.index,
        constraints=deps.toolkit.pins if deps.toolkit else (),
    )


def _coming(by: Installer, chosen: Sequence[Chosen], held: Exchange | None) -> Mapping[str, str]:
    """Name → version of everything that is to be installed: wheels that do not lie there yet, and
    what torch needs.
    """
    fresh = {one.name: one.version for one in chosen if not _lies(one, held)}
    torch = chosen[0]
    wanted = str(torch.path) if torch.name in fresh else f"{torch.name}=={torch.version}"
    tick("asking what torch needs there")
    needs = resolving.resolve(by, [wanted], [name for name in fresh if name == torch.name])
    return {**needs, **fresh}


def _lies(one: Chosen, held: Exchange | None) -> bool:
    """Whether it was put there, and nobody changed that since."""
    part = held.parts.get(one.name) if held else None
    if held is None or part is None or part.wheel != one.sha256:
        return False
    return record_digest(Path(held.prefix, part.path)) == part.record


def _new_stamp(job: InstallJob) -> Path:
    return Path(job.replaced) / interrupted.now()


def _install(  # noqa: PLR0913, PLR0917  (everything that is known by now)
    job: InstallJob,
    target: Target,
    by: Installer,
    chosen: Sequence[Chosen],
    coming: Mapping[str, str],
    stamp: Path,
) -> Exchange:
    for told in fit.warnings(target, coming):
        warn(told)
    try:
        made = _unpack(by, target, chosen, coming, stamp)
        digests = {one.name: one.sha256 for one in chosen}
        new = keeping.keep(stamp, target, made, digests, interrupted.now())
        _require_room_there(target, made, stamp)
    except BaseException:
        settling.drop(stamp)  # nothing of theirs was touched
        raise
    journal.write_change(stamp, Change("installing", new))
    try:
        exchanging.exchange(new, stamp / CHANGE / "staged")
        _require_list(target, coming)
        imported.require(job, target, chosen[0].version)
    except BaseException:
        _undo(stamp, new)
        raise
    _tell(new, settling.settle(stamp, new), stamp)
    return journal.held(stamp) or new


def _unpack(
    by: Installer,
    target: Target,
    chosen: Sequence[Chosen],
    coming: Mapping[str, str],
    stamp: Path,
) -> Unpacked:
    own = {one.name: one for one in chosen if one.name in coming}
    others = [name for name in coming if name not in own]
    need = sum(one.size for one in own.values()) // _MIB + _DEPENDENCY_MIB * len(others)
    files.require_space(stamp, need, "what is to be installed")
    tick(f"unpacking {', '.join(one.path.name for one in own.values()) or 'what torch needs'}")
    staged = stamp / CHANGE / "staged"
    staged.mkdir(parents=True)
    pins = [f"{name}=={coming[name]}" for name in others]
    resolving.unpack(by, staged, [*(str(one.path) for one in own.values()), *pins])
    made = unpacked.read(staged, target.sites)
    resolving.require(made.versions, coming, by.log)
    return made


def _require_room_there(target: Target, made: Unpacked, stamp: Path) -> None:
    """On one disk a file has two names, on two it is there twice."""
    if target.prefix.stat().st_dev != stamp.stat().st_dev:
        need = sum(placed.size for placed in made.placed.values()) // _MIB + 1
        files.require_space(target.prefix, need, "what is to be installed")


def _require_list(target: Target, coming: Mapping[str, str]) -> None:
    now = environment.ask(Path(target.python))
    if wrong := fit.difference(target, now, coming):
        raise BadArtifactError(
            f"after the install this lies there: {'; '.join(wrong)}; what was there is put back",
            where=target.python,
            todo="see that nobody else installs there, then run the same command again",
        )


def _undo(stamp: Path, new: Exchange) -> None:
    """A person's environment is never left as it is in between."""
    tick("putting back what was there")
    aside = stamp / ASIDE / interrupted.now()
    interrupted.tell(exchanging.put_back(new, stamp / CHANGE / FILES, aside), new.prefix)
    settling.drop(stamp)


def _tell(new: Exchange, settled: settling.Settled, stamp: Path) -> None:
    for text in _came(new):
        say(text)
    say("what was there before is kept; the way back: doit restore")
    aside = stamp / ASIDE / new.when
    if settled.edited:
        warn(
            f"of what had been put there {len(settled.edited)} files were changed since: they are "
            f"now in {aside}"
        )
    if settled.left:
        warn(
            f"what was there at first was replaced by somebody else since; it is now in {aside}, "
            "and doit restore puts back what took its place"
        )


def _came(new: Exchange) -> Iterator[str]:
    wheels_of = {name: part for name, part in new.parts.items() if part.wheel}
    for name, part in wheels_of.items():
        yield f"{name} {part.before} → {part.after}" if part.before else f"{name} {part.after}"
    others = [f"{name} {part.after}" for name, part in new.parts.items() if not part.wheel]
    if others:
        yield f"and what torch needs: {', '.join(sorted(others))}"


def _manifest(target: Target, held: Exchange | None) -> Installed:
    parts = held.parts if held else {}
    return Installed(
        python=target.python,
        prefix=os.fspath(target.prefix),
        distributions=tuple(
            Distribution(name, part.after, str(target.prefix / part.path), part.record, part.wheel)
            for name, part in sorted(parts.items())
        ),
    )
