"""Explain why a stage failed, from the log and the facts of the run, and suggest a fix."""

import json
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path, PurePath
from typing import Any

from tasks.core import errors
from tasks.core.errors import CommandFailedError, TorchyardError
from tasks.core.model import Stage
from tasks.core.text_formatting import format_size
from tasks.diagnosis import diagnosis_text
from tasks.diagnosis.failure_cause import Diagnosis, diagnose_log
from tasks.diagnosis.failure_matches import ParsedLog
from tasks.diagnosis.kind_matches import KindFinder, KindMatch
from tasks.diagnosis.last_attempt import find_last_attempt
from tasks.diagnosis.log_facts import NO_FACTS, LogFacts, parse_log_facts
from tasks.diagnosis.remedy_steps import write_for_system
from tasks.diagnosis.run_facts import RunFacts, apply_run_facts
from tasks.diagnosis.source_builds import NO_WHEEL, find_source_build
from tasks.knowledge import Knowledge, package_managers
from tasks.knowledge.cuda_toolkits import find_toolkit, list_capable_toolkits
from tasks.knowledge.error_kinds import can_fill, fill_text
from tasks.knowledge.package_wheels import MissingWheel
from tasks.lock.opened_profile_io import Profile
from tasks.planning.suggestions import format_wheel_alternatives
from tasks.runlog import memory_monitor_io
from tasks.system.hardware import capacity, operating_system
from tasks.system.invocation import add_profile_argument

_ARCH = re.compile(r"\b(?:compute|sm)_(\d{2,3})")
_ARCH_SETTING = re.compile(r"arch|gencode|compute_|sm_\d", re.IGNORECASE)
_LINES_ABOVE = 3  # lines before a number in which a word may show that the number is an arch
_BUILD_FILES = ("setup.py", "CMakeLists.txt", "*.py", "*.cmake")


def suggest_arch_removal(stage: Stage | None, found: Diagnosis, settings_file: str) -> str:
    """Return a hint that says where an extension names an arch that nvcc rejects.

    Returns "" for any other failure, or if the arch is a target of the profile.
    """
    error = found.first_error
    if stage is None or stage.kind != "extensions" or found.failure is None or error is None:
        return ""
    match, job = _ARCH.search(error.text), stage.job
    if found.failure.slug != "nvcc-arch-unsupported" or match is None:
        return ""
    arch = match[1]  # "37" of compute_37
    if arch in {target.sm.removeprefix("sm_").rstrip("af") for target in job.targets}:
        return ""
    message = f"sm_{arch} is not a target of this profile ({', '.join(map(str, job.targets))})"
    entry = f"extension {job.name} in {settings_file}"
    pattern = re.compile(rf"(?<![\d.]){arch[:-1]}\.?{arch[-1]}(?![\d.])")  # 37, 3.7 and sm_37
    flags = {**{f"env.{name}": value for name, value in job.env.items()}, "nvcc": f"{job.nvcc}"}
    if key := next((key for key, text in flags.items() if pattern.search(text)), ""):
        return f"{message}: remove it from {key} of {entry}"
    patch_hint = f"remove it with a patch: set patches: [FILE.patch] of {entry}"
    location = next(_find_arch_lines(Path(job.tree), job.subdirectory, pattern), None)
    if location is None:
        return f"{message}, but the source of {job.name} in {job.original} names it: {patch_hint}"
    file, number = location
    original = Path(job.original) / file.relative_to(job.tree)
    return f"{message}. {original if original.is_file() else file}:{number} names it: {patch_hint}"


def _find_arch_lines(
    tree: Path, subdirectory: str, pattern: re.Pattern[str]
) -> Iterator[tuple[Path, int]]:
    """Yield the build files and line numbers where an arch is set that matches `pattern`."""
    build_folder = tree / subdirectory
    parents = (parent for parent in build_folder.parents if parent.is_relative_to(tree))
    for folder, name in product((build_folder, *parents), _BUILD_FILES):
        for file in filter(Path.is_file, sorted(folder.glob(name))):
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
            for index, line in enumerate(lines):
                code = line.partition("#")[0]
                nearby = lines[max(0, index - _LINES_ABOVE) : index + 1]
                if not pattern.search(code) or "python" in code.lower():
                    continue
                if _ARCH_SETTING.search("\n".join(nearby)):
                    yield file, index + 1


