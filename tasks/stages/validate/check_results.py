"""Turn the output of the probe and of other checks into results, and format them."""

import contextlib
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePath
from xml.etree import ElementTree as ET

from tasks.core.model import Arch, CheckStatus, ValidationResult
from tasks.core.text_layout import format_labeled_lines
from tasks.diagnosis.diagnosis_text import fill_remedy
from tasks.knowledge import Knowledge
from tasks.knowledge.known_problems import find_run_failure
from tasks.knowledge.machine_code_rules import MachineCode, classify_compatibility
from tasks.stages.validate.model import Validation

NO_CUDA = "torch without CUDA"  # the probe reports the same text
NO_TARGET = "no GPU target: this profile builds for the CPU"
GPU_HUNG = "the GPU hung in an earlier check"
EXIT_CHECK = "exit"  # the check for a failure after the last check
MAX_HANGS = 2  # after this many hangs of the GPU, the remaining checks are not run
_RESULT_LINE = re.compile(r'\{"name": .*\}$')
_FIRST_LINES = ("import", "gpu", "archs")  # each process reports these before its checks
_CPU_CHECKS = ("import", "version")  # checks that also apply to a torch without CUDA
_PROBE_STATUSES: dict[str, CheckStatus] = {"passed": "passed", "not run": "not run"}
_KIND_BY_SUFFIX = {
    "find_package(Torch)": "import",
    ": import": "extensions",
    ": smoke check": "extensions",
    ": built for this torch": "extensions",
    ": machine code": "machine_code",
}


@dataclass(frozen=True)
class ProbeRun:
    """A finished process of the probe. `failure` is "" for a normal end. `hung` means a timeout."""

    lines: tuple[str, ...]
    failure: str = ""
    hung: bool = False


@dataclass(frozen=True)
class ProbeOutput:
    """The output of all processes of the probe.

    `lines` has the result of each check, `crashes` the process of each check that ended early.
    `hung` is the number of timeouts. `stop_reason` says why checks were not run.
    """

    lines: Mapping[str, Mapping[str, str]]
    crashes: Mapping[str, ProbeRun] = field(default_factory=dict)
    stop_reason: str = ""
    hung: int = 0

    @property
    def no_gpu_reason(self) -> str | None:
        """Why there is no GPU, or "" if there is one; None if the probe ended too early."""
        return self.lines["gpu"]["detail"] if "gpu" in self.lines else None


def parse_probe_lines(lines: Iterable[str]) -> dict[str, Mapping[str, str]]:
    """Return the probe's result lines by check name; lines of other programs are skipped."""
    results: dict[str, Mapping[str, str]] = {}
    for match in filter(None, map(_RESULT_LINE.search, lines)):
        with contextlib.suppress(ValueError):
            fields = json.loads(match[0])
            results[fields["name"]] = fields
    return results


def collect_probe_output(
    run_process: Callable[[Sequence[str]], ProbeRun], checks: Sequence[str]
) -> ProbeOutput:
    """Run the checks in order. After a crash, a new process runs the remaining checks."""
    lines: dict[str, Mapping[str, str]] = {}
    crashes: dict[str, ProbeRun] = {}
    hung, remaining = 0, list(checks)
    while True:
        run = run_process(remaining)
        results = parse_probe_lines(run.lines)
        lines.update(results)
        missing = next((name for name in (*_FIRST_LINES, *remaining) if name not in results), None)
        no_torch = lines.get("import", {}).get("status") == "failed" or missing == "import"
        if missing is not None and not (no_torch and "import" in results):
            failure = run.failure or "the check program ended without a result"
            crashes[missing] = replace(run, failure=failure)
            hung += run.hung
        elif run.failure and missing is None:
            crashes[EXIT_CHECK] = run
        remaining = remaining[remaining.index(missing) + 1 :] if missing in remaining else []
        if no_torch:
            return ProbeOutput(lines, crashes, "torch does not import", hung)
        if missing in _FIRST_LINES or hung >= MAX_HANGS:
            reason = GPU_HUNG if hung else "the search for a GPU failed"
            return ProbeOutput(lines, crashes, reason, hung)
        if not remaining:
            return ProbeOutput(lines, crashes, "", hung)


def build_probe_check(name: str, output: ProbeOutput) -> ValidationResult:
    """Return the result of one check. If the probe crashed or hung in it, the check has failed."""
    if line := output.lines.get(name):
        status = _PROBE_STATUSES.get(line["status"], "failed")
        return ValidationResult(name, status, line["detail"], line["remedy"])
    if crash := output.crashes.get(name):
        return ValidationResult(name, "failed", crash.failure)
    reason = output.stop_reason or "the check program ended before this check"
    return ValidationResult(name, "not run", reason)


