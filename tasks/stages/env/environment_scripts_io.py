"""An environment as files: scripts that a shell reads, and wrappers that run a program."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from pathlib import PurePath
from typing import Any

from tasks.stages.env.model import Environment, EnvJob
from tasks.stages.env.variable_reasons import MAX_JOBS_REASON
from tasks.system import files
from tasks.system.hardware import capacity
from tasks.system.jinja_templates import render_template


def write_scripts(job: EnvJob, environment: Environment) -> None:
    """One per shell, each whole or not at all, with jobs for use by hand where none were asked
    for.
    """
    given = _add_max_jobs(environment)
    for script in job.scripts:
        _write_script(job, script, given)


def write_wrappers(job: EnvJob, environment: Environment) -> None:
    """One per shell; `run` leads to the one that every system but Windows can execute."""
    for script in job.wrappers:
        _write_script(job, script, environment)
        if script.suffix == ".sh":
            files.replace_symlink(script.with_suffix(""), script.name)


def _add_max_jobs(environment: Environment) -> Environment:
    if "MAX_JOBS" in environment.set:
        return environment
    return replace(
        environment,
        set={**environment.set, "MAX_JOBS": str(capacity.compute_safe_jobs())},
        unset=tuple(name for name in environment.unset if name != "MAX_JOBS"),
        why={**environment.why, "MAX_JOBS": MAX_JOBS_REASON},
    )


def _write_script(job: EnvJob, script: PurePath, environment: Environment) -> None:
    executable = script in job.wrappers and script.suffix == ".sh"
    files.write_atomic(
        script, render_script(job, script, environment), 0o755 if executable else 0o644
    )


def render_script(job: EnvJob, script: PurePath, environment: Environment) -> str:
    """What the script of this name holds."""
    text = render_template(
        job.templates / f"{script.name}.j2", _build_template_values(job, environment)
    )
    match script.suffix:
        case ".ps1":
            # Windows PowerShell 5.1 reads UTF-8 only where a script starts with this mark
            return "\ufeff" + text
        case ".bat":
            # goto and call look for labels at line ends of this form
            return text.replace("\n", "\r\n")
    return text


def _build_template_values(job: EnvJob, environment: Environment) -> dict[str, Any]:
    """What the templates are given. Defaults come first in a script, so that what is set, or
    unset, goes before them.
    """
    given = {*environment.set, *environment.unset}
    why = {name: environment.why.get(name, "") for name in environment.names}
    unset = sorted(environment.unset, key=lambda name: (why[name], name))
    plain = [text for pair in environment.set.items() for text in pair]
    spoken = [*plain, *environment.defaults.values(), *why.values(), job.profile]
    folders = [folder for row in environment.prepend.values() for folder in row]
    return {
        "profile": job.profile,
        "names": environment.names,
        "set": list(environment.set.items()),
        "defaults": [(n, v) for n, v in environment.defaults.items() if n not in given],
        "unset": [(reason, list(row)) for reason, row in groupby(unset, key=lambda n: why[n])],
        "prepend": list(environment.prepend.items()),
        "separator": environment.separator,
        "why": why,
        "ascii": "".join([*spoken, *folders]).isascii(),
    }
