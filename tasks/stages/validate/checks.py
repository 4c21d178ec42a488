"""What was found → checks. Pure.

Whatever did not report did not pass: where the probe ended early, the first check that is missing
failed and those after it were not run.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tasks.knowledge import Knowledge
from tasks.knowledge.archs import MachineCode
from tasks.knowledge.covers import how
from tasks.model import Arch
from tasks.stages.validate.job import Check, Validation

SCHEMA = 1
_REBUILD = "build for it: name the card in target.gpus, then doit build"
_LINE = re.compile(r'\{"name": .*\}$')
_KIND_OF = {
    "find_package(Torch)": "import",
    ": import": "extensions",
    ": smoke check": "extensions",
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
    expected: Sequence[str], said: Mapping[str, Mapping[str, str]], ended: str
) -> list[Check]:
    """The probe's checks in its order. `ended` is why it stopped early, "" where it did not."""
    checks = [_check(said[name]) for name in expected if name in said]
    missing = [name for name in expected if name not in said]
    if not missing:
        return checks
    broken = next(
        (check for check in checks if check.status == "failed" and check.name == "import"), None
    )
    if broken:
        return [*checks, *(Check(name, "not run", "torch does not import") for name in missing)]
    first = Check(
        missing[0], "failed", ended or "the probe ended without a word on it", "see the log"
    )
    return [
        *checks,
        first,
        *(Check(name, "not run", "the probe ended before it") for name in missing[1:]),
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
        held = ", ".join(str(arch) for arch in sorted(code.cubins)) or "none"
        return Check(
            name,
            "failed",
            f"{source} holds no code for {', '.join(lacking)} (it has {held})",
            _REBUILD,
        )
    return Check(
        name, "passed", f"{source}: {', '.join(f'{target} {way}' for target, way in ways.items())}"
    )


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
    """The name in the settings (validation.checks) that `smoke: import` belongs to."""
    return next((of for ending, of in _KIND_OF.items() if name.endswith(ending)), name)


def validation(torch: str, checks: Sequence[Check]) -> Validation:
    """The manifest: every status has a count, also the ones that are zero."""
    numbers = Counter(check.status for check in checks)
    counts = {status: numbers[status] for status in ("passed", "failed", "not run")}
    return Validation(SCHEMA, torch, counts, tuple(checks))