def parse_arch_flags(flags: str) -> MachineCode:
    """Return the machine code in torch's arch flags, such as `sm_90 sm_120 compute_120`."""
    cubins, ptx = (
        frozenset(Arch.parse_capability(name) for name in flags.split() if name.startswith(prefix))
        for prefix in ("sm_", "compute_")
    )
    return MachineCode(cubins, ptx)


def check_coverage(  # noqa: PLR0913, PLR0917
    knowledge: Knowledge,
    name: str,
    code: MachineCode,
    targets: Sequence[Arch],
    source: str,
    maker: str | None,
) -> ValidationResult:
    """Check that `code` runs on every target, and report how: native, compatible or ptx.

    `source` is the name for messages. `maker` is the CUDA release that compiled the code, if known.
    """
    if not targets:
        return ValidationResult(name, "not run", NO_TARGET)
    coverage = {
        target: classify_compatibility(knowledge, code, target, maker=maker) for target in targets
    }
    if missing := [str(target) for target, support in coverage.items() if not support]:
        archs = ", ".join(code.names) or "none"
        detail = f"{source} holds no code for {', '.join(missing)} (it has {archs})"
        remedy = "add the GPU to target.gpus, then run doit build"
        return ValidationResult(name, "failed", detail, remedy)
    supports = ", ".join(f"{target} {support}" for target, support in coverage.items())
    return ValidationResult(name, "passed", f"{source}: {supports}")


def fail_without_cuda(
    checks: Iterable[ValidationResult], cuda: str, build_command: str
) -> list[ValidationResult]:
    """Return the checks of a torch without CUDA, installed in place of one for CUDA `cuda`.

    The checks "cuda" and "archs" fail; other checks that need CUDA become "not run".
    """
    detail = f"torch has no CUDA: another installation replaced the torch for CUDA {cuda}"
    remedy = f"install torch again: {build_command}"
    failure = ValidationResult("cuda", "failed", detail, remedy, "cpu-only-torch")

    def adjust(check: ValidationResult) -> ValidationResult:
        if check.name == "archs":
            return replace(failure, name="archs")
        if check.name not in _CPU_CHECKS and not check.name.endswith(": import"):
            return ValidationResult(check.name, "not run", NO_CUDA)
        return replace(check, remedy=remedy) if check.status == "failed" else check

    return [failure, *(adjust(check) for check in checks if check.name != "cuda")]


def add_diagnosis(
    knowledge: Knowledge, check: ValidationResult, output: str = ""
) -> ValidationResult:
    """Add the known cause to a failed check, and a hint if the check has none."""
    if check.status != "failed" or check.cause:
        return check
    failure = find_run_failure(knowledge, check.detail) or find_run_failure(knowledge, output)
    if failure is None:
        return check
    remedy = check.remedy or f"{failure.cause}: {fill_remedy(failure)}"
    return replace(check, cause=failure.slug, remedy=remedy)


def combine_checks(name: str, parts: Sequence[ValidationResult]) -> ValidationResult:
    """Combine checks: failed if any failed, else passed if any passed, else not run."""
    for status in ("failed", "passed", "not run"):
        if matches := [part for part in parts if part.status == status]:
            detail = "; ".join(part.detail for part in matches)
            remedy = next((part.remedy for part in matches if part.remedy), "")
            return ValidationResult(name, matches[0].status, detail, remedy)
    return ValidationResult(name, "not run", "the package contains no library to check")


def select_checks(
    checks: Iterable[ValidationResult], names: Sequence[str]
) -> tuple[ValidationResult, ...]:
    """Return the checks in `names`, in that order, after all other failed checks."""

    def find_place(check: ValidationResult) -> int:
        suffixes = _KIND_BY_SUFFIX.items()
        kind = next((kind for end, kind in suffixes if check.name.endswith(end)), check.name)
        return names.index(kind) if kind in names else -1

    selected = (check for check in checks if find_place(check) >= 0 or check.status == "failed")
    return tuple(sorted(selected, key=find_place))


def build_validation(
    torch: str, checks: Sequence[ValidationResult], warnings: tuple[str, ...] = ()
) -> Validation:
    """Return the content of validate.json, including the number of checks by status."""
    numbers = Counter(check.status for check in checks)
    counts = {status: numbers[status] for status in ("passed", "failed", "not run")}
    return Validation(2, torch, counts, tuple(checks), warnings)