@dataclass(frozen=True)
class FailureExplanation:
    """The diagnosis of a log, with the remedy and a source excerpt.

    If the cause is unknown, `remedy` says which lines of the log to read. `remedy` is empty if
    nothing failed. `candidates` are the sentences of possible causes. `machine` has what the log of
    another build says of its machine.
    """

    log: Path
    found: Diagnosis
    remedy: str
    excerpt: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    machine: LogFacts = NO_FACTS

    @property
    def document(self) -> dict[str, Any]:
        """The diagnosis as a JSON object."""
        document = diagnosis_text.build_diagnosis_document(self.found, self.log, self.remedy)
        return {**document, "machine": self.machine.values or None}

    @property
    def cause(self) -> str:
        """The cause, or the possible causes, as text; "" if nothing failed."""
        if self.found.kind:
            return self.found.kind.cause
        if self.found.failure:
            return self.found.failure.cause
        if self.candidates:
            return f"not certain; possible causes: {'; or '.join(self.candidates)}"
        return "unknown" if self.found.first_error else ""


def explain_log(
    parsed: ParsedLog,
    knowledge: Knowledge,
    facts: RunFacts | None,
    profile: Profile | None = None,
    stage: Stage | None = None,
) -> FailureExplanation:
    """Explain a log. `profile` is `None` if the log is from another build.

    Without a profile, the remedy contains no fact of this host and no torchyard command.
    """
    failures, log = knowledge.failures, Path(parsed.path or "")
    facts_of_log = parse_log_facts(parsed.lines)
    machine = NO_FACTS if profile else facts_of_log
    kinds = KindFinder(
        knowledge.kinds,
        knowledge.names,
        facts_of_log,
        knowledge.torch_names,
        knowledge.system_packages,
    )
    found = apply_run_facts(facts, diagnose_log(failures, parsed, kinds), failures)
    failure, error = found.failure, found.first_error
    missing = (
        _find_missing_wheel(parsed, knowledge, facts_of_log) if error and not profile else None
    )
    if stage and stage.kind == "extensions":
        job = stage.job
        found = diagnosis_text.map_to_original(found, job.tree, job.original, os.path.exists)
    if profile and failure:  # the remedy of the failure has facts of this host
        found = replace(found, kind=None)
    if failure is None or found.kind:
        location = ""
        excerpt: tuple[str, ...] = ()
        if error:
            place = f"{log}:{error.number}" if parsed.path else "this line of the log"
            location = f"read the lines around {place}"
            excerpt = diagnosis_text.extract_source_excerpt(parsed.raws, error.number)
        if missing and not found.candidates and (found.kind is None or found.kind.kind.late):
            cause = f"{missing.reason}, so that its source is compiled, which fails here"
            found = replace(found, kind=KindMatch(NO_WHEEL, 0, cause, (missing.step,)))
            missing = None
        if found.kind:
            remedy = _write_remedy(found.kind.remedy, facts_of_log, missing)
            return FailureExplanation(log, found, remedy, excerpt, (), machine)
        possible = {one.slug: one for one in failures if one.slug in found.candidates}
        candidates = tuple(possible[slug].cause for slug in found.candidates)
        steps = [] if profile else [possible[slug].remedy[0] for slug in found.candidates]
        remedy = "\n".join(filter(None, (location, *dict.fromkeys(steps))))
        return FailureExplanation(log, found, remedy, excerpt, candidates, machine)
    if profile is None:
        words = facts_of_log.words
        steps = [fill_text(one, words) for one in failure.remedy if can_fill(one, words)]
        remedy = _write_remedy(steps, facts_of_log, missing)
        return FailureExplanation(log, found, remedy, machine=machine)
    placeholders = build_profile_placeholders(profile, stage, facts)
    arch_hint = suggest_arch_removal(stage, found, placeholders["extensions_file"])
    remedy = arch_hint or diagnosis_text.fill_remedy(failure, placeholders)
    return FailureExplanation(log, found, add_profile_argument(remedy, profile.layout.profile))


