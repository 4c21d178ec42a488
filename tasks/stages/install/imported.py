"""What was just put there, imported by the interpreter that a person will use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tasks.core.errors import BadArtifactError, CommandFailedError
from tasks.core.model import Command
from tasks.stages.env.job import Environment
from tasks.stages.extensions.job import BuiltExtension
from tasks.stages.install.job import InstallJob
from tasks.stages.install.target.environment import TargetEnvironment
from tasks.system import manifests, shell
from tasks.system.python import importing
from tasks.system.python.importing import ImportResult
from tasks.system.voice import print_line, print_warning, show_progress

_IMPORT_CODE = """
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


def require_imports(job: InstallJob, target: TargetEnvironment, version: str) -> None:
    """`BadArtifactError` where torch, or a module of an extension, does not import there, or where
    another torch does. One that needs the driver, where none is, cannot be tried: a warning.
    """
    show_progress("importing torch there")
    given = manifests.read_manifest(job.environment, Environment)
    # where no module lies: not in a source tree with a torch in it
    env = _build_import_environment(given.build_child_environment(shell.build_host_env()))
    command = Command((), env, "import torch", cwd=job.replaced, log=job.log)
    found = importing.try_import(
        target.python, _IMPORT_CODE.format(names=_list_modules(job)), command
    )
    if not found.error or any(line.startswith("torch is ") for line in found.lines):
        _require_installed_torch(job, target, version, found.lines)
    if found.error:
        _check_import_failures(target, found.lines, found.error)
    for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
        if name in given.prepend:
            print_line(
                f"it was imported with {name}={':'.join(given.prepend[name])}: set it there, too"
            )


def _check_import_failures(
    target: TargetEnvironment, lines: Sequence[str], error: CommandFailedError
) -> None:
    """Each that did not import by itself: the next one may be worse."""
    for name, told in _find_failed_imports(lines):
        one = ImportResult(
            tuple(told), importing.find_raised_exception(told) or error.message, error
        )
        if not one.needs_driver:
            raise BadArtifactError(
                f"{name} does not import in {target.python}: {one.problem}",
                location=error.location,
                hint="that log has the whole traceback; what was there before is back",
            ) from error
        print_warning(
            f"{name} was installed, and imports only where there is a card: {one.problem}"
        )


def _find_failed_imports(lines: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
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


def _require_installed_torch(
    job: InstallJob, target: TargetEnvironment, version: str, lines: Sequence[str]
) -> None:
    told = next((line for line in lines if line.startswith("torch is ")), "")
    found, _, place = told.removeprefix("torch is ").partition(" in ")
    if found != version or not Path(place).resolve().is_relative_to(target.prefix):
        raise BadArtifactError(
            f"torch {version} was installed, and what {target.python} imports is {found or 'none'}"
            f"{f' in {place}' if place else ''}",
            location=str(job.log),
            hint="remove the other torch, or what leads to it; what was there before is back",
        )


def _list_modules(job: InstallJob) -> list[str]:
    return ["torch", *(name for built in _read_built_extensions(job) for name in built.imports)]


def _read_built_extensions(job: InstallJob) -> Iterator[BuiltExtension]:
    for manifest in job.extensions.values():
        if job.partial and not Path(manifest).is_file():
            continue
        built = manifests.read_manifest(manifest, BuiltExtension)
        if built.artifact:
            yield built


def _build_import_environment(env: Mapping[str, str]) -> dict[str, str]:
    """It is another environment that is active then, and trying it leaves nothing there."""
    given = {name: value for name, value in env.items() if name != "VIRTUAL_ENV"}
    return {**given, "PYTHONDONTWRITEBYTECODE": "1"}
