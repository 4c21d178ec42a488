"""Explain why a stage failed, from its log and the facts of its run, and suggest a fix.

For an arch that the toolkit does not support, find the line of the extension's source with it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.core.errors import CommandFailedError, InterruptedRunError, TorchyardError
from tasks.diagnosis import diagnosis_text
from tasks.diagnosis.failure_cause import Diagnosis, diagnose_log
from tasks.diagnosis.failure_matches import ParsedLog
from tasks.diagnosis.run_facts import RunFacts, apply_run_facts
from tasks.doctor import host_hints_io
from tasks.runlog import memory_monitor_io
from tasks.system.profile_hint import add_profile_argument

if TYPE_CHECKING:
    from tasks.core.model import Stage
    from tasks.diagnosis.failure_cause import Diagnosis
    from tasks.knowledge import Knowledge
    from tasks.lock.opened_profile_io import Profile

_ARCH = re.compile(r"\b(?:compute|sm)_(\d{2,3})")
_ARCH_SETTING = re.compile(r"arch|gencode|compute_|sm_\d", re.IGNORECASE)
_LINES_ABOVE = 3  # lines before a number that may show that it is an arch
_BUILD_FILES = ("setup.py", "CMakeLists.txt", "*.py", "*.cmake")


def suggest_arch_removal(stage: Stage | None, found: Diagnosis, settings_file: str) -> str:
    """Return where an extension names an unsupported arch that is not a target, with a fix.

    Returns "" for an arch that is a target, and for any other failure.
    """
    arch = _find_unsupported_arch(found)
    if stage is None or stage.kind != "extensions" or not arch:
        return ""
    job = stage.job
    if arch in {target.sm.removeprefix("sm_").rstrip("af") for target in job.targets}:
        return ""
    message = f"sm_{arch} is not a target of this profile ({', '.join(map(str, job.targets))})"
    entry = f"{job.name} among extensions of {settings_file}"
    flags = {**{f"env.{name}": value for name, value in job.env.items()}, "nvcc": f"{job.nvcc}"}
    if key := next(
        (key for key, text in flags.items() if _compile_arch_pattern(arch).search(text)), ""
    ):
        return f"{message}: take it out of {key} of {entry}"
    patch_hint = f"remove it with a patch: patches: [FILE.patch] with {entry}"
    location = _find_arch_line(Path(job.tree), job.subdirectory, arch)
    if location is None:
        return f"{message}, so the source of {job.name} names it in {job.original}: {patch_hint}"
    file, number = location
    original = Path(job.original) / file.relative_to(job.tree)
    return f"{message}. {original if original.is_file() else file}:{number} names it: {patch_hint}"


def _find_unsupported_arch(found: Diagnosis) -> str:
    """Return the digits of the arch, "37" of compute_37."""
    if not found.failure or found.failure.slug != "nvcc-arch-unsupported" or not found.first_error:
        return ""
    match = _ARCH.search(found.first_error.text)
    return match[1] if match else ""


def _compile_arch_pattern(arch: str) -> re.Pattern[str]:
    """Match 37, 3.7, compute_37 and sm_37."""
    return re.compile(rf"(?<![\d.]){arch[:-1]}\.?{arch[-1]}(?![\d.])")


def _find_arch_line(tree: Path, subdirectory: str, arch: str) -> tuple[Path, int] | None:
    """Return the file and line; search the folder that is built first, then those above it."""
    build_folder = tree / subdirectory
    folders = [
        build_folder,
        *(parent for parent in build_folder.parents if parent.is_relative_to(tree)),
    ]
    files = (
        file for folder in folders for name in _BUILD_FILES for file in sorted(folder.glob(name))
    )
    lines = (
        (file, line) for file in files if file.is_file() for line in _list_arch_lines(file, arch)
    )
    return next(lines, None)


def _list_arch_lines(file: Path, arch: str) -> Iterator[int]:
    """Yield the numbers of the lines that name the arch.

    A number counts only near a word such as `gencode`, since Python versions look the same.
    """
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    for index, line in enumerate(lines):
        code = line.partition("#")[0]
        if not _compile_arch_pattern(arch).search(code) or "python" in code.lower():
            continue
        if _ARCH_SETTING.search("\n".join(lines[max(0, index - _LINES_ABOVE) : index + 1])):
            yield index + 1


@dataclass(frozen=True)
class FailureExplanation:
    """The diagnosis of a log and the remedy for this host.

    Without a certain cause, the remedy is where to read on; "" if nothing failed.
    """

    log: Path
    found: Diagnosis
    remedy: str
    excerpt: tuple[str, ...] = ()

    @property
    def document(self) -> dict[str, Any]:
        """The diagnosis as a JSON object."""
        return diagnosis_text.build_diagnosis_document(self.found, self.log, self.remedy)

    @property
    def cause(self) -> str:
        """The cause as a sentence, or that it is not certain, with the candidates."""
        if failure := self.found.failure:
            return f"{failure.cause} ({failure.slug})"
        if self.found.candidates:
            return f"not sure; it could be {' or '.join(self.found.candidates)}"
        return "not known" if self.found.first_error else ""


def explain_log(
    parsed: ParsedLog,
    knowledge: Knowledge,
    facts: RunFacts | None,
    profile: Profile | None = None,
    stage: Stage | None = None,
) -> FailureExplanation:
    """Explain a log. `profile` is set for a log of that profile, `facts` if they are known."""
    failures, log = knowledge.failures, Path(parsed.path or "")
    diagnosis = apply_run_facts(facts, diagnose_log(failures, parsed), failures)
    excerpt = _extract_excerpt(parsed, diagnosis)
    if stage and stage.kind == "extensions":
        diagnosis = diagnosis_text.map_to_original(
            diagnosis, stage.job.tree, stage.job.original, os.path.exists
        )
    if diagnosis.failure is None:
        return FailureExplanation(log, diagnosis, _format_log_location(log, diagnosis), excerpt)
    if profile is None:
        return FailureExplanation(
            log,
            diagnosis,
            diagnosis_text.fill_remedy(
                diagnosis.failure, host_hints_io.build_host_placeholders(knowledge)
            ),
        )
    placeholders = host_hints_io.build_profile_placeholders(profile, stage, facts)
    arch_hint = suggest_arch_removal(stage, diagnosis, placeholders["extensions_file"])
    remedy = arch_hint or diagnosis_text.fill_remedy(diagnosis.failure, placeholders)
    return FailureExplanation(log, diagnosis, add_profile_argument(remedy, profile.layout.profile))


def _extract_excerpt(log: ParsedLog, found: Diagnosis) -> tuple[str, ...]:
    """Return the source excerpt that the compiler printed, if no cause is known."""
    if found.failure or not found.first_error:
        return ()
    return diagnosis_text.extract_source_excerpt(log.raws, found.first_error.number)


def _format_log_location(log: Path, found: Diagnosis) -> str:
    """Return where to read on in the log if no cause is known."""
    return f"the lines around it: {log}:{found.first_error.number}" if found.first_error else ""


def explain_error(
    stage: Stage, error: TorchyardError, profile: Profile, seen: memory_monitor_io.ObservedMemory
) -> FailureExplanation | None:
    """Add the explanation to `error`, which failed the stage, and return it.

    Returns None if no command with a log failed. The facts of the run are written next to the log.
    """
    failed = _find_failed_command(error)
    log = _find_log(failed) if failed else None
    if failed is None or log is None or failed.parsed_log is None:
        return None
    run_facts = replace(seen.collect_facts(log), begun=failed.log_offset, code=failed.code)
    facts = replace(run_facts, jobs=_read_job_count(stage), compiler=_read_compiler(stage))
    memory_monitor_io.write_facts(log, facts)
    explanation = explain_log(failed.parsed_log, profile.knowledge, facts, profile, stage)
    _add_explanation(
        error, explanation, {known_failure.slug for known_failure in profile.knowledge.failures}
    )
    return explanation


def _add_explanation(
    error: TorchyardError, told: FailureExplanation, slugs: Collection[str]
) -> None:
    """Add the explanation to the error.

    A hand-written hint and its cause are kept, unless the facts of the run show another of `slugs`.
    """
    error.diagnosis, error.log, error.excerpt = told.document, str(told.log), told.excerpt
    failure, first_error = told.found.failure, told.found.first_error
    if failure and told.found.by and _names_other_cause(error.hint, failure.slug, slugs):
        error.hint = ""
    if not error.hint or (failure and f"({failure.slug})" not in error.hint):
        error.cause = told.cause if failure or not error.hint else ""
    error.hint = error.hint or told.remedy
    if first_error and isinstance(error, CommandFailedError) and error.exit_description:
        error.message, error.location = (
            f"{error.exit_description}: {first_error.text}",
            f"{told.log}:{first_error.number}",
        )


def _names_other_cause(todo: str, slug: str, slugs: Collection[str]) -> bool:
    return any(f"({other})" in todo for other in slugs if other != slug)


def _find_failed_command(error: BaseException | None) -> CommandFailedError | None:
    """Return the failed command that is `error` or caused it."""
    while error is not None and not isinstance(error, CommandFailedError):
        error = None if isinstance(error, InterruptedRunError) else error.__cause__
    return error


def _find_log(failed: CommandFailedError) -> Path | None:
    name, _, number = failed.location.rpartition(":")
    log = Path(name)
    return log if number.isdecimal() and log.is_file() else None


def _read_job_count(stage: Stage) -> int | None:
    """Return the maximum number of compilers at once, from the history entry of the last run."""
    from tasks.runlog import build_history_io  # noqa: PLC0415 - only needed after a failure

    path = getattr(stage.job, "runs", None)
    last_runs = list(build_history_io.read_history(path))[-1:] if path else []
    return next((run["jobs"] for run in last_runs if isinstance(run.get("jobs"), int)), None)


def _read_compiler(stage: Stage) -> str:
    """Return path and version of the C++ compiler in the manifest deps.json.

    Returns "" if the manifest does not exist or the `env` of an extension sets another compiler.
    The `env` of a wheel job is the path of a manifest.
    """
    env = getattr(stage.job, "env", None)
    if isinstance(env, Mapping) and "CXX" in env:
        return ""
    try:
        compiler = json.loads(Path(stage.job.deps).read_text(encoding="utf-8"))["cxx"]
        return f"{compiler['path']} {compiler['version']}".strip()
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return ""
