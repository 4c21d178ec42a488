"""`doit lock`: write to torchyard.lock what this profile was built from, for a repeatable build.

`--check` compares lock and build. `--update` locks the commits that the refs point to now, and the
next build uses them. A profile with a matrix has a section per build.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import structs

from tasks.cli.session import open_profile
from tasks.core.errors import CommandFailedError, FetchError, SettingsError, TorchyardError
from tasks.core.resolution import UnsatisfiableError
from tasks.lock import LOCK_NAME, lock_file
from tasks.lock import opened_profile_io as opened
from tasks.lock.lock_builder_io import FinishedBuild
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.settings.layers_io import read_yaml_text
from tasks.settings.matrix_entries import expand_matrix, split_profile_name
from tasks.stages.extensions.model import ExtensionJob
from tasks.stages.source.model import SourceJob
from tasks.system import files, git
from tasks.system.output import print_report, print_warning
from tasks.system.profile_hint import add_profile_to_errors, format_profile_argument


def run(subject: SelectedProfile, check: bool = False, update: bool = False) -> None:
    """Write or compare the section of this profile, or those of all its matrix entries.

    Raises `TorchyardError` if there is no finished build, or, with `check`, if lock and build
    differ.
    """
    names = _list_build_names(subject)
    if names == [subject.name]:
        _lock_profile(subject, check=check, update=update)
        return
    outcomes = {
        name: _lock_matrix_entry(subject, name, check=check, update=update) for name in names
    }
    if failed := [name for name in names if outcomes[name] == "failed"]:
        state = "not what is locked" if check else "not locked"
        raise TorchyardError(
            f"{len(failed)} of {len(names)} builds of the matrix are {state}: {', '.join(failed)}",
            hint="each says above what to do; what is said of the others holds",
        )
    if "done" not in outcomes.values():
        raise TorchyardError(
            f"nothing was {'compared' if check else 'locked'}: of the matrix nothing can be built "
            "here",
            location="matrix",
            hint="doit matrix tells why; change what it lists, or lock on a machine that can",
        )


def _list_build_names(subject: SelectedProfile) -> list[str]:
    """Return the matrix entries, preceded by the profile if it is built or locked itself.

    Without a matrix, only the profile.
    """
    name, cell = split_profile_name(subject.name)
    entries = (
        []
        if cell
        else [f"{name}@{one}" for one in expand_matrix(subject.read_settings().settings.matrix)]
    )
    if not entries:
        return [subject.name]
    is_built = (subject.build / "deps.json").is_file()
    has_own_build = is_built or lock_file.parse_section(_read_lock_text(subject), name) is not None
    return [*([name] if has_own_build else []), *entries]


def _lock_matrix_entry(
    subject: SelectedProfile, name: str, *, check: bool, update: bool
) -> Literal["done", "failed", "impossible"]:
    """Lock or compare one matrix entry. A failure is printed and does not stop the other entries.

    "impossible" means that this machine cannot build the entry. Its section is kept: another
    machine may have locked it.
    """
    try:
        with add_profile_to_errors(name):
            lock_file.parse_section(
                _read_lock_text(subject), name
            )  # report a damaged lock file also for entries that cannot be built
            _lock_profile(_open_matrix_entry(subject, name), check=check, update=update)
    except UnsatisfiableError as error:
        print_report(
            f"{LOCK_NAME}: {name}: as it was, since it cannot be built here: {error.message}"
        )
        return "impossible"
    except TorchyardError as error:
        print_report(f"{LOCK_NAME}: {name}: {error}")
        return "failed"
    return "done"


def _open_matrix_entry(subject: SelectedProfile, name: str) -> SelectedProfile:
    """Open a matrix entry. A `SettingsError` hints at matrix.exclude.

    An entry that no machine can plan (torchvision for that torch) should be excluded.
    """
    try:
        return SelectedProfile(subject.root, name, open_profile(subject.root, name, os.environ))
    except SettingsError as error:
        if split_profile_name(name)[1]:
            advice = "matrix.exclude leaves out this build alone"
            error.hint = "; ".join(filter(None, (error.hint, advice)))
        raise


def _read_lock_text(subject: SelectedProfile) -> str:
    path = subject.root / LOCK_NAME
    return read_yaml_text(path, LOCK_NAME) if path.is_file() else ""


def _lock_profile(subject: SelectedProfile, *, check: bool, update: bool) -> None:
    text = _read_lock_text(subject)
    locked = lock_file.parse_section(text, subject.name)
    if (check or update) and locked is None:
        raise TorchyardError(
            f"{LOCK_NAME} has no section {subject.name}", hint="doit lock writes it"
        )
    profile = subject.require_profile()
    section = (
        _update_section(profile, locked)
        if update and locked
        else _collect_built_section(profile, locked)
    )
    differences = list(lock_file.compare_sections(locked, section)) if locked else []
    for line in differences:
        print_report(line)
    if check:
        _require_no_differences(subject.name, differences)
    elif differences or locked is None:
        files.write_atomic(
            subject.root / LOCK_NAME, lock_file.replace_section(text, subject.name, section)
        )
        print_report(f"{LOCK_NAME}: {subject.name}: {_format_lock_counts(section)}")
    else:
        print_report(f"{LOCK_NAME}: {subject.name}: nothing moved")
    if differences and update:
        name = format_profile_argument(subject.name)
        print_report(f"doit build{name} takes that; then doit lock{name} writes the rest")


def _require_no_differences(name: str, told: list[str]) -> None:
    if told:
        args = format_profile_argument(name)
        count = f"{len(told)} difference{'s' * (len(told) > 1)}"
        raise TorchyardError(
            f"{count} between {LOCK_NAME} and the build",
            location=f"{LOCK_NAME}: {name}",
            hint=f"to take the lock's: doit build{args}; to lock what was built: doit lock{args}",
        )
    print_report(f"{LOCK_NAME}: {name} is what was built")


def _collect_built_section(
    profile: opened.Profile, held: lock_file.LockSection | None
) -> lock_file.LockSection:
    """Return the section of what was built.

    Optional extensions that were not built keep their locked entries.
    """
    finished = FinishedBuild(profile)
    for name, reason in finished.left_out.items():
        if held and name in held.extensions:
            consequence = f"what {LOCK_NAME} holds of it stays"
        else:
            consequence = f"{LOCK_NAME} is without it, and a build fetches it as the settings say"
        print_warning(f"{name} is optional and was not built ({reason}): {consequence}")
    return lock_file.merge_kept_extensions(finished.build_section(), held, finished.left_out)


def _update_section(profile: opened.Profile, held: lock_file.LockSection) -> lock_file.LockSection:
    """Return the section with the commits that the refs point to now.

    Their submodules are known only after a build.
    """
    updates = dict(_find_new_commits(profile, held))
    extensions = {name: updates.get(name, locked) for name, locked in held.extensions.items()}
    torch = updates.get("", held.torch)
    return structs.replace(held, torch=torch, extensions=extensions)


def _find_new_commits(
    profile: opened.Profile, held: lock_file.LockSection
) -> Iterator[tuple[str, lock_file.LockedInputs]]:
    """Yield each component whose ref points to a new commit, by extension name, "" for torch."""
    for stage in profile.plan.stages:
        job = stage.job
        name = job.name if isinstance(job, ExtensionJob) else ""
        locked = held.extensions.get(name) if name else held.torch
        if not isinstance(job, ExtensionJob | SourceJob) or job.kind != "git" or locked is None:
            continue
        try:
            commit = _resolve_commit(job.location, job.ref, job.mirrors)
        except FetchError as error:
            if not getattr(job, "optional", False):
                raise
            print_warning(
                f"{name} is optional, and what {LOCK_NAME} holds of it stays: {error.message}"
            )
            continue
        if locked.commit and commit not in ("", locked.commit):
            yield name, structs.replace(locked, commit=commit, submodules={})


def _resolve_commit(url: str, ref: str, mirrors: Mapping[str, str]) -> str:
    try:
        return git.resolve_remote_commit(url, ref, mirrors)
    except CommandFailedError as error:
        raise FetchError(
            f"{url} does not tell what {ref} is: {error.message}",
            hint="check the URL, the network and the proxy; the lock is as it was",
        ) from error


def _format_lock_counts(section: lock_file.LockSection) -> str:
    components = (section.torch, *section.extensions.values())
    packages = len(section.packages) + len(section.toolkit)
    packages += sum(len(one.packages) + len(one.requires) for one in components)
    commits = sum(bool(one.commit) + len(one.submodules) for one in components)
    wheels = sum(bool(one.sha256) for one in components)
    counts = {"commit": commits, "file": wheels, "package": packages}
    return ", ".join(f"{count} {name}{'s' * (count != 1)}" for name, count in counts.items())
