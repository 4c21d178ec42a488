"""What the built environment says of itself: the probe, and each extension's own check."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tasks.effects import probe, shell
from tasks.errors import CommandFailedError
from tasks.knowledge import load
from tasks.model import Command
from tasks.stages.extensions.job import Built
from tasks.stages.validate.checks import compiled_for, covering, from_probe, reported
from tasks.stages.validate.job import Check, SmokeCheck, ValidateJob
from tasks.stages.wheel.job import Wheel

_PROBE = Path(__file__).parent / "probes" / "torch_probe.py"
_BY_PROBE = ("version", "cuda", "device", "matmul", "convolution")  # in the order it makes them


@dataclass(frozen=True)
class Said:
    """What the probe reported, by name, and why it stopped early ("" where it did not)."""

    lines: Mapping[str, Mapping[str, str]]
    ended: str

    @property
    def no_gpu(self) -> str | None:
        """Why there is no card to try, "" where there is one, None where the probe ended before."""
        return self.lines["gpu"]["detail"] if "gpu" in self.lines else None


def ask(job: ValidateJob, wheel: Wheel, built: Mapping[str, Built], env: Mapping[str, str]) -> Said:
    """Run the probe. A crash or a hang of it ends what it has left to say, and nothing else."""
    cards = len(probe.cards()) if wheel.cuda else 0
    argv = probe_argv(job, wheel, built, cards)
    lines: list[str] = []
    try:
        shell.run(Command(argv, env, "the probe", log=job.log, timeout=job.timeout), lines.append)
    except CommandFailedError as error:
        return Said(reported(lines), error.what)
    return Said(reported(lines), "")


def probe_argv(
    job: ValidateJob, wheel: Wheel, built: Mapping[str, Built], cards: int
) -> tuple[str, ...]:
    """The command for it, where the driver has so many cards. Pure."""
    given = {
        "checks": job.checks,
        "version": wheel.version,
        "folder": wheel.folder,
        "cuda": wheel.cuda,
        "cards": cards,
        "imports": _imports(job, built),
    }
    return (wheel.python, "-X", "faulthandler", str(_PROBE), json.dumps(given))


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
    expected = ["import", *(name for name in _BY_PROBE if name in job.checks)]
    expected += [f"{name}: import" for name in _imports(job, built)]
    lost = [
        Check(f"{name}: import", "not run", "its source could not be reached")
        for name, one in built.items()
        if one.status == "unreachable"
    ]
    return [*from_probe(expected, said.lines, said.ended), *_archs(job, wheel, said), *lost]


def _archs(job: ValidateJob, wheel: Wheel, said: Said) -> list[Check]:
    if "archs" not in job.checks:
        return []
    if said.no_gpu == "torch without CUDA":
        return [Check("archs", "not run", "torch without CUDA")]
    if "archs" not in said.lines:
        return [Check("archs", "not run", "the probe ended before it")]
    code = compiled_for(said.lines["archs"]["detail"])
    knowledge = load(Path(job.knowledge))
    return [covering(knowledge, "archs", code, job.targets, "torch's arch list", wheel.cuda)]


def smoke_checks(
    job: ValidateJob, said: Said, built: Mapping[str, Built], python: str, env: Mapping[str, str]
) -> list[Check]:
    """Each extension's script, where there is what it needs."""
    if "extensions" not in job.checks:
        return []
    checks = []
    for name, smoke in job.smokes.items():
        what = f"{name}: smoke check"
        log = job.log.with_name(f"validate-{name}.log")
        command = Command((python, str(smoke.script)), env, what, log=log, timeout=job.timeout)
        reason = _not_possible(smoke, built[name], said)
        checks.append(Check(what, "not run", reason) if reason else _ran(command))
    return checks


def _ran(command: Command) -> Check:
    """Exit 0 passes, and the last line tells how; a script that took too long has failed."""
    lines: list[str] = []
    try:
        shell.run(command, lines.append)
    except CommandFailedError as error:
        return Check(command.what, "failed", error.what, f"see {error.where}")
    last = next((line for line in reversed(lines) if line.strip()), "exit 0")
    return Check(command.what, "passed", last)


def _not_possible(smoke: SmokeCheck, built: Built, said: Said) -> str:
    if built.status == "unreachable":
        return "its source could not be reached"
    if smoke.gpu and said.no_gpu is None:
        return "the probe did not get as far as the card"
    return (said.no_gpu or "") if smoke.gpu else ""
