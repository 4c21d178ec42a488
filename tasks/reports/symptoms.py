"""What doctor looks at, one symptom each: the machine, and what this profile needs of it."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from tasks.effects import compilers, environments, git, probe
from tasks.errors import MissingToolError
from tasks.knowledge.combinations import Combination, judge
from tasks.knowledge.toolkits import driver_floor
from tasks.model import Stage
from tasks.reports.subject import Profile, Subject
from tasks.stages.deps.job import DepsJob, Program

Level = Literal["ok", "note", "problem"]
_NEEDED_GIB = {"prebuilt": 12, "existing": 4, "source": 60}
_LEVELS: dict[str, Level] = {"error": "problem", "warning": "note", "info": "note"}


@dataclass(frozen=True)
class Symptom:
    """One line: what was looked at, what was seen, and what to do."""

    level: Level
    subject: str
    text: str
    todo: str = ""


def of_machine(subject: Subject) -> Iterator[Symptom]:
    """What is true of this machine whatever the profile."""
    yield Symptom("ok", "python", f"{platform.python_version()} at {sys.executable}")
    uv = environments.find_uv()
    yield (
        Symptom("ok", "uv", uv)
        if uv
        else Symptom(
            "note", "uv", "cannot run here: pip does its work, more slowly", "pip install uv"
        )
    )
    yield _cards()
    memory = psutil.virtual_memory()
    sizes = f"{memory.total / 2**30:.0f} GiB, {memory.available / 2**30:.0f} free"
    yield Symptom("ok", "memory", f"{sizes}; {os.cpu_count()} cores")
    yield _disk(subject)


def of_profile(profile: Profile) -> Iterator[Symptom]:
    """What this profile needs: compilers, git, the driver, and no combination that is known bad."""
    job: DepsJob = next(stage.job for stage in profile.plan.stages if stage.name == "deps")
    try:
        cxx = compilers.find(job.cc, job.cxx, job.gcc_max)[1]
    except MissingToolError as error:
        yield Symptom("problem", "compiler", error.what, error.todo)
        return
    yield Symptom("ok", "compiler", f"{cxx.path} {cxx.version}")
    yield _git(job)
    yield from _driver(profile)
    yield from _known_bad(profile, job, cxx)
    for stage in profile.plan.stages:
        if stage.room == "extensions" and stage.job.kind == "git":
            yield _host_of(stage)


def _cards() -> Symptom:
    cards = probe.cards()
    if not cards:
        return Symptom(
            "note", "cards", "no NVIDIA card or no driver: builds work, GPU checks do not"
        )
    named = ", ".join(f"{card.name} ({card.capability}, {card.memory_mib:,} MiB)" for card in cards)
    return Symptom("ok", "cards", named)


def _disk(subject: Subject) -> Symptom:
    free = shutil.disk_usage(subject.root).free / 2**30
    strategy = subject.opened.choice.strategy if subject.opened else ""
    needed = _NEEDED_GIB.get(strategy, 12)
    text = f"{free:.0f} GiB free under {subject.root}; {strategy or 'a'} build needs about {needed}"
    if free >= needed:
        return Symptom("ok", "disk", text)
    return Symptom("problem", "disk", text, "free some room, or put the checkout on a larger disk")


def _git(job: DepsJob) -> Symptom:
    found = compilers.program("git")
    if found:
        return Symptom("ok", "git", f"{found.path} {found.version}")
    level: Level = "problem" if job.git_needed else "note"
    why = f"needed {job.git_needed}" if job.git_needed else "extensions from git cannot be fetched"
    return Symptom(level, "git", f"not there: {why}", "apt install git, or winget install Git.Git")


def _driver(profile: Profile) -> Iterator[Symptom]:
    """A driver older than the torch's CUDA needs starts, and then fails at the first kernel."""
    driver, cuda = probe.driver(), profile.choice.cuda
    if not driver or not cuda:
        return
    floor = driver_floor(profile.knowledge, cuda)
    if int(driver.partition(".")[0]) >= floor:
        yield Symptom("ok", "driver", f"{driver}, and CUDA {cuda} needs {floor} or later")
    else:
        todo = f"install driver {floor} or later, or choose an older toolkit.version"
        yield Symptom("problem", "driver", f"{driver} is too old for CUDA {cuda}", todo)


def _known_bad(profile: Profile, job: DepsJob, cxx: Program) -> Iterator[Symptom]:
    kind, version = platform.libc_ver()
    found = {kit.home: kit.version for kit in profile.host.toolkits}
    combination = Combination(
        system=profile.host.system,
        cuda=found.get(job.toolkit_home) or profile.choice.toolkit.version or None,
        torch=profile.choice.torch,
        gcc=cxx.version if "clang" not in Path(cxx.path).name else None,
        glibc=version if kind == "glibc" else None,
        archs=profile.choice.targets,
        strategy=profile.choice.strategy,
    )
    for finding in judge(profile.knowledge, combination):
        yield Symptom(_LEVELS[finding.level], "known bad", finding.what, finding.fix)


def _host_of(stage: Stage) -> Symptom:
    if git.reachable(stage.job.location):
        return Symptom("ok", stage.job.name, f"{stage.job.location} answers")
    level: Level = "note" if stage.job.optional else "problem"
    way = (
        "it is optional and will be left out" if stage.job.optional else "the build will stop there"
    )
    return Symptom(
        level,
        stage.job.name,
        f"the host of {stage.job.location} does not answer; {way}",
        "check the network or proxy, or build it from a local checkout: path instead of git",
    )
