"""Turn the output of the probe and of other checks into results, and format them.

A check without a report has not passed: a check during which the process ended has failed, and
checks that were not requested again after it were not run.
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
_CPU_CHECKS = ("import", "version")  # checks that also apply to a torch without CUDA
_KIND_BY_SUFFIX = {
    "find_package(Torch)": "import",
    ": import": "extensions",
    ": smoke check": "extensions",
    ": built for this torch": "extensions",
    ": machine code": "machine_code",
}


def parse_probe_lines(lines: Iterable[str]) -> dict[str, Mapping[str, str]]:
    """Return the probe's result lines by check name; lines of other programs are skipped."""
    results: dict[str, Mapping[str, str]] = {}
    for line in lines:
        if match := _RESULT_LINE.search(line):
            try:
                fields = json.loads(match[0])
            except ValueError:
                continue
            results[fields["name"]] = fields
    return results


def build_probe_checks(
    expected: Sequence[str],
    said: Mapping[str, Mapping[str, str]],
    lost: Mapping[str, str],
    left: str,
) -> list[ValidationResult]:
    """Return the results of the probe's checks, in its order.

    `lost` are checks during which a process ended, and how it ended. `left` is the reason for other
    missing checks.
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
    """Return the machine code in torch's arch flags, such as `sm_90 sm_120 compute_120`."""
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
    """Check that the `code` of `source` runs on every target, and how: native, compatible or ptx.

    `maker` is the CUDA release that compiled it, or None if unknown.
    """
    if not targets:
        return ValidationResult(name, "not run", "no GPU target: this profile builds for the CPU")
    coverage = {
        target: classify_compatibility(knowledge, code, target, maker=maker) for target in targets
    }
    if missing := [str(target) for target, support in coverage.items() if not support]:
        return ValidationResult(
            name,
            "failed",
            f"{source} holds no code for {', '.join(missing)} (it has {_format_code_names(code)})",
            _REBUILD_HINT,
        )
    return ValidationResult(
        name,
        "passed",
        f"{source}: {', '.join(f'{target} {support}' for target, support in coverage.items())}",
    )


def _format_code_names(code: MachineCode) -> str:
    return ", ".join(code.names) or "none"


def fail_without_cuda(
    checks: Iterable[ValidationResult], wanted: str, again: str
) -> list[ValidationResult]:
    """Return the results for a torch without CUDA that replaced one for CUDA `wanted`.

    The check `cuda` fails even if it was not requested: results on the CPU prove nothing about a
    GPU.
    """
    detail = f"this torch is for the CPU, and one for CUDA {wanted} was installed"
    remedy = f"another torch was installed over it: {again} puts it back"
    failure = ValidationResult("cuda", "failed", detail, remedy, "cpu-only-torch")
    return [failure, *(_adjust_for_cpu(check, failure) for check in checks if check.name != "cuda")]


def _adjust_for_cpu(check: ValidationResult, failed: ValidationResult) -> ValidationResult:
    if check.name == "archs":
        return replace(failed, name="archs")
    if check.name not in _CPU_CHECKS and not check.name.endswith(": import"):
        return ValidationResult(check.name, "not run", "this torch is for the CPU")
    return replace(check, remedy=failed.remedy) if check.status == "failed" else check


def check_abi_match(name: str, built: str, now: str, again: str) -> ValidationResult:
    """Check by the ABI fingerprints that an extension was built for the installed torch."""
    title = f"{name}: built for this torch"
    if built == now:
        return ValidationResult(title, "passed", f"torch surface {now}")
    return ValidationResult(
        title,
        "failed",
        f"it was built for torch surface {built}, and the torch here is {now}",
        f"{again} builds it again",
    )


def add_diagnosis(
    knowledge: Knowledge, check: ValidationResult, said: str = ""
) -> ValidationResult:
    """Add the known cause to a failed check, and a hint if it has none.

    `said` is the whole output of the check; its detail is searched first.
    """
    if check.status != "failed" or check.cause:
        return check
    failure = find_run_failure(knowledge, check.detail) or find_run_failure(knowledge, said)
    if failure is None:
        return check
    remedy = check.remedy or f"{failure.cause}: {failure.remedy}"
    return replace(check, cause=failure.slug, remedy=remedy)


def combine_checks(name: str, parts: Sequence[ValidationResult]) -> ValidationResult:
    """Combine several libraries into one check: failed if one failed, passed if one passed."""
    for status in ("failed", "passed", "not run"):
        matches = [part for part in parts if part.status == status]
        if matches:
            remedy = next((part.remedy for part in matches if part.remedy), "")
            return ValidationResult(
                name, matches[0].status, "; ".join(part.detail for part in matches), remedy
            )
    return ValidationResult(name, "not run", "there is nothing to look at")


def select_checks(
    checks: Iterable[ValidationResult], names: Sequence[str]
) -> tuple[ValidationResult, ...]:
    """Return the checks that the settings name, in that order, and every failed check."""
    order = {name: number for number, name in enumerate(names)}
    selected = [
        check for check in checks if classify_check(check.name) in order or check.status == "failed"
    ]
    return tuple(sorted(selected, key=lambda check: order.get(classify_check(check.name), -1)))


def classify_check(name: str) -> str:
    """Return the name in the settings (validation.only) for a check such as `smoke: import`."""
    return next((kind for ending, kind in _KIND_BY_SUFFIX.items() if name.endswith(ending)), name)


def build_validation(
    torch: str, checks: Sequence[ValidationResult], warnings: tuple[str, ...] = ()
) -> Validation:
    """Return the manifest; every status has a count, also a zero."""
    numbers = Counter(check.status for check in checks)
    counts = {status: numbers[status] for status in ("passed", "failed", "not run")}
    return Validation(SCHEMA, torch, counts, tuple(checks), warnings)


