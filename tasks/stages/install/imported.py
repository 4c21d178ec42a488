"""What was just put there, imported by the interpreter that a person will use."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tasks.effects import manifests, shell
from tasks.effects.theirs.environment import Target
from tasks.effects.voice import say, tick, warn
from tasks.errors import BadArtifactError, CommandFailedError
from tasks.model import Command
from tasks.stages.env.job import Environment
from tasks.stages.extensions.job import Built
from tasks.stages.install.job import InstallJob

_TIMEOUT = 600.0  # seconds: far more than a cold disk needs, so that a hang ends
_CODE = """
import importlib, json, sys
for name in json.loads(sys.argv[1]):
    print("importing", name, flush=True)
    found = importlib.import_module(name)
    if name == "torch":
        print("torch is", found.__version__, "in", found.__file__, flush=True)
print("all imported", flush=True)
"""
_RAISED = re.compile(r"[\w.]*(?:Error|Exception|Interrupt|Exit)\b")  # how a traceback ends
_DRIVER = re.compile(r"ImportError: libcuda\.so\S*: cannot open shared object file")


def require(job: InstallJob, target: Target, version: str) -> None:
    """`BadArtifactError` where torch, or a module of an extension, does not import there, or where
    another torch does. One that needs the driver, where none is, cannot be tried: a warning.
    """
    tick("importing torch there")
    given = manifests.read(job.environment, Environment)
    argv = (target.python, "-B", "-X", "faulthandler", "-c", _CODE, json.dumps(_modules(job)))
    # -c takes modules from the folder it runs in first: not from a source tree with a torch in it
    command = Command(
        argv,
        _without_ours(given.over(shell.host_env())),
        "import torch",
        cwd=job.replaced,
        log=job.log,
        timeout=_TIMEOUT,
    )
    lines: list[str] = []
    try:
        shell.run(command, lines.append)
    except CommandFailedError as error:
        raised = next((line for line in reversed(lines) if _RAISED.match(line)), error.what)
        if _DRIVER.match(raised):
            warn(f"torch {version} was installed and NOT imported: {raised}")
            return
        raise BadArtifactError(
            f"{_tried(lines)} does not import in {target.python}: {raised}",
            where=error.where,
            todo="that log has the whole traceback; what was there before is back",
        ) from error
    _require_ours(job, target, version, lines)
    for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
        if name in given.prepend:
            say(f"it was imported with {name}={':'.join(given.prepend[name])}: set it there, too")


def _require_ours(job: InstallJob, target: Target, version: str, lines: Sequence[str]) -> None:
    told = next((line for line in lines if line.startswith("torch is ")), "")
    _, _, rest = told.partition("torch is ")
    found, _, place = rest.partition(" in ")
    if found != version or not Path(place).resolve().is_relative_to(target.prefix):
        raise BadArtifactError(
            f"torch {version} was installed, and what {target.python} imports is {rest or 'none'}",
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


def _without_ours(env: Mapping[str, str]) -> dict[str, str]:
    """It is another environment that is active then."""
    return {name: value for name, value in env.items() if name != "VIRTUAL_ENV"}