_STYLES = {"passed": "32", "failed": "1;31", "not run": "33", "warning": "1;33"}
_STATUS, _GAP = 9, 2  # columns of the status, and between name and detail
Paint = Callable[[str, str], str]


def shorten_paths(root: PurePath, validation: Validation) -> Validation:
    """Return the validation with paths relative to `root` in all texts."""
    prefix_pattern = re.compile(rf"""(?:^|(?<=[\s"'(=:,;])){re.escape(str(root))}[/\\](?=\S)""")
    remove_root = partial(prefix_pattern.sub, "")
    checks = (
        replace(check, detail=remove_root(check.detail), remedy=remove_root(check.remedy))
        for check in validation.checks
    )
    warnings = tuple(map(remove_root, validation.warnings))
    return replace(validation, checks=tuple(checks), warnings=warnings)


def format_validation(
    validation: Validation, columns: int = sys.maxsize, paint: Paint = lambda text, _: text
) -> str:
    """Return the warnings, a row for each check, and the number of checks by status.

    Lines are wrapped at `columns`. `paint` adds the colour of a status to a text.
    """
    lines = [
        line
        for warning in validation.warnings
        for line in _format_row("warning", "warning", warning, (_STATUS, columns), paint)
    ]
    counts = ", ".join(f"{number} {status}" for status, number in validation.counts.items())
    lines += format_check_rows(validation.checks, columns, paint)
    return "\n".join([*lines, f"torch {validation.torch}: {counts}"])


def format_check_rows(
    checks: Sequence[ValidationResult],
    columns: int = sys.maxsize,
    paint: Paint = lambda text, _: text,
) -> list[str]:
    """Return a row for each check. Checks that were not run for the same reason share a row."""
    rows: dict[str | int, list[ValidationResult]] = {}
    for number, check in enumerate(checks):
        rows.setdefault(check.detail if check.status == "not run" else number, []).append(check)
    widths = (len(first.name) for first, *others in rows.values() if not others)
    width = min(max(widths, default=0), max(columns // 3, _STATUS))
    indent = _STATUS + width + _GAP
    lines: list[str] = []
    for check, *others in rows.values():
        if others:
            names = ", ".join(one.name for one in (check, *others))
            text, place = f"({check.detail}): {names}", (len("not run "), columns)
            lines += _format_row("not run", "not run", text, place, paint)
            continue
        key = f"{check.status:<{_STATUS}}{check.name:<{width}}".rstrip()
        lines += _format_row(check.status, key, check.detail, (indent, columns), paint)
        if check.remedy:
            lines += format_labeled_lines(f"{'':{indent}}→ ", check.remedy, indent + 2, columns)
    return lines


def _format_row(
    status: str, key: str, text: str, place: tuple[int, int], paint: Paint
) -> Iterator[str]:
    first_line, *other_lines = format_labeled_lines(key, text, *place)
    yield f"{paint(status, _STYLES[status])}{first_line.removeprefix(status)}"
    yield from other_lines


def join_hints(failed: Sequence[ValidationResult]) -> str:
    """Return the hints of the failures, without duplicates."""
    return "; ".join(dict.fromkeys(check.remedy for check in failed if check.remedy))


_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def format_junit(profile: str, validation: Validation) -> str:
    """Return the JUnit report, with hints as failure texts and reasons as skip messages."""
    counts = validation.counts
    numbers = {"tests": str(len(validation.checks)), "failures": str(counts["failed"])}
    numbers |= {"errors": "0", "skipped": str(counts["not run"])}
    root = ET.Element("testsuites", {"name": "doit validate", **numbers})
    suite = ET.SubElement(root, "testsuite", {"name": f"torchyard.{profile}", **numbers})
    properties = ET.SubElement(suite, "properties")
    for name, value in (("profile", profile), ("torch", validation.torch)):
        ET.SubElement(properties, "property", {"name": name, "value": value})
    for check in validation.checks:
        identity = {"classname": suite.attrib["name"], "name": check.name}
        testcase = ET.SubElement(suite, "testcase", identity)
        match check.status:
            case "passed":
                ET.SubElement(testcase, "system-out").text = check.detail
            case "not run":
                ET.SubElement(testcase, "skipped", {"message": check.detail})
            case "failed":
                attributes = {"message": check.detail, "type": check.cause or "failed"}
                ET.SubElement(testcase, "failure", attributes).text = check.remedy
    if validation.warnings:
        ET.SubElement(suite, "system-err").text = "\n".join(validation.warnings)
    ET.indent(root)
    text = _NOT_XML.sub("", ET.tostring(root, encoding="unicode"))
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'