def _find_missing_wheel(
    parsed: ParsedLog, knowledge: Knowledge, machine: LogFacts
) -> MissingWheel | None:
    """Return why the package is compiled whose build failed, and what to install instead."""
    lines = parsed.lines[find_last_attempt(parsed.lines) :]
    build = find_source_build([line.text for line in lines], machine)
    return knowledge.package_wheels.explain_build(build) if build else None


def _write_remedy(
    steps: Sequence[str], machine: LogFacts, missing: MissingWheel | None = None
) -> str:
    """Return the steps as lines with the commands of the log's system and the failed package.

    The first step is to install a wheel, if pip compiles the package because one is missing.
    """
    first = [f"{missing.step} ({missing.reason})"] if missing else []
    text = "\n".join([*first, *write_for_system(steps, machine.values.get("system", ""))])
    return re.sub(r"\bPACKAGE\b", machine.values.get("package", "PACKAGE"), text)


def explain_error(
    stage: Stage, error: TorchyardError, profile: Profile, memory: memory_monitor_io.ObservedMemory
) -> FailureExplanation | None:
    """Explain why `stage` failed with `error`. Add the explanation to `error` and return it.

    Writes the facts of the run beside the log. Returns `None` if `error` has no log of a command.
    """
    failed: BaseException | None = error
    while failed is not None and not isinstance(failed, CommandFailedError):
        failed = None if isinstance(failed, errors.InterruptedRunError) else failed.__cause__
    if failed is None or failed.parsed_log is None:
        return None
    name, _, number = failed.location.rpartition(":")
    log = Path(name)
    if not number.isdecimal() or not log.is_file():
        return None
    from tasks.runlog import build_history_io  # noqa: PLC0415 - needed only after a failure

    history = getattr(stage.job, "runs", None)
    last_runs = list(build_history_io.read_history(history))[-1:] if history else []
    facts = replace(
        memory.collect_facts(log),
        begun=failed.log_offset,
        code=failed.code,
        jobs=next((run["jobs"] for run in last_runs if isinstance(run.get("jobs"), int)), None),
        compiler=_read_compiler(stage, profile.layout.compute_manifest_path("deps")),
    )
    memory_monitor_io.write_facts(log, facts)
    explanation = explain_log(failed.parsed_log, profile.knowledge, facts, profile, stage)
    _add_explanation(error, explanation, {known.slug for known in profile.knowledge.failures})
    return explanation


def _add_explanation(
    error: TorchyardError, explanation: FailureExplanation, slugs: Collection[str]
) -> None:
    """Add the cause, remedy and log lines of `explanation` to `error`.

    A hint for another failure in `slugs` is replaced if the facts of the run contradict it.
    """
    error.diagnosis, error.log = explanation.document, str(explanation.log)
    error.excerpt = explanation.excerpt
    failure, first_error = explanation.found.failure, explanation.found.first_error
    if failure and explanation.found.by:
        others = {slug for slug in slugs if slug != failure.slug}
        if any(f"({other})" in error.hint for other in others):
            error.hint = ""
    if not error.hint or (failure and f"({failure.slug})" not in error.hint):
        error.cause = explanation.cause if failure or not error.hint else ""
    error.hint = error.hint or explanation.remedy
    if first_error and isinstance(error, CommandFailedError) and error.exit_description:
        error.message = f"{error.exit_description}: {first_error.text}"
        error.location = f"{explanation.log}:{first_error.number}"


def _read_compiler(stage: Stage, deps: PurePath) -> str:
    """Return the path and version of the C++ compiler in the manifest `deps`.

    Returns "" without a manifest, and for an extension whose `env` sets CXX.
    """
    env = getattr(stage.job, "env", None)
    if isinstance(env, Mapping) and "CXX" in env:
        return ""
    try:
        compiler = json.loads(Path(deps).read_text(encoding="utf-8"))["cxx"]
        return f"{compiler['path']} {compiler['version']}".strip()
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return ""


_OLDEST_GCC = 9  # the oldest gcc-N to search for


