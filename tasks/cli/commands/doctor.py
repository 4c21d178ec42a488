"""`doit doctor`: find what could stop this profile on this machine before anything is built.

Only `--accept` changes anything: it pins the GPUs and toolkits that are present now. The network is
used only to test whether hosts accept a connection. A build runs the quick part (some milliseconds)
before it writes anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from tasks.core.canonical_json import format_canonical_json
from tasks.core.check_ids import ALL_CHECK_IDS, GATE_CHECK_IDS, CheckId
from tasks.core.errors import TorchyardError, redact_secrets
from tasks.core.model import Host
from tasks.core.text_layout import format_labeled_lines, wrap_text
from tasks.doctor.check_result import CheckResult, Level, report_ok, report_problem
from tasks.doctor.examine_host import build_probe_request, check_host
from tasks.doctor.host_facts_io import read_host_facts
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.planning.profile_plan import build_layout
from tasks.system import screen
from tasks.system.files import write_user_file
from tasks.system.hardware import host_probe
from tasks.system.output import print_report, print_warning
from tasks.system.profile_hint import add_profile_argument

_LEVEL_MARKS = {"problem": "PROBLEM"}  # in capitals: must not be overlooked
_FINDING_INDENT = 28  # columns before the finding


def format_check_table(found: Iterable[CheckResult], columns: int) -> Iterator[str]:
    """Yield a line per check result, wrapped at `columns`.

    Commands are not wrapped, so that they can be copied.
    """
    width = max(columns - _FINDING_INDENT, 30)
    before = ""
    for symptom in found:
        name = symptom.id if symptom.id != before or symptom.level != "ok" else ""
        before = symptom.id
        note = f" [{symptom.known}]" if symptom.known else ""
        key = f"{_LEVEL_MARKS.get(symptom.level, symptom.level):<12} {name:<14}"
        yield from format_labeled_lines(
            key, f"{symptom.seen}{note}", _FINDING_INDENT, width + _FINDING_INDENT
        )
        yield from _format_hint(symptom.todo, width - 2)


def _format_hint(todo: str, room: int) -> Iterator[str]:
    mark = "→ "
    for line in todo.splitlines():
        pieces = [line.strip()] if line.startswith("  ") else wrap_text(line, room)
        for piece in pieces:
            yield f"{'':{_FINDING_INDENT}}{mark}{piece}"
            mark = "  "


_MAX_TABLE_WIDTH = 120
_MANDATORY_CHECKS: frozenset[CheckId] = frozenset(
    {"compiler", "git"}
)  # stages cannot run without them


def run(
    subject: SelectedProfile, json: str = "", accept: bool = False, verbose: bool = False
) -> None:
    """Print the settings, a line per finding, and the checks that passed in one line.

    With `verbose`, print a line per check. Raises `TorchyardError` if there is a problem.
    """
    if accept and _accept_host(subject) and not subject.opened:
        hint = add_profile_argument("look again with doit doctor", subject.name)
        print_report(f"{subject.name} did not open with what was pinned: {hint}")
        return
    results = run_host_checks(subject)
    problems, counts = _filter_by_level(results, "problem"), _format_level_counts(results)
    if json:
        document = {"profile": subject.name, "found": results, "problems": len(problems)}
        write_user_file(Path(json), redact_secrets(format_canonical_json(document)))
    findings = {found.id for found in results if found.level != "ok"} | {"settings"}
    shown = [found for found in results if verbose or found.id in findings]
    width = screen.read_terminal_width(_MAX_TABLE_WIDTH)
    for line in format_check_table(shown, width):
        print_report(line)
    if passed := dict.fromkeys(found.id for found in results if found not in shown):
        for line in format_labeled_lines("ok", ", ".join(passed), 13, width):
            print_report(line)
    if problems:
        raise TorchyardError(counts, hint="each has its remedy above")
    warnings = len(_filter_by_level(results, "warning"))
    summary = f"{warnings or 'no'} warning{'s' * (warnings != 1)}"
    print_report("; ".join(filter(None, ("nothing would stop this build", summary, counts))))


def check_before_build(subject: SelectedProfile) -> None:
    """Run the quick checks before the first stage of a build.

    Raises `TorchyardError` that lists the problems.
    """
    results = run_host_checks(subject, GATE_CHECK_IDS)
    _raise_problems(results)
    _warn_about_submodules(subject, results)


def refuse_known_bad(subject: SelectedProfile) -> None:
    """Raise the same `TorchyardError` as a build would for a combination that is known to fail."""
    _raise_problems(run_host_checks(subject, frozenset({"known-bad"})))


def _raise_problems(found: tuple[CheckResult, ...]) -> None:
    problems = _filter_by_level(found, "problem")
    if not problems:
        return
    descriptions = "\n".join(_format_problem(symptom) for symptom in problems)
    names = dict.fromkeys(
        symptom.id for symptom in (*_filter_by_level(found, "ignored"), *problems)
    )
    hint = "mend that (doit doctor looks again)"
    if not _MANDATORY_CHECKS & {symptom.id for symptom in problems}:
        hint += f", or build all the same with doctor.ignore: [{', '.join(names)}]"
        hint += " in config/local.yaml"
    raise TorchyardError(
        f"{_format_level_counts(found)}; nothing was built or changed\n{descriptions}", hint=hint
    )


def _warn_about_submodules(subject: SelectedProfile, found: Iterable[CheckResult]) -> None:
    """Print warnings about submodules.

    Otherwise the user would learn of them only once torch is there, after gigabytes or hours.
    """
    ignored = subject.opened.loaded.settings.doctor.ignore if subject.opened else ()
    for symptom in _filter_by_level(found, "warning"):
        if symptom.id == "submodules" and symptom.id not in ignored:
            print_warning(_format_problem(symptom).strip())


def run_host_checks(
    subject: SelectedProfile, wanted: frozenset[CheckId] = ALL_CHECK_IDS
) -> tuple[CheckResult, ...]:
    """Return the results of the wanted checks. Problems in doctor.ignore get the level ignored."""
    profile = subject.opened
    host = profile.host if profile else _read_fallback_host(subject)
    knowledge = (
        profile.knowledge if profile else load_knowledge(subject.root / "config" / "knowledge")
    )
    facts = read_host_facts(build_probe_request(subject.root, host, profile), wanted)
    results = [*_check_settings(subject, wanted), *check_host(facts, profile, knowledge, wanted)]
    ignored = profile.loaded.settings.doctor.ignore if profile else ()
    hinted = [
        replace(symptom, todo=add_profile_argument(symptom.todo, subject.name))
        for symptom in results
    ]
    return tuple(
        replace(symptom, level="ignored")
        if symptom.level == "problem" and symptom.id in ignored
        else symptom
        for symptom in hinted
    )


def _read_fallback_host(subject: SelectedProfile) -> Host:
    """Return the host facts without settings or pin, for a profile that does not open."""
    return host_probe.read_host(
        host_probe.HostQuery("auto", None), subject.root / "build" / "host.json"
    )


def _check_settings(subject: SelectedProfile, wanted: frozenset[CheckId]) -> Iterator[CheckResult]:
    if "settings" not in wanted:
        return
    if error := subject.problem:
        text = f"{error.location}: {error.message}" if error.location else error.message
        hint = (
            error.hint or f"see what came out of which file: doit settings profile={subject.name}"
        )
        yield report_problem("settings", text, hint)
    for key, value in subject.opened.plan.headline if subject.opened else ():
        yield report_ok("settings", value if key == "profile" else f"{key}: {value}", key)


def _filter_by_level(found: Iterable[CheckResult], level: Level) -> list[CheckResult]:
    return [symptom for symptom in found if symptom.level == level]


def _format_level_counts(found: Collection[CheckResult]) -> str:
    """Return `2 problems: compiler, disk; 1 ignored: memory`, without the empty part."""
    problems = _filter_by_level(found, "problem")
    counts = (
        _format_check_names(problems, "problem" + "s" * (len(problems) > 1)),
        _format_check_names(_filter_by_level(found, "ignored"), "ignored"),
    )
    return "; ".join(filter(None, counts))


def _format_check_names(symptoms: Collection[CheckResult], what: str) -> str:
    ids = ", ".join(dict.fromkeys(symptom.id for symptom in symptoms))
    return f"{len(symptoms)} {what}: {ids}" if symptoms else ""


def _format_problem(symptom: CheckResult) -> str:
    first, *others = symptom.todo.splitlines() or [""]
    continuation = "".join(f"\n      {line}" for line in others)
    return f"  {symptom.id}: {symptom.seen}\n    → {first.strip()}{continuation}"


def _accept_host(subject: SelectedProfile) -> bool:
    """Replace the pinned host by the present one; the next build rebuilds what that changes.

    This also works if the pinned host prevents the profile from opening. Return False if the
    settings cannot be read.
    """
    try:
        settings = subject.read_settings().settings
    except TorchyardError:
        return False  # reported among the findings
    pin = Path(build_layout(subject.root, subject.name, settings).build) / "host.json"
    pin.unlink(missing_ok=True)
    query = host_probe.HostQuery(settings.python, settings.toolkit.path)
    host = host_probe.read_host(query, pin)
    if pin.parent.is_dir():
        host_probe.write_host_pin(pin, query, host)
    gpus = ", ".join(f"{gpu.name} ({gpu.capability})" for gpu in host.gpus) or "no card"
    toolkits = ", ".join(f"CUDA {kit.version}" for kit in host.toolkits) or "no CUDA toolkit"
    note = add_profile_argument("the next doit build goes by that", subject.name)
    print_report(f"accepted: {gpus}, {toolkits}; {note}")
    return True