MAX_HANGS = 2  # of the GPU, then the other checks are not run
_FIRST_LINES = ("import", "gpu", "archs")  # each process reports these before its checks
GPU_HUNG = "the card hung before"
EXIT_CHECK = "exit"  # the check for a failure after the last check


@dataclass(frozen=True)
class ProbeRun:
    """One process: its output lines, its failure ("" if it ended normally), and whether it hung."""

    lines: tuple[str, ...]
    failure: str = ""
    hung: bool = False


@dataclass(frozen=True)
class ProbeCrash:
    """How a process ended during a check, and its output."""

    detail: str
    output: str


@dataclass(frozen=True)
class ProbeOutput:
    """The reported lines by name, and the checks during which a process ended.

    `hung` is how many of these took too long. `stop_reason` is why the missing checks were not run.
    """

    lines: Mapping[str, Mapping[str, str]]
    crashes: Mapping[str, ProbeCrash] = field(default_factory=dict)
    stop_reason: str = ""
    hung: int = 0

    @property
    def no_gpu_reason(self) -> str | None:
        """Why there is no GPU, "" if there is one, or None if it was not reported."""
        return self.lines["gpu"]["detail"] if "gpu" in self.lines else None


def collect_probe_output(
    once: Callable[[Sequence[str]], ProbeRun], checks: Sequence[str]
) -> ProbeOutput:
    """Run every check in order, with a new process after each crash.

    `once` runs one process with the given checks.
    """
    lines: dict[str, Mapping[str, str]] = {}
    crashes: dict[str, ProbeCrash] = {}
    hung, remaining = 0, list(checks)
    while True:
        run = once(remaining)
        results = parse_probe_lines(run.lines)
        lines.update(results)
        missing = next((name for name in (*_FIRST_LINES, *remaining) if name not in results), None)
        no_torch = lines.get("import", {}).get("status") == "failed" or missing == "import"
        if missing is not None and not (no_torch and "import" in results):
            crashes[missing] = ProbeCrash(
                run.failure or "it ended without a word on it", "\n".join(run.lines)
            )
            hung += run.hung
        elif run.failure and missing is None:
            crashes[EXIT_CHECK] = ProbeCrash(run.failure, "\n".join(run.lines))
        remaining = remaining[remaining.index(missing) + 1 :] if missing in remaining else []
        if no_torch:
            return ProbeOutput(lines, crashes, "torch does not import", hung)
        if missing in _FIRST_LINES or hung >= MAX_HANGS:
            return ProbeOutput(
                lines, crashes, GPU_HUNG if hung else "the card could not be asked", hung
            )
        if not remaining:
            return ProbeOutput(lines, crashes, "", hung)


_STYLES = {"passed": "32", "failed": "1;31", "not run": "33", "warning": "1;33"}
_STATUS, _GAP = 9, 2  # columns of the status, and between name and detail
Paint = Callable[[str, str], str]


def _paint_nothing(text: str, style: str) -> str:
    return text


def shorten_paths(root: PurePath, found: Validation) -> Validation:
    """Return the validation with paths in the folder `root` made relative, to fit a terminal."""
    prefix_pattern = re.compile(rf"""(?:^|(?<=[\s"'(=:,;])){re.escape(str(root))}[/\\](?=\S)""")

    def remove_root(text: str) -> str:
        return prefix_pattern.sub("", text)

    checks = (
        replace(check, detail=remove_root(check.detail), remedy=remove_root(check.remedy))
        for check in found.checks
    )
    return replace(found, checks=tuple(checks), warnings=tuple(map(remove_root, found.warnings)))


def format_validation(
    found: Validation, room: int = sys.maxsize, paint: Paint = _paint_nothing
) -> str:
    """Format the warnings, one row for each check, and the summary.

    A row has status, name and detail, and below a failure the hint. Rows are wrapped at `room`
    columns; `paint` colours a status.
    """
    warnings = (
        line
        for warning in found.warnings
        for line in _format_status_lines("warning", "warning", warning, (_STATUS, room), paint)
    )
    return "\n".join(
        [*warnings, *format_check_rows(found.checks, room, paint), format_summary(found)]
    )


def format_check_rows(
    checks: Sequence[ValidationResult], room: int = sys.maxsize, paint: Paint = _paint_nothing
) -> list[str]:
    """Return the rows of the checks, without warnings and summary."""
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
    """Return the summary, such as `torch 2.15.0+cu132: 9 passed, 0 failed, 3 not run`."""
    return f"torch {found.torch}: " + ", ".join(
        f"{number} {status}" for status, number in found.counts.items()
    )


def join_hints(failed: Sequence[ValidationResult]) -> str:
    """Return the hints of the failures, without duplicates."""
    return "; ".join(dict.fromkeys(check.remedy for check in failed if check.remedy))


_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def format_junit(profile: str, found: Validation) -> str:
    """Return the JUnit report: the hint as text of a failure, the reason as message of a skip."""
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
    identity = {"classname": f"torchyard.{profile}", "name": _remove_invalid_characters(check.name)}
    case = ET.SubElement(suite, "testcase", identity)
    match check.status:
        case "passed":
            ET.SubElement(case, "system-out").text = _remove_invalid_characters(check.detail)
        case "not run":
            ET.SubElement(case, "skipped", {"message": _remove_invalid_characters(check.detail)})
        case "failed":
            attributes = {
                "message": _remove_invalid_characters(check.detail),
                "type": check.cause or "failed",
            }
            ET.SubElement(case, "failure", attributes).text = _remove_invalid_characters(
                check.remedy
            )


def _remove_invalid_characters(text: str) -> str:
    """Remove the characters that XML does not allow, such as terminal colour codes."""
    return _NOT_XML.sub("", text)
