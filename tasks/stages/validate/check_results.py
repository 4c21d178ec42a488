"""What was found → checks.

Whatever did not report did not pass: a check at which its process ended has failed, and those that
nobody asked for after it were not run.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from xml.etree import ElementTree as ET

from tasks.core.model import Arch, ValidationResult
from tasks.core.text_layout import format_labeled_lines as laid_out
from tasks.knowledge import Knowledge
from tasks.knowledge.known_problems import find_run_failure
from tasks.knowledge.machine_code_rules import MachineCode, classify_compatibility
from tasks.stages.validate.model import Validation

SCHEMA = 2
_REBUILD_HINT = "build for it: name the card in target.gpus, then doit build"
_RESULT_LINE = re.compile(r'\{"name": .*\}$')
_CPU_CHECKS = ("import", "version")  # what a torch without CUDA can answer, too
_KIND_BY_SUFFIX = {
    "find_package(Torch)": "import",
    ": import": "extensions",
    ": smoke check": "extensions",
    ": built for this torch": "extensions",
    ": machine code": "machine_code",
}


def parse_probe_lines(lines: Iterable[str]) -> dict[str, Mapping[str, str]]:
    """Name → what the probe says of it. Lines that others printed in between are passed over."""
    found: dict[str, Mapping[str, str]] = {}
    for line in lines:
        if match := _RESULT_LINE.search(line):
            try:
                said = json.loads(match[0])
            except ValueError:
                continue
            found[said["name"]] = said
    return found


def build_probe_checks(
    expected: Sequence[str],
    said: Mapping[str, Mapping[str, str]],
    lost: Mapping[str, str],
    left: str,
) -> list[ValidationResult]:
    """The probe's checks in its order. `lost` are those at which a process ended, and how; `left`
    is why those that are missing besides were not run.
    """
    return [
        _build_check(said[name])
        if name in said
        else ValidationResult(name, "failed", lost[name])
        if name in lost
        else ValidationResult(name, "not run", left or "the probe ended before it")
        for name in expected
    ]


def _build_check(said: Mapping[str, str]) -> ValidationResult:
    match said["status"]:
        case "passed":
            return ValidationResult(said["name"], "passed", said["detail"])
        case "not run":
            return ValidationResult(said["name"], "not run", said["detail"])
    return ValidationResult(said["name"], "failed", said["detail"], said["remedy"])


def parse_arch_flags(flags: str) -> MachineCode:
    """What torch says it was compiled for: `sm_90 sm_120 compute_120`."""
    names = flags.split()
    return MachineCode(
        cubins=frozenset(Arch.parse_capability(name) for name in names if name.startswith("sm_")),
        ptx=frozenset(Arch.parse_capability(name) for name in names if name.startswith("compute_")),
    )


def check_coverage(  # noqa: PLR0913, PLR0917  (the whole question)
    knowledge: Knowledge,
    name: str,
    code: MachineCode,
    targets: Sequence[Arch],
    source: str,
    maker: str | None,
) -> ValidationResult:
    """Whether every target can run the `code` of `source`, and how: native, compatible or ptx.

    `maker` is the CUDA release that made it, None where that is not known.
    """
    if not targets:
        return ValidationResult(name, "not run", "no GPU target: this profile builds for the CPU")
    ways = {
        target: classify_compatibility(knowledge, code, target, maker=maker) for target in targets
    }
    if lacking := [str(target) for target, way in ways.items() if not way]:
        return ValidationResult(
            name,
            "failed",
            f"{source} holds no code for {', '.join(lacking)} (it has {_format_code_names(code)})",
            _REBUILD_HINT,
        )
    return ValidationResult(
        name, "passed", f"{source}: {', '.join(f'{target} {way}' for target, way in ways.items())}"
    )


def _format_code_names(code: MachineCode) -> str:
    return ", ".join(code.names) or "none"


def fail_without_cuda(
    checks: Iterable[ValidationResult], wanted: str, again: str
) -> list[ValidationResult]:
    """What the checks of a torch that was built without CUDA come to where one for CUDA `wanted`
    was installed. That has failed, asked for or not: what such a torch does on the CPU proves
    nothing of a card.
    """
    what = f"this torch is for the CPU, and one for CUDA {wanted} was installed"
    remedy = f"another torch was installed over it: {again} puts it back"
    failed = ValidationResult("cuda", "failed", what, remedy, "cpu-only-torch")
    return [failed, *(_adjust_for_cpu(check, failed) for check in checks if check.name != "cuda")]


def _adjust_for_cpu(check: ValidationResult, failed: ValidationResult) -> ValidationResult:
    if check.name == "archs":
        return replace(failed, name="archs")
    if check.name not in _CPU_CHECKS and not check.name.endswith(": import"):
        return ValidationResult(check.name, "not run", "this torch is for the CPU")
    return replace(check, remedy=failed.remedy) if check.status == "failed" else check


def check_abi_match(name: str, built: str, now: str, again: str) -> ValidationResult:
    """Whether an extension was built for the torch that is there, by the names of their
    surfaces.
    """
    what = f"{name}: built for this torch"
    if built == now:
        return ValidationResult(what, "passed", f"torch surface {now}")
    return ValidationResult(
        what,
        "failed",
        f"it was built for torch surface {built}, and the torch here is {now}",
        f"{again} builds it again",
    )


def add_diagnosis(
    knowledge: Knowledge, check: ValidationResult, said: str = ""
) -> ValidationResult:
    """A failed check with its cause, where that is known, and with the remedy of it, where it has
    none of its own. `said` is all that was printed: what the check itself tells counts more.
    """
    if check.status != "failed" or check.cause:
        return check
    known = find_run_failure(knowledge, check.detail) or find_run_failure(knowledge, said)
    if known is None:
        return check
    remedy = check.remedy or f"{known.cause}: {known.remedy}"
    return replace(check, cause=known.slug, remedy=remedy)


def combine_checks(name: str, parts: Sequence[ValidationResult]) -> ValidationResult:
    """Several libraries as one check: failed where one failed, passed where one passed."""
    for status in ("failed", "passed", "not run"):
        those = [part for part in parts if part.status == status]
        if those:
            remedy = next((part.remedy for part in those if part.remedy), "")
            return ValidationResult(
                name, those[0].status, "; ".join(part.detail for part in those), remedy
            )
    return ValidationResult(name, "not run", "there is nothing to look at")


def select_checks(
    checks: Iterable[ValidationResult], names: Sequence[str]
) -> tuple[ValidationResult, ...]:
    """Those that the settings name, in that order; and what failed on the way to them."""
    order = {name: number for number, name in enumerate(names)}
    chosen = [
        check for check in checks if classify_check(check.name) in order or check.status == "failed"
    ]
    return tuple(sorted(chosen, key=lambda check: order.get(classify_check(check.name), -1)))


def classify_check(name: str) -> str:
    """The name in the settings (validation.only) that `smoke: import` belongs to."""
    return next((of for ending, of in _KIND_BY_SUFFIX.items() if name.endswith(ending)), name)


def build_validation(
    torch: str, checks: Sequence[ValidationResult], warnings: tuple[str, ...] = ()
) -> Validation:
    """The manifest: every status has a count, also the ones that are zero."""
    numbers = Counter(check.status for check in checks)
    counts = {status: numbers[status] for status in ("passed", "failed", "not run")}
    return Validation(SCHEMA, torch, counts, tuple(checks), warnings)


MAX_HANGS = 2  # of one card are enough
_FIRST_LINES = ("import", "gpu", "archs")  # what each process says before it makes a check
GPU_HUNG = "the card hung before"
EXIT_CHECK = "exit"  # the name of what happens after the last check


@dataclass(frozen=True)
class ProbeRun:
    """One process: all that it printed, and how it ended ("" where it ended well)."""

    lines: tuple[str, ...]
    failure: str = ""
    hung: bool = False


@dataclass(frozen=True)
class ProbeCrash:
    """How a process ended at a check, and all that it printed."""

    detail: str
    output: str


@dataclass(frozen=True)
class ProbeOutput:
    """What was reported, by name, and which checks ended their process; `hung` of them took too
    long. `left` is why those that are missing were not asked for again.
    """

    lines: Mapping[str, Mapping[str, str]]
    crashes: Mapping[str, ProbeCrash] = field(default_factory=dict)
    stop_reason: str = ""
    hung: int = 0

    @property
    def no_gpu_reason(self) -> str | None:
        """Why there is no card to try, "" where there is one, None where that was not told."""
        return self.lines["gpu"]["detail"] if "gpu" in self.lines else None


def collect_probe_output(
    once: Callable[[Sequence[str]], ProbeRun], checks: Sequence[str]
) -> ProbeOutput:
    """Every check of the program in its order, by as many processes as that takes. `once` is given
    the checks that are to be made.
    """
    lines: dict[str, Mapping[str, str]] = {}
    lost: dict[str, ProbeCrash] = {}
    hung, left = 0, list(checks)
    while True:
        run = once(left)
        now = parse_probe_lines(run.lines)
        lines.update(now)
        at = next((name for name in (*_FIRST_LINES, *left) if name not in now), None)
        no_torch = lines.get("import", {}).get("status") == "failed" or at == "import"
        if at is not None and not (no_torch and "import" in now):
            lost[at] = ProbeCrash(
                run.failure or "it ended without a word on it", "\n".join(run.lines)
            )
            hung += run.hung
        elif run.failure and at is None:
            lost[EXIT_CHECK] = ProbeCrash(run.failure, "\n".join(run.lines))
        left = left[left.index(at) + 1 :] if at in left else []
        if no_torch:
            return ProbeOutput(lines, lost, "torch does not import", hung)
        if at in _FIRST_LINES or hung >= MAX_HANGS:
            return ProbeOutput(
                lines, lost, GPU_HUNG if hung else "the card could not be asked", hung
            )
        if not left:
            return ProbeOutput(lines, lost, "", hung)


_STYLES = {"passed": "32", "failed": "1;31", "not run": "33", "warning": "1;33"}
_STATUS, _GAP = 9, 2  # columns of the status, and between name and detail
Paint = Callable[[str, str], str]


def _paint_nothing(text: str, style: str) -> str:
    return text


def shorten_paths(root: PurePath, found: Validation) -> Validation:
    """With each path in the folder `root` from there on: a whole one is wider than a terminal."""
    begin = re.compile(rf"""(?:^|(?<=[\s"'(=:,;])){re.escape(str(root))}[/\\](?=\S)""")

    def remove_root(text: str) -> str:
        return begin.sub("", text)

    checks = (
        replace(one, detail=remove_root(one.detail), remedy=remove_root(one.remedy))
        for one in found.checks
    )
    return replace(found, checks=tuple(checks), warnings=tuple(map(remove_root, found.warnings)))


def format_validation(
    found: Validation, room: int = sys.maxsize, paint: Paint = _paint_nothing
) -> str:
    """What puts all of it in doubt; then a line a check: status, name, detail, and below a failure
    what to do. Each goes on below itself where `room` is short; `paint` colours a status.
    """
    doubts = (
        line
        for warning in found.warnings
        for line in _format_status_lines("warning", "warning", warning, (_STATUS, room), paint)
    )
    return "\n".join(
        [*doubts, *format_check_rows(found.checks, room, paint), format_summary(found)]
    )


def format_check_rows(
    checks: Sequence[ValidationResult], room: int = sys.maxsize, paint: Paint = _paint_nothing
) -> list[str]:
    """The lines of the checks alone."""
    width = min(max((len(check.name) for check in checks), default=0), max(room // 3, _STATUS))
    return [line for check in checks for line in _format_check(check, width, room, paint)]


def _format_check(check: ValidationResult, width: int, room: int, paint: Paint) -> Iterator[str]:
    indent = _STATUS + width + _GAP
    key = f"{check.status:<{_STATUS}}{check.name:<{width}}"
    yield from _format_status_lines(check.status, key.rstrip(), check.detail, (indent, room), paint)
    if check.remedy:
        yield from laid_out(f"{'':{indent}}→ ", check.remedy, indent + 2, room)


def _format_status_lines(
    status: str, key: str, text: str, place: tuple[int, int], paint: Paint
) -> Iterator[str]:
    first, *more = laid_out(key, text, *place)
    yield f"{paint(status, _STYLES[status])}{first.removeprefix(status)}"
    yield from more


def format_summary(found: Validation) -> str:
    """`torch 2.15.0+cu132: 9 passed, 0 failed, 3 not run`."""
    return f"torch {found.torch}: " + ", ".join(
        f"{number} {status}" for status, number in found.counts.items()
    )


def join_hints(failed: Sequence[ValidationResult]) -> str:
    """What to do about the failures, each thing once."""
    return "; ".join(dict.fromkeys(check.remedy for check in failed if check.remedy))


_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def format_junit(profile: str, found: Validation) -> str:
    """The report: a failure holds what to do as its text, what was not run the reason."""
    counts = {
        "tests": len(found.checks),
        "failures": found.counts["failed"],
        "errors": 0,
        "skipped": found.counts["not run"],
    }
    numbers = {name: str(number) for name, number in counts.items()}
    root = ET.Element("testsuites", {"name": "doit validate", **numbers})
    suite = ET.SubElement(root, "testsuite", {"name": f"torchyard.{profile}", **numbers})
    properties = ET.SubElement(suite, "properties")
    for name, value in (("profile", profile), ("torch", found.torch)):
        ET.SubElement(
            properties, "property", {"name": name, "value": _remove_invalid_characters(value)}
        )
    for check in found.checks:
        _add_testcase(suite, profile, check)
    if found.warnings:
        ET.SubElement(suite, "system-err").text = _remove_invalid_characters(
            "\n".join(found.warnings)
        )
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _add_testcase(suite: ET.Element, profile: str, check: ValidationResult) -> None:
    where = {"classname": f"torchyard.{profile}", "name": _remove_invalid_characters(check.name)}
    case = ET.SubElement(suite, "testcase", where)
    match check.status:
        case "passed":
            ET.SubElement(case, "system-out").text = _remove_invalid_characters(check.detail)
        case "not run":
            ET.SubElement(case, "skipped", {"message": _remove_invalid_characters(check.detail)})
        case "failed":
            told = {
                "message": _remove_invalid_characters(check.detail),
                "type": check.cause or "failed",
            }
            ET.SubElement(case, "failure", told).text = _remove_invalid_characters(check.remedy)


def _remove_invalid_characters(text: str) -> str:
    """Without what no XML file may hold, such as the colours of a terminal."""
    return _NOT_XML.sub("", text)
