"""What the built environment says of itself: the probe, and each extension's own check."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from tasks.core.errors import CommandFailedError, MissingToolError
from tasks.core.model import Check, Command
from tasks.knowledge import load
from tasks.stages.extensions.job import Built
from tasks.stages.validate import probing
from tasks.stages.validate.checks import (
    compiled_for,
    covering,
    diagnosed,
    from_probe,
    without_cuda,
)
from tasks.stages.validate.job import SmokeCheck, ValidateJob
from tasks.stages.validate.probing import EXIT, Run, Said
from tasks.stages.wheel.job import Wheel
from tasks.system import shell
from tasks.system.hardware import probe

_PROBE = Path(__file__).parent / "probes" / "torch_probe.py"
_BY_PROBE = (  # in the order it makes them
    *("version", "cuda", "device", "matmul", "reduction", "convolution", "autograd"),
    *("graph", "speed", "compile", "nccl"),
)
_TIMED_OUT = 124  # what the shell says of a program that took too long
_NO_CUDA = "torch without CUDA"  # what the probe says of such a torch


def ask(job: ValidateJob, wheel: Wheel, built: Mapping[str, Built], env: Mapping[str, str]) -> Said:
    """Run the probe, as often as it takes: a crash or a hang costs the check that it was at."""
    cards = len(probe.cards()) if wheel.cuda else 0

    def once(left: Sequence[str]) -> Run:
        argv = probe_argv(job, wheel, built, cards, left)
        return _once(Command(argv, env, "the probe", log=job.log, timeout=job.timeout))

    return probing.ask(once, [*_own(job), *(f"{name}: import" for name in _imports(job, built))])


def _once(command: Command) -> Run:
    lines: list[str] = []
    try:
        shell.run(command, lines.append)
    except (CommandFailedError, MissingToolError) as error:
        hung = isinstance(error, CommandFailedError) and error.code == _TIMED_OUT
        too_long = f"took longer than {command.timeout:.0f} s and was ended"
        return Run(tuple(lines), too_long if hung else error.what, hung)
    return Run(tuple(lines))


def probe_argv(
    job: ValidateJob,
    wheel: Wheel,
    built: Mapping[str, Built],
    cards: int,
    left: Sequence[str] | None = None,
) -> tuple[str, ...]:
    """The command for it, where the driver has so many cards; for those checks that are `left`,
    None for all. Pure.
    """
    given = {
        "checks": [name for name in job.checks if left is None or name in left],
        "version": wheel.version,
        "folder": wheel.folder,
        "cuda": wheel.cuda,
        "cards": cards,
        "imports": {
            name: modules
            for name, modules in _imports(job, built).items()
            if left is None or f"{name}: import" in left
        },
    }
    return (wheel.python, "-X", "faulthandler", str(_PROBE), json.dumps(given))


def _own(job: ValidateJob) -> list[str]:
    return [name for name in _BY_PROBE if name in job.checks]


def _imports(job: ValidateJob, built: Mapping[str, Built]) -> dict[str, tuple[str, ...]]:
    if "extensions" not in job.checks:
        return {}
    return {
        name: one.imports for name, one in built.items() if one.imports and one.status == "built"
    }


def probe_checks(
    job: ValidateJob, wheel: Wheel, said: Said, built: Mapping[str, Built]
) -> list[Check]:
    """The probe's own checks, and the archs that torch names, judged against the targets."""
    expected = ["import", *_own(job), *(f"{name}: import" for name in _imports(job, built))]
    lost = {name: how.detail for name, how in said.lost.items()}
    found = [*from_probe(expected, said.lines, lost, said.left), *_archs(job, wheel, said)]
    if EXIT in lost:
        found.append(Check(EXIT, "failed", f"after the last check {lost[EXIT]}"))
    if "gpu" in lost:
        found = _no_answer(found, lost["gpu"])
    if wheel.cuda and said.no_gpu == _NO_CUDA:
        found = without_cuda(found, wheel.cuda, job.again)
    knowledge = load(Path(job.knowledge))
    told = [
        diagnosed(knowledge, check, said.lost[check.name].said if check.name in lost else "")
        for check in found
    ]
    return [*told, *_unreachable(built)]


def _no_answer(found: list[Check], how: str) -> list[Check]:
    """Where the card itself is not found in time, `device` is the check that has failed."""
    rest = [check for check in found if check.name != "device"]
    return [*rest, Check("device", "failed", f"looking for the card {how}")]


def _unreachable(built: Mapping[str, Built]) -> list[Check]:
    return [
        Check(f"{name}: import", "not run", "its source could not be reached")
        for name, one in built.items()
        if one.status == "unreachable"
    ]


def _archs(job: ValidateJob, wheel: Wheel, said: Said) -> list[Check]:
    if "archs" not in job.checks:
        return []
    if said.no_gpu == _NO_CUDA:
        return [Check("archs", "not run", _NO_CUDA)]
    if "archs" not in said.lines:
        return [Check("archs", "not run", said.left or "the probe ended before it")]
    code = compiled_for(said.lines["archs"]["detail"])
    knowledge = load(Path(job.knowledge))
    return [covering(knowledge, "archs", code, job.targets, "torch's arch list", wheel.cuda)]


def smoke_checks(
    job: ValidateJob, said: Said, built: Mapping[str, Built], python: str, env: Mapping[str, str]
) -> list[Check]:
    """Each extension's script, where it is built and there is what it needs."""
    if "extensions" not in job.checks:
        return []
    hung, checks = said.hung, []
    for name, smoke in job.smokes.items():
        if name not in built:
            continue
        what, log = f"{name}: smoke check", job.log.with_name(f"validate-{name}.log")
        if reason := _not_possible(smoke, built[name], replace(said, hung=hung)):
            checks.append(Check(what, "not run", reason))
            continue
        run = _once(Command((python, str(smoke.script)), env, what, None, log, job.timeout))
        hung += run.hung and smoke.gpu
        checks.append(_smoke(job, what, run, log))
    return checks


def _smoke(job: ValidateJob, what: str, run: Run, log: PurePath) -> Check:
    """Exit 0 passes, and the last line tells how; a script that took too long has failed."""
    if not run.ended:
        last = next((line for line in reversed(run.lines) if line.strip()), "exit 0")
        return Check(what, "passed", last)
    failed = Check(what, "failed", run.ended)
    told = diagnosed(load(Path(job.knowledge)), failed, "\n".join(run.lines))
    return told if told.remedy else replace(told, remedy=f"see {log}")


def _not_possible(smoke: SmokeCheck, built: Built, said: Said) -> str:
    if built.status == "unreachable":
        return "its source could not be reached"
    if smoke.gpu and (said.left == probing.HUNG or said.hung >= probing.HANGS):
        return probing.HUNG
    if smoke.gpu and said.no_gpu is None:
        return "the probe did not get as far as the card"
    return (said.no_gpu or "") if smoke.gpu else ""
