"""`doit lock`: write to torchyard.lock what this profile was built from, for a repeatable build."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import structs

from tasks.cli.session import open_profile
from tasks.core.errors import CommandFailedError, FetchError, SettingsError, TorchyardError
from tasks.core.project import LOCK_NAME
from tasks.core.resolution import UnsatisfiableError
from tasks.lock import lock_file
from tasks.lock.lock_builder_io import FinishedBuild
from tasks.lock.opened_profile_io import Profile, SelectedProfile
from tasks.settings.layers_io import read_yaml_text
from tasks.settings.matrix_entries import expand_matrix, split_profile_name
from tasks.stages.extensions.model import ExtensionJob
from tasks.stages.source.model import SourceJob
from tasks.system import files
from tasks.system.git import clones
from tasks.system.invocation import add_profile_to_errors, format_profile_argument
from tasks.system.output import print_report, print_warning


def run(subject: SelectedProfile, check: bool = False, update: bool = False) -> None:
    """Write the torchyard.lock section of this profile, or a section for each matrix entry.

    `check` only compares the lock with the build. `update` only updates the commits of locked refs.
    Raises `TorchyardError` if no build is finished, or if `check` finds a difference.
    """
    names = _list_build_names(subject)
    if names == [subject.name]:
        _lock_profile(subject, check=check, update=update)
        return
    outcomes = {one: _lock_matrix_entry(subject, one, check=check, update=update) for one in names}
    if failed := [name for name in names if outcomes[name] == "failed"]:
        state = "different from the lock" if check else "not locked"
        count = f"{len(failed)} of {len(names)} builds of the matrix are {state}"
        hint = "see the error of each build above; the results of the other builds are valid"
        raise TorchyardError(f"{count}: {', '.join(failed)}", hint=hint)
    if "done" not in outcomes.values():
        verb = "compared" if check else "locked"
        message = f"nothing was {verb}: this machine cannot build any entry of the matrix"
        hint = "show the reasons: doit matrix; change matrix, or lock on another machine"
        raise TorchyardError(message, location="matrix", hint=hint)


def _list_build_names(subject: SelectedProfile) -> list[str]:
    """Return the names of the builds to lock: matrix entries, the profile itself, or both."""
    name, entry = split_profile_name(subject.name)
    if entry:
        return [subject.name]
    entries = [f"{name}@{one}" for one in expand_matrix(subject.read_settings().settings.matrix)]
    if not entries or (subject.build / "deps.json").is_file():
        return [name, *entries]
    is_locked = lock_file.parse_section(_read_lock_text(subject), name) is not None
    return [name, *entries] if is_locked else entries


def _lock_matrix_entry(
    subject: SelectedProfile, name: str, *, check: bool, update: bool
) -> Literal["done", "failed", "impossible"]:
    """Lock a matrix entry, or check its lock. "impossible" means that it cannot be built here."""
    try:
        with add_profile_to_errors(name):
            # parse first: a damaged file is an error even if the entry cannot be built
            lock_file.parse_section(_read_lock_text(subject), name)
            try:
                opened = open_profile(subject.project, name, os.environ)
            except SettingsError as error:
                if split_profile_name(name)[1]:
                    advice = "or exclude only this build with matrix.exclude"
                    error.hint = "; ".join(filter(None, (error.hint, advice)))
                raise
            entry = SelectedProfile(subject.project, name, opened)
            _lock_profile(entry, check=check, update=update)
    except UnsatisfiableError as error:
        reason = f"unchanged, because this machine cannot build it: {error.message}"
        print_report(f"{LOCK_NAME}: {name}: {reason}")
        return "impossible"
    except TorchyardError as error:
        print_report(f"{LOCK_NAME}: {name}: {error}")
        return "failed"
    return "done"


def _read_lock_text(subject: SelectedProfile) -> str:
    path = Path(subject.project.lock_file)
    return read_yaml_text(path, LOCK_NAME) if path.is_file() else ""


def _lock_profile(subject: SelectedProfile, *, check: bool, update: bool) -> None:
    text = _read_lock_text(subject)
    locked = lock_file.parse_section(text, subject.name)
    if (check or update) and locked is None:
        message = f"{LOCK_NAME} has no section for profile {subject.name}"
        raise TorchyardError(message, hint="add it: doit lock")
    profile = subject.require_profile()
    if update and locked:
        updates = dict(_find_new_commits(profile, locked))
        torch = updates.get("", locked.torch)
        extensions = {name: updates.get(name, one) for name, one in locked.extensions.items()}
        section = structs.replace(locked, torch=torch, extensions=extensions)
    else:
        section = _collect_built_section(profile, locked)
    differences = list(lock_file.compare_sections(locked, section)) if locked else []
    for line in differences:
        print_report(line)
    args, location = format_profile_argument(subject.name), f"{LOCK_NAME}: {subject.name}"
    if check and differences:
        count = f"{len(differences)} difference{'s' * (len(differences) > 1)}"
        message = f"{count} between {LOCK_NAME} and the build"
        hint = f"to build what is locked: doit build{args}; to lock this build: doit lock{args}"
        raise TorchyardError(message, location=location, hint=hint)
    if check:
        print_report(f"{location} matches the build")
    elif differences or locked is None:
        new_text = lock_file.replace_section(text, subject.name, section)
        files.write_atomic(subject.project.lock_file, new_text)
        print_report(f"{location}: {_format_lock_counts(section)}")
    else:
        print_report(f"{location}: no changes")
    if differences and update:
        print_report(f"next: doit build{args}, then doit lock{args} to lock the files and packages")


def _collect_built_section(
    profile: Profile, locked: lock_file.LockSection | None
) -> lock_file.LockSection:
    """Return the section of the build. Extensions that were not built keep their locked entry."""
    finished = FinishedBuild(profile)
    for name, reason in finished.left_out.items():
        if locked and name in locked.extensions:
            consequence = f"its entry in {LOCK_NAME} is kept"
        else:
            consequence = f"it is not in {LOCK_NAME}; a build fetches it as the settings say"
        print_warning(f"{name} is optional and was not built ({reason}): {consequence}")
    return lock_file.merge_kept_extensions(finished.build_section(), locked, finished.left_out)


def _find_new_commits(
    profile: Profile, section: lock_file.LockSection
) -> Iterator[tuple[str, lock_file.LockedInputs]]:
    """Yield the name and the new entry of each component whose ref has a new commit."""
    for stage in profile.plan.stages:
        job = stage.job
        name = job.name if isinstance(job, ExtensionJob) else ""
        locked = section.extensions.get(name) if name else section.torch
        if not isinstance(job, ExtensionJob | SourceJob) or job.kind != "git" or locked is None:
            continue
        try:
            commit = clones.resolve_remote_commit(job.location, job.ref, job.mirrors)
        except (CommandFailedError, FetchError) as error:
            if not getattr(job, "optional", False):
                if isinstance(error, FetchError):
                    raise
                message = f"{job.location} did not report the commit of {job.ref}: {error.message}"
                hint = f"check the URL, the network and the proxy; {LOCK_NAME} was not changed"
                raise FetchError(message, hint=hint) from error
            kept = f"so its entry in {LOCK_NAME} is kept"
            print_warning(f"could not look up the new commit of {name}, {kept}: {error.message}")
            continue
        if locked.commit and commit not in ("", locked.commit):
            yield name, structs.replace(locked, commit=commit, submodules={})


def _format_lock_counts(section: lock_file.LockSection) -> str:
    components = (section.torch, *section.extensions.values())
    packages = len(section.packages) + len(section.toolkit)
    packages += sum(len(one.packages) + len(one.requires) for one in components)
    commits = sum(bool(one.commit) + len(one.submodules) for one in components)
    wheels = sum(bool(one.sha256) for one in components)
    counts = {"commit": commits, "file": wheels, "package": packages}
    return ", ".join(f"{count} {name}{'s' * (count != 1)}" for name, count in counts.items())
