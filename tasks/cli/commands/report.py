"""`doit report`: write a run as report.html, trace.json (ui.perfetto.dev) and report.md.

The files contain no user names, host names or home folders. report.md is for a bug report.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from tasks.core.errors import TorchyardError
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.runlog.anonymizer import Anonymizer
from tasks.runlog.build_results import ManifestDocuments, collect_results
from tasks.runlog.perfetto_trace import build_trace
from tasks.runlog.report_graphics import encode_embedded_json
from tasks.runlog.report_page import build_page_values, format_headline, format_markdown
from tasks.runlog.run_record import Run
from tasks.runlog.run_record_io import is_run_active, read_runs
from tasks.runlog.run_statistics import compare_runs, find_comparable_run
from tasks.settings.compile_workers import find_worker_names
from tasks.system.files import write_atomic
from tasks.system.hardware import operating_system
from tasks.system.jinja_templates import render_template
from tasks.system.output import print_report

_MAX_NAMED_RUNS = 5  # runs listed in an error


def run(subject: SelectedProfile, run: str = "", against: str = "", out: str = "") -> None:
    """Write a report of `run` to `out`, compared with the run `against`. All have defaults."""
    build = subject.build
    records = build / "records" / "runs"
    chosen, newest, earlier = _select_run(records, run)
    if against:
        other: Run | None = _find_run(records, against, read_runs(records), [])
    else:
        other = find_comparable_run(chosen, earlier)
    workers = (name for one in (chosen, other) if one for name in find_worker_names(one.settings))
    hosts = (*operating_system.list_host_names(), *workers)
    homes, users = operating_system.list_home_folders(), operating_system.list_user_names()
    anonymizer = Anonymizer(str(subject.root), homes, users, hosts)
    anonymized = anonymizer.clean_value(chosen)
    results = anonymizer.clean_value(collect_results(read_manifests(build), chosen))
    title = format_headline(anonymized, is_run_active(records, chosen))
    comparison = compare_runs(anonymized, anonymizer.clean_value(other)) if other else None
    page = build_page_values(anonymized, title, results, comparison, newest=newest)
    texts = {
        "report.html": render_template(Path(subject.project.templates, "report.html.j2"), page),
        "trace.json": encode_embedded_json(build_trace(anonymized)),
        "report.md": format_markdown(anonymized, title, results),
    }
    folder = Path(out).absolute() if out else build / "report"
    try:
        for name, text in texts.items():
            write_atomic(folder / name, text)
    except OSError as error:
        message = f"cannot write the report: {error.strerror}"
        hint = "choose another folder: doit report --out FOLDER"
        raise TorchyardError(message, location=str(folder), hint=hint) from error
    comparison_note = f", compared with {other.name}" if other else ""
    print_report(f"{title} of the run {anonymized.name}{comparison_note}")
    for name in texts:
        print_report(f"  {folder / name}")


def _select_run(records: Path, name: str) -> tuple[Run, bool, Iterator[Run]]:
    """Return the run, whether it is the newest that ran a stage, and the earlier runs."""
    runs = read_runs(records)
    if not name:
        first = next(runs, None)
        if first is None:
            message, hint = "no run of this profile is recorded", "record one: doit build"
            raise TorchyardError(message, location=str(records), hint=hint)
        active = (one for one in chain([first], runs) if one.active_stages)
        return next(active, first), True, runs
    later: list[Run] = []
    return _find_run(records, name, runs, later), not any(one.active_stages for one in later), runs


def _find_run(records: Path, name: str, runs: Iterator[Run], later: list[Run]) -> Run:
    """Return the run `name`. Append the runs after it to `later`; `runs` begins with the newest."""
    for one in runs:
        if one.name == name.removesuffix(".jsonl"):
            return one
        later.append(one)
    names = ", ".join(one.name for one in later[:_MAX_NAMED_RUNS])
    hint = f"choose one of the last runs: {names}" if names else "record a run: doit build"
    raise TorchyardError(f'there is no run "{name}"', location=str(records), hint=hint)


def read_manifests(build: Path) -> ManifestDocuments:
    """Return the manifests in `build`; a missing, truncated or malformed manifest is {}."""
    paths = {name: build / f"{name}.json" for name in ("source", "deps", "wheel", "validate")}
    for path in sorted((build / "extensions").glob("*.json")):
        if not path.name.endswith(".record.json"):
            paths[f"extensions:{path.stem}"] = path
    return {stage: read_manifest_or_empty(path) for stage, path in paths.items()}


def read_manifest_or_empty(path: Path) -> Mapping[str, Any]:
    """Return the manifest at `path`, or {} if it is missing, truncated or malformed."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