def build_profile_placeholders(
    profile: Profile, stage: Stage | None, facts: RunFacts | None
) -> dict[str, str]:
    """Return the values for placeholders in remedies. `stage` and `facts` are `None` if unknown."""
    choice, layout, knowledge = profile.choice, profile.layout, profile.knowledge
    build, settings_file = Path(layout.build), layout.project.settings_name
    is_used = any(place.startswith(settings_file) for place in profile.loaded.origin.values())
    if layout.project.is_checkout and not is_used:
        settings_file = f"config/profiles/{layout.profile.partition('@')[0]}.yaml"
    jobs = facts.jobs or 0 if facts else 0
    safe_jobs = capacity.compute_safe_jobs()
    fewer = min(jobs // 2, safe_jobs) if jobs > 1 else safe_jobs // 2
    # Extensions must be set in the same file as now: a list in another file would replace it
    origin = profile.loaded.origin.get("extensions", "").partition(":")[0]
    is_writable = origin == layout.project.settings_name or (
        layout.project.is_checkout and origin.startswith("config/profiles/")
    )
    scripts = "Scripts" if choice.system == "windows" else "bin"
    auto_fix = f"; build.auto_fix: true in {settings_file} does this automatically"
    candidates = {
        "file": settings_file,
        "extensions_file": origin if is_writable else settings_file,
        "build": str(build),
        "free": format_size(shutil.disk_usage(build).free // 2**20) if build.is_dir() else "",
        "memory": format_size(capacity.find_memory_limit(capacity.find_control_groups())),
        "venv": str(layout.venv / scripts / "python"),
        "torch": choice.torch,
        "archs": ", ".join(map(str, choice.targets)),
        "cards": ", ".join(f'"{gpu.capability}"' for gpu in profile.host.gpus),
        "torch_cuda": choice.cuda or "",
        "compiler": facts.compiler if facts else "",
        "jobs": str(jobs) if jobs > 1 else "",
        "fewer": str(max(1, fewer)),
        **_build_stage_placeholders(profile, stage),
        **_build_cuda_placeholders(profile),
    }
    placeholders = {name: value for name, value in candidates.items() if value}
    versions = {"python": profile.host.python.minor}  # package names may contain them
    versions |= {name: value for name, value in placeholders.items() if name == "gcc"}
    systems = operating_system.list_system_names()
    for name in knowledge.package_managers.names:
        if text := package_managers.find_install_command(knowledge, systems, name, **versions):
            placeholders[f"install:{name}"] = text
    is_enabled = profile.loaded.settings.build.auto_fix
    return {**placeholders, "auto_fix": "" if is_enabled else auto_fix}


def suggest_other_torch(profile: Profile) -> str:
    """Suggest settings to use when the torch wheel has no code for a target GPU."""
    settings, host, knowledge = profile.loaded.settings, profile.host, profile.knowledge
    return format_wheel_alternatives(settings, host, knowledge) or (
        "set torch.index or torch.version to a wheel with code for that GPU, or remove the GPU "
        "from target.gpus"
    )


def _build_stage_placeholders(profile: Profile, stage: Stage | None) -> dict[str, str]:
    if stage and stage.kind == "extensions":
        name, job = stage.name.partition(":")[2], stage.job
        return {
            "extension": name,
            "own_tree": job.location if job.kind == "path" else "",
            "without_submodules": name if job.kind == "git" and not job.submodules else "",
        }
    tree = next((one.job.tree for one in profile.plan.find_stages("source")), None)
    is_managed = tree is None or tree.is_relative_to(profile.layout.build)
    return {"tree" if is_managed else "own_tree": str(tree or "")}


def _build_cuda_placeholders(profile: Profile) -> dict[str, str]:
    choice, knowledge = profile.choice, profile.knowledge
    cuda = choice.toolkit.version or choice.cuda or ""
    home = next((kit.home for kit in profile.host.toolkits if kit.release == cuda), "")
    capable = list_capable_toolkits(knowledge, choice.targets) if choice.targets else ()
    other = capable[0] if capable and cuda and cuda not in capable else ""
    placeholders = {"cuda": cuda, "home": home, "toolkit_for_archs": other}
    try:
        toolkit = find_toolkit(knowledge, cuda)
    except errors.KnowledgeError:
        return placeholders
    placeholders |= {"gcc": str(toolkit.gcc_max), "pypi_cuda": cuda if toolkit.pypi else ""}
    for number in range(toolkit.gcc_max, _OLDEST_GCC - 1, -1):
        cc, cxx = shutil.which(f"gcc-{number}"), shutil.which(f"g++-{number}")
        if cc and cxx:
            return {**placeholders, "cc": cc, "cxx": cxx}
    return placeholders
