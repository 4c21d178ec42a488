"""What was just put there, imported by the interpreter that a person will use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tasks.effects import importing, manifests, shell
from tasks.effects.theirs.environment import Target
from tasks.effects.voice import say, tick, warn
from tasks.errors import BadArtifactError
from tasks.model import Command
from tasks.stages.env.job import Environment
from tasks.stages.extensions.job import Built
from tasks.stages.install.job import InstallJob

_CODE = """
import importlib
for name in {names!r}:
    print("importing", name, flush=True)
    found = importlib.import_module(name)
    if name == "torch":
        print("torch is", found.__version__, "in", found.__file__, flush=True)
"""


def require(job: InstallJob, target: Target, version: str) -> None:
    """`BadArtifactError` where torch, or a module of an extension, does not import there, or where
    another torch does. One that needs the driver, where none is, cannot be tried: a warning.
    """
    tick("importing torch there")
    given = manifests.read(job.environment, Environment)
    # where no module lies: not in a source tree with a torch in it
    env = _for_them(given.over(shell.host_env()))
    command = Command((), env, "import torch", cwd=job.replaced, log=job.log)
    found = importing.attempt(target.python, _CODE.format(names=_modules(job)), command)
    if found.lacks_driver:
        name = _tried(found.lines)
        warn(f"{name} was installed, and imports only where there is a card: {found.problem}")
        return
    if found.error:
        raise BadArtifactError(
            f"{_tried(found.lines)} does not import in {target.python}: {found.problem}",
            where=found.error.where,
            todo="that log has the whole traceback; what was there before is back",
        ) from found.error
    _require_ours(job, target, version, found.lines)
    for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
        if name in given.prepend:
            say(f"it was imported with {name}={':'.join(given.prepend[name])}: set it there, too")


def _require_ours(job: InstallJob, target: Target, version: str, lines: Sequence[str]) -> None:
    told = next((line for line in lines if line.startswith("torch is ")), "")
    found, _, place = told.removeprefix("torch is ").partition(" in ")
    if found != version or not Path(place).resolve().is_relative_to(target.prefix):
        raise BadArtifactError(
            f"torch {version} was installed, and what {target.python} imports is {found or 'none'}"
            f"{f' in {place}' if place else ''}",
            where=str(job.log),
            todo="remove the other torch, or what leads to it; what was there before is back",
        )


def _modules(job: InstallJob) -> list[str]:
    return ["torch", *(name for built in _built(job) for name in built.imports)]


def _built(job: InstallJob) -> Iterator[Built]:
    for manifest in job.extensions.values():
        built = manifests.read(manifest, Built)
        if built.artifact:
            yield built


def _tried(lines: Sequence[str]) -> str:
    last = [line for line in lines if line.startswith("importing ")]
    return last[-1].partition(" ")[2] if last else "torch"


def _for_them(env: Mapping[str, str]) -> dict[str, str]:
    """It is another environment that is active then, and trying it leaves nothing there."""
    given = {name: value for name, value in env.items() if name != "VIRTUAL_ENV"}
    return {**given, "PYTHONDONTWRITEBYTECODE": "1"}
