"""`doit doctor`: check, before a build, what could make it fail on this machine."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from tasks.cli.commands.json_output import write_json_result
from tasks.core.check_ids import ALL_CHECK_IDS, GATE_CHECK_IDS, CheckId
from tasks.core.errors import TorchyardError
from tasks.core.text_layout import format_labeled_lines, wrap_text
from tasks.doctor.check_result import CheckResult, Level, report_ok, report_problem
from tasks.doctor.examine_host import build_probe_request, check_host
from tasks.doctor.host_facts_io import read_host_facts
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.planning.profile_plan import build_layout
from tasks.system import screen
from tasks.system.hardware import host_probe
from tasks.system.invocation import add_profile_argument
from tasks.system.output import print_report, print_warning

_LEVEL_MARKS = {"problem": "PROBLEM"}  # in capitals, so that it is not overlooked
_FINDING_INDENT = 28  # width of the columns before the finding


def format_check_table(found: Iterable[CheckResult], columns: int) -> Iterator[str]:
    """Yield the lines of a table of check results. Commands to copy are not wrapped."""
    width = max(columns, _FINDING_INDENT + 30)
    before = ""
    for result in found:
        name = result.id if result.id != before or result.level != "ok" else ""
        before, mark = result.id, "→ "
        note = f" [{result.known}]" if result.known else ""
        key = f"{_LEVEL_MARKS.get(result.level, result.level):<12} {name:<14}"
        yield from format_labeled_lines(key, f"{result.seen}{note}", _FINDING_INDENT, width)
        for line in result.todo.splitlines():
            columns = width - _FINDING_INDENT - 2
            for piece in [line.strip()] if line.startswith("  ") else wrap_text(line, columns):
                yield f"{'':{_FINDING_INDENT}}{mark}{piece}"
                mark = "  "


_MAX_TABLE_WIDTH = 120
_MANDATORY_CHECKS = frozenset[CheckId]({"compiler", "git"})  # stages cannot run without them


def run(
    subject: SelectedProfile, json: str = "", accept: bool = False, verbose: bool = False
) -> None:
    """Check the host and print the results. Raises `TorchyardError` if there are problems.

    `accept` first records the current GPUs and toolkits for the next build.
    """
    if accept and _accept_host(subject) and not subject.opened:
        hint = add_profile_argument("run doit doctor again to check it", subject.name)
        print_report(f"the profile could not be loaded with what was recorded before: {hint}")
        return
    results = run_host_checks(subject)
    problems, counts = _filter_by_level(results, "problem"), _format_level_counts(results)
    document = {"profile": subject.name, "found": results, "problems": len(problems)}
    write_json_result(json, document)
    findings = {found.id for found in results if found.level != "ok"} | {"settings"}
    shown = [found for found in results if verbose or found.id in findings]
    width = screen.read_terminal_width(_MAX_TABLE_WIDTH)
    for line in format_check_table(shown, width):
        print_report(line)
    if passed := ", ".join(dict.fromkeys(found.id for found in results if found not in shown)):
        screen.print_labeled_text("ok", passed, 13, width)
    if problems:
        raise TorchyardError(counts, hint="follow the hint of each problem above")
    warnings = len(_filter_by_level(results, "warning"))
    summary = f"{warnings or 'no'} warning{'s' * (warnings != 1)}"
    print_report("; ".join(filter(None, ("no problem would stop a build", summary, counts))))


def check_before_build(subject: SelectedProfile) -> None:
    """Run the fast checks before a build. Raises a `TorchyardError` that lists the problems."""
    results = run_host_checks(subject, GATE_CHECK_IDS)
    _raise_problems(results)
    ignored = subject.opened.loaded.settings.doctor.ignore if subject.opened else ()
    for result in _filter_by_level(results, "warning"):
        # otherwise the user learns of missing submodules only after gigabytes or hours
        if result.id == "submodules" and result.id not in ignored:
            print_warning(_format_problem(result).strip())


def refuse_known_bad(subject: SelectedProfile) -> None:
    """Raise `TorchyardError` if the profile is a combination that is known not to work."""
    _raise_problems(run_host_checks(subject, frozenset({"known-bad"})))


def _raise_problems(found: tuple[CheckResult, ...]) -> None:
    problems = _filter_by_level(found, "problem")
    if not problems:
        return
    descriptions = "\n".join(map(_format_problem, problems))
    names = dict.fromkeys(one.id for one in (*_filter_by_level(found, "ignored"), *problems))
    hint = "fix these problems, then check again: doit doctor"
    if _MANDATORY_CHECKS.isdisjoint(one.id for one in problems):
        setting = f"doctor.ignore: [{', '.join(names)}]"
        hint += f"; to build anyway, set {setting} in config/local.yaml"
    counts = f"{_format_level_counts(found)}; nothing was built or changed"
    raise TorchyardError(f"{counts}\n{descriptions}", hint=hint)


def run_host_checks(
    subject: SelectedProfile, checks: frozenset[CheckId] = ALL_CHECK_IDS
) -> tuple[CheckResult, ...]:
    """Run the checks and return the results. Problems in doctor.ignore get the level `ignored`."""
    if profile := subject.opened:
        host, knowledge = profile.host, profile.knowledge
        ignored = profile.loaded.settings.doctor.ignore
    else:  # broken profile: there are no settings and no host pin
        query, pin = (
            host_probe.HostQuery("auto", None),
            Path(subject.project.outputs, "build", "host.json"),
        )
        host, ignored = host_probe.read_host(query, pin), ()
        knowledge = load_knowledge(Path(subject.project.knowledge))
    facts = read_host_facts(build_probe_request(subject.project, host, profile), checks)
    settings_results = _check_settings(subject) if "settings" in checks else ()
    results = []
    for one in (*settings_results, *check_host(facts, profile, knowledge, checks)):
        level: Level = "ignored" if one.level == "problem" and one.id in ignored else one.level
        results.append(replace(one, todo=add_profile_argument(one.todo, subject.name), level=level))
    return tuple(results)


def _check_settings(subject: SelectedProfile) -> Iterator[CheckResult]:
    if error := subject.problem:
        text = f"{error.location}: {error.message}" if error.location else error.message
        hint = error.hint or f"see which file sets what: doit settings profile={subject.name}"
        yield report_problem("settings", text, hint)
    for key, value in subject.opened.plan.headline if subject.opened else ():
        yield report_ok("settings", f"{key}: {value}", key)


def _filter_by_level(found: Iterable[CheckResult], level: Level) -> list[CheckResult]:
    return [result for result in found if result.level == level]


def _format_level_counts(found: Collection[CheckResult]) -> str:
    """Return text such as `2 problems: compiler, disk; 1 ignored: memory`, without zero counts."""
    problems, ignored = (_filter_by_level(found, level) for level in ("problem", "ignored"))
    title = "problem" + "s" * (len(problems) > 1)
    return "; ".join(
        f"{len(results)} {label}: {', '.join(dict.fromkeys(one.id for one in results))}"
        for results, label in ((problems, title), (ignored, "ignored"))
        if results
    )


def _format_problem(result: CheckResult) -> str:
    first, *others = result.todo.splitlines() or [""]
    continuation = "".join(f"\n      {line}" for line in others)
    return f"  {result.id}: {result.seen}\n    → {first.strip()}{continuation}"


def _accept_host(subject: SelectedProfile) -> bool:
    """Record the current GPUs and toolkits. Return False if the settings cannot be read."""
    try:
        settings = subject.read_settings().settings
    except TorchyardError:
        return False  # the settings check reports this error
    pin = Path(build_layout(subject.project, subject.name, settings).build) / "host.json"
    pin.unlink(missing_ok=True)
    query = host_probe.HostQuery(settings.python, settings.toolkit.path)
    host = host_probe.read_host(query, pin)
    if pin.parent.is_dir():
        host_probe.write_host_pin(pin, query, host)
    gpus = ", ".join(f"{gpu.name} ({gpu.capability})" for gpu in host.gpus) or "no GPU"
    toolkits = ", ".join(f"CUDA {kit.version}" for kit in host.toolkits) or "no CUDA toolkit"
    note = add_profile_argument("the next doit build uses these", subject.name)
    print_report(f"recorded the GPUs and toolkits of this machine: {gpus}, {toolkits}; {note}")
    return True
