"""What was found → checks. Pure.

Whatever did not report did not pass: a check at which its process ended has failed, and those that
nobody asked for after it were not run.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tasks.core.model import Arch, Check
from tasks.knowledge import Knowledge
from tasks.knowledge.archs import MachineCode
from tasks.knowledge.covers import how
from tasks.knowledge.failures import recognise
from tasks.stages.validate.job import Validation

SCHEMA = 2
_REBUILD = "build for it: name the card in target.gpus, then doit build"
_LINE = re.compile(r'\{"name": .*\}$')
_ON_ANY = ("import", "version")  # what a torch without CUDA can answer, too
_KIND_OF = {
    "find_package(Torch)": "import",
    ": import": "extensions",
    ": smoke check": "extensions",
    ": built for this torch": "extensions",
    ": machine code": "machine_code",
}


def reported(lines: Iterable[str]) -> dict[str, Mapping[str, str]]:
    """Name → what the probe says of it. Lines that others printed in between are passed over."""
    found: dict[str, Mapping[str, str]] = {}
    for line in lines:
        if match := _LINE.search(line):
            try:
                said = json.loads(match[0])
            except ValueError:
                continue
            found[said["name"]] = said
    return found


def from_probe(
    expected: Sequence[str],
    said: Mapping[str, Mapping[str, str]],
    lost: Mapping[str, str],
    left: str,
) -> list[Check]:
    """The probe's checks in its order. `lost` are those at which a process ended, and how; `left`
    is why those that are missing besides were not run.
    """
    return [
        _check(said[name])
        if name in said
        else Check(name, "failed", lost[name])
        if name in lost
        else Check(name, "not run", left or "the probe ended before it")
        for name in expected
    ]


def _check(said: Mapping[str, str]) -> Check:
    match said["status"]:
        case "passed":
            return Check(said["name"], "passed", said["detail"])
        case "not run":
            return Check(said["name"], "not run", said["detail"])
    return Check(said["name"], "failed", said["detail"], said["remedy"])


def compiled_for(flags: str) -> MachineCode:
    """What torch says it was compiled for: `sm_90 sm_120 compute_120`."""
    names = flags.split()
    return MachineCode(
        cubins=frozenset(Arch.parse(name) for name in names if name.startswith("sm_")),
        ptx=frozenset(Arch.parse(name) for name in names if name.startswith("compute_")),
    )


def covering(  # noqa: PLR0913, PLR0917  (the whole question)
    knowledge: Knowledge,
    name: str,
    code: MachineCode,
    targets: Sequence[Arch],
    source: str,
    maker: str | None,
) -> Check:
    """Whether every target can run the `code` of `source`, and how: native, compatible or ptx.

    `maker` is the CUDA release that made it, None where that is not known.
    """
    if not targets:
        return Check(name, "not run", "no GPU target: this profile builds for the CPU")
    ways = {target: how(knowledge, code, target, maker=maker) for target in targets}
    if lacking := [str(target) for target, way in ways.items() if not way]:
        return Check(
            name,
            "failed",
            f"{source} holds no code for {', '.join(lacking)} (it has {_held(code)})",
            _REBUILD,
        )
    return Check(
        name, "passed", f"{source}: {', '.join(f'{target} {way}' for target, way in ways.items())}"
    )


def _held(code: MachineCode) -> str:
    return ", ".join(code.names) or "none"


def without_cuda(checks: Iterable[Check], wanted: str, again: str) -> list[Check]:
    """What the checks of a torch that was built without CUDA come to where one for CUDA `wanted`
    was installed. That has failed, asked for or not: what such a torch does on the CPU proves
    nothing of a card.
    """
    what = f"this torch is for the CPU, and one for CUDA {wanted} was installed"
    remedy = f"another torch was installed over it: {again} puts it back"
    failed = Check("cuda", "failed", what, remedy, "cpu-only-torch")
    return [failed, *(_on_the_cpu(check, failed) for check in checks if check.name != "cuda")]


def _on_the_cpu(check: Check, failed: Check) -> Check:
    if check.name == "archs":
        return replace(failed, name="archs")
    if check.name not in _ON_ANY and not check.name.endswith(": import"):
        return Check(check.name, "not run", "this torch is for the CPU")
    return replace(check, remedy=failed.remedy) if check.status == "failed" else check


def made_for(name: str, built: str, now: str, again: str) -> Check:
    """Whether an extension was built for the torch that is there, by the names of their
    surfaces.
    """
    what = f"{name}: built for this torch"
    if built == now:
        return Check(what, "passed", f"torch surface {now}")
    return Check(
        what,
        "failed",
        f"it was built for torch surface {built}, and the torch here is {now}",
        f"{again} builds it again",
    )


def diagnosed(knowledge: Knowledge, check: Check, said: str = "") -> Check:
    """A failed check with its cause, where that is known, and with the remedy of it, where it has
    none of its own. `said` is all that was printed: what the check itself tells counts more.
    """
    if check.status != "failed" or check.cause:
        return check
    known = recognise(knowledge, check.detail) or recognise(knowledge, said)
    if known is None:
        return check
    remedy = check.remedy or f"{known.cause}: {known.remedy}"
    return replace(check, cause=known.slug, remedy=remedy)


def joined(name: str, parts: Sequence[Check]) -> Check:
    """Several libraries as one check: failed where one failed, passed where one passed."""
    for status in ("failed", "passed", "not run"):
        those = [part for part in parts if part.status == status]
        if those:
            remedy = next((part.remedy for part in those if part.remedy), "")
            return Check(name, those[0].status, "; ".join(part.detail for part in those), remedy)
    return Check(name, "not run", "there is nothing to look at")


def asked_for(checks: Iterable[Check], names: Sequence[str]) -> tuple[Check, ...]:
    """Those that the settings name, in that order; and what failed on the way to them."""
    order = {name: number for number, name in enumerate(names)}
    chosen = [check for check in checks if kind(check.name) in order or check.status == "failed"]
    return tuple(sorted(chosen, key=lambda check: order.get(kind(check.name), -1)))


def kind(name: str) -> str:
    """The name in the settings (validation.only) that `smoke: import` belongs to."""
    return next((of for ending, of in _KIND_OF.items() if name.endswith(ending)), name)


def validation(torch: str, checks: Sequence[Check], warnings: tuple[str, ...] = ()) -> Validation:
    """The manifest: every status has a count, also the ones that are zero."""
    numbers = Counter(check.status for check in checks)
    counts = {status: numbers[status] for status in ("passed", "failed", "not run")}
    return Validation(SCHEMA, torch, counts, tuple(checks), warnings)
