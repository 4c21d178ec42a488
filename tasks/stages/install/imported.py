"""What was just put there, imported by the interpreter that a person will use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tasks.core.errors import BadArtifactError, CommandFailedError
from tasks.core.model import Command
from tasks.stages.env.job import Environment
from tasks.stages.extensions.job import Built
from tasks.stages.install.job import InstallJob
from tasks.stages.install.target.environment import Target
from tasks.system import manifests, shell
from tasks.system.python import importing
from tasks.system.python.importing import Imported
from tasks.system.voice import say, tick, warn

_CODE = """
import importlib, sys, traceback
failed = 0
for name in {names!r}:
    print("importing", name, flush=True)
    try:
        found = importlib.import_module(name)
    except BaseException:
        traceback.print_exc()
        failed = 1
        if name == "torch":
            break
        continue
    if name == "torch":
        print("torch is", found.__version__, "in", found.__file__, flush=True)
    print("imported", name, flush=True)
sys.exit(failed)
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
    if not found.error or any(line.startswith("torch is ") for line in found.lines):
        _require_ours(job, target, version, found.lines)
    if found.error:
        _judge(target, found.lines, found.error)
    for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
        if name in given.prepend:
            say(f"it was imported with {name}={':'.join(given.prepend[name])}: set it there, too")


def _judge(target: Target, lines: Sequence[str], error: CommandFailedError) -> None:
    """Each that did not import by itself: the next one may be worse."""
    for name, told in _failed(lines):
        one = Imported(tuple(told), importing.raised(told) or error.what, error)
        if not one.lacks_driver:
            raise BadArtifactError(
                f"{name} does not import in {target.python}: {one.problem}",
                where=error.where,
                todo="that log has the whole traceback; what was there before is back",
            ) from error
        warn(f"{name} was installed, and imports only where there is a card: {one.problem}")


def _failed(lines: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """What did not import, with its lines. Where all did, Python ended badly with the last; torch
    is the first, also where not even that was begun.
    """
    begins = [number for number, line in enumerate(lines) if line.startswith("importing ")]
    tried = [
        (lines[begin].partition(" ")[2], lines[begin:end])
        for begin, end in zip(begins, [*begins[1:], len(lines)], strict=True)
    ]
    failed = [(name, told) for name, told in tried if f"imported {name}" not in told]
    yield from failed or tried[-1:] or [("torch", lines)]


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
        if job.partial and not Path(manifest).is_file():
            continue
        built = manifests.read(manifest, Built)
        if built.artifact:
            yield built


def _for_them(env: Mapping[str, str]) -> dict[str, str]:
    """It is another environment that is active then, and trying it leaves nothing there."""
    given = {name: value for name, value in env.items() if name != "VIRTUAL_ENV"}
    return {**given, "PYTHONDONTWRITEBYTECODE": "1"}
