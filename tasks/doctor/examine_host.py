"""Collect what the checks of a profile need to inspect, and run the checks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tasks.core.check_ids import ALL_CHECK_IDS, CHECK_IDS, CheckId
from tasks.core.deps_model import CompilerLimits
from tasks.doctor.compatibility_checks import (
    check_known_bad,
    check_toolkit_and_gpus,
    check_torch_compilers,
)
from tasks.doctor.folder_checks import (
    check_folders,
    check_merge_conflicts,
    check_submodules,
    check_write_access,
)
from tasks.doctor.host_facts import ProbeRequest, RequiredUrl
from tasks.doctor.machine_checks import check_machine, check_python
from tasks.doctor.network_checks import INDEX, TREE, check_network, check_workers
from tasks.doctor.tool_checks import check_build_tools, check_compilers, find_deps_job
from tasks.knowledge.mirrors import apply_index_mirror, apply_mirror
from tasks.knowledge.resource_estimates import ALL_PLACES
from tasks.settings import compile_workers

if TYPE_CHECKING:
    from pathlib import PurePath

    from tasks.core.model import Host, Layout
    from tasks.doctor.check_result import CheckResult
    from tasks.doctor.host_facts import HostFacts
    from tasks.knowledge import Knowledge
    from tasks.lock.opened_profile_io import Profile
    from tasks.stages.source.model import SourceJob


def build_probe_request(root: PurePath, host: Host, profile: Profile | None) -> ProbeRequest:
    """Return the paths, programs and URLs to inspect.

    If the profile cannot be opened, only those that are independent of the profile.
    """
    if profile is None:
        return ProbeRequest(root, host, tuple((place, root) for place in ALL_PLACES[:-1]))
    job = find_deps_job(profile)
    extensions = [stage.job for stage in profile.plan.find_stages("extensions")]
    layout, build = profile.layout, profile.loaded.settings.build
    return ProbeRequest(
        root=root,
        host=host,
        places=tuple(_list_profile_places(profile)),
        build=layout.build,
        venv=layout.venv,
        torch=_find_existing_torch(profile),
        begun=tuple(_list_started_build_files(profile)),
        into=profile.loaded.settings.install.into or "",
        installed=layout.compute_manifest_path("install"),
        cc=job.cc if job else None,
        cxx=job.cxx if job else None,
        limits=job.limits if job else CompilerLimits(),
        toolkit_home=profile.choice.toolkit.home,
        urls=tuple(_list_required_urls(profile)),
        distributions=tuple(extension.name for extension in extensions),
        sources=tuple((extension.name, extension.original) for extension in extensions),
        own=tuple(_list_path_extensions(profile)),
        checkouts=tuple(_list_user_checkouts(profile)),
        workers=compile_workers.build_distribution_settings(
            build.distribute, build.hosts, layout.build
        ),
    )


def _find_source_job(profile: Profile) -> SourceJob | None:
    job: SourceJob | None = next((stage.job for stage in profile.plan.find_stages("source")), None)
    return job


def _list_path_extensions(profile: Profile) -> Iterator[tuple[str, PurePath, PurePath]]:
    for stage in profile.plan.find_stages("extensions"):
        if stage.job.kind == "path":
            folder = type(profile.layout.build)(stage.job.location)
            yield stage.job.name, folder, folder / stage.job.subdirectory


def _list_user_checkouts(profile: Profile) -> Iterator[tuple[str, PurePath]]:
    """Yield the setting and the folder of every source that the user keeps in a folder."""
    source = _find_source_job(profile)
    if source and source.kind == "path":
        yield "source.path", source.tree
    yield from (
        (f"extensions ({name}).path", folder) for name, folder, _ in _list_path_extensions(profile)
    )


def _find_existing_torch(profile: Profile) -> PurePath | None:
    """Return the folder of the interpreter's torch, for strategy `existing`."""
    torch = profile.choice.python.torch
    if profile.choice.strategy != "existing" or not torch:
        return None
    return type(profile.layout.build)(torch.folder)


def _list_profile_places(profile: Profile) -> Iterator[tuple[str, PurePath]]:
    """Yield the places that the profile's build writes to.

    With source.path, PyTorch is built in the user's tree, so that most of the space is used there.
    """
    source = _find_source_job(profile)
    tree = source.tree if source and source.kind == "path" else profile.layout.build
    yield from list_build_places(profile.layout, tree)


def list_build_places(layout: Layout, tree: PurePath) -> Iterator[tuple[str, PurePath]]:
    """Yield the places that a build writes to, in the checkout or in `tree`."""
    yield "build", tree
    yield "environment", layout.build
    yield "wheels", layout.wheelhouse


def _list_started_build_files(profile: Profile) -> Iterator[PurePath]:
    """Yield files that exist if most of the disk space is already used."""
    if source := _find_source_job(profile):
        yield source.tree / "build" / "CMakeCache.txt"
    else:
        yield profile.layout.compute_manifest_path("wheel")


def _list_required_urls(profile: Profile) -> Iterator[RequiredUrl]:
    if profile.loaded.settings.offline:
        return
    mirrors = profile.pinned_plan.mirrors if profile.pinned_plan else {}
    yield replace(_resolve_index_url(_read_default_index(profile.knowledge), mirrors), usual=True)
    if profile.choice.index:
        yield _resolve_index_url(profile.choice.index, mirrors)
    source = _find_source_job(profile)
    if source and source.kind == "git":
        yield RequiredUrl(TREE, apply_mirror(source.location, source.mirrors))
    for stage in profile.plan.find_stages("extensions"):
        if stage.job.kind == "git":
            url = apply_mirror(stage.job.location, stage.job.mirrors)
            yield RequiredUrl(stage.job.name, url, stage.job.optional)


def _resolve_index_url(url: str, mirrors: Mapping[str, str]) -> RequiredUrl:
    index_url = apply_index_mirror(url, mirrors)
    return RequiredUrl(INDEX, index_url, instead_of="" if index_url == url else url)


def _read_default_index(knowledge: Knowledge) -> str:
    return str(knowledge.pytorch_notes["indexes"]["pypi"])


_CHECKS = (
    check_machine,
    check_python,
    check_build_tools,
    check_compilers,
    check_toolkit_and_gpus,
    check_torch_compilers,
    check_submodules,
    check_merge_conflicts,
    check_known_bad,
    check_folders,
    check_network,
    check_workers,
    check_write_access,
)


def check_host(
    s: HostFacts,
    profile: Profile | None,
    knowledge: Knowledge,
    wanted: Collection[CheckId] = ALL_CHECK_IDS,
) -> tuple[CheckResult, ...]:
    """Return the results of the wanted checks; without `profile` it could not be opened."""
    results = [
        symptom
        for check in _CHECKS
        for symptom in check(s, profile, knowledge)
        if symptom.id in wanted
    ]
    return tuple(sorted(results, key=lambda symptom: CHECK_IDS.index(symptom.id)))
