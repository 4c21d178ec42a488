"""List what the checks of a profile must inspect, and run the checks."""

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
    check_leftovers,
    check_merge_conflicts,
    check_submodules,
    check_write_access,
)
from tasks.doctor.host_facts import ProbeRequest, RequiredUrl
from tasks.doctor.machine_checks import (
    check_build_tools,
    check_compilers,
    check_machine,
    check_python,
    find_deps_job,
)
from tasks.doctor.network_checks import INDEX, TREE, check_network, check_workers
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

    If `profile` is None, return only those that do not depend on a profile.
    """
    if profile is None:
        return ProbeRequest(root, host, tuple((place, root) for place in ALL_PLACES[:-1]))
    deps, source = find_deps_job(profile), _find_source_job(profile)
    extensions = [stage.job for stage in profile.plan.find_stages("extensions")]
    layout, settings, choice = profile.layout, profile.loaded.settings, profile.choice
    path_type = type(layout.build)
    own_folders = [(job, path_type(job.location)) for job in extensions if job.kind == "path"]
    # With source.path, PyTorch is built in the user's tree, which uses most of the space
    own_tree = source.tree if source and source.kind == "path" else None
    checkouts = [(f"extensions ({job.name}).path", folder) for job, folder in own_folders]
    torch = choice.python.torch if choice.strategy == "existing" else None
    # This file exists if the build already uses most of its disk space
    manifest = layout.compute_manifest_path("wheel")
    build = settings.build
    return ProbeRequest(
        root=root,
        host=host,
        places=tuple(list_build_places(layout, own_tree or layout.build)),
        build=layout.build,
        venv=layout.venv,
        torch=path_type(torch.folder) if torch else None,
        begun=(source.tree / "build" / "CMakeCache.txt" if source else manifest,),
        into=settings.install.into or "",
        installed=layout.compute_manifest_path("install"),
        cc=deps.cc if deps else None,
        cxx=deps.cxx if deps else None,
        limits=deps.limits if deps else CompilerLimits(),
        toolkit_home=choice.toolkit.home,
        urls=() if settings.offline else (*_list_required_urls(profile),),
        distributions=tuple(job.name for job in extensions),
        sources=tuple((job.name, job.original) for job in extensions),
        own=tuple((job.name, folder, folder / job.subdirectory) for job, folder in own_folders),
        checkouts=((("source.path", own_tree),) if own_tree else ()) + (*checkouts,),
        workers=compile_workers.build_distribution_settings(
            build.distribute, build.hosts, layout.build
        ),
    )


def _find_source_job(profile: Profile) -> SourceJob | None:
    return next((stage.job for stage in profile.plan.find_stages("source")), None)


def list_build_places(layout: Layout, tree: PurePath) -> Iterator[tuple[str, PurePath]]:
    """Yield the label and path of each place that a build writes to; PyTorch is built in `tree`."""
    yield "build", tree
    yield "environment", layout.build
    yield "wheels", layout.wheelhouse


def _list_required_urls(profile: Profile) -> Iterator[RequiredUrl]:
    mirrors = profile.pinned_plan.mirrors if profile.pinned_plan else {}
    default_index = str(profile.knowledge.pytorch_notes["indexes"]["pypi"])
    yield replace(_resolve_index_url(default_index, mirrors), usual=True)
    if profile.choice.index:
        yield _resolve_index_url(profile.choice.index, mirrors)
    source = _find_source_job(profile)
    if source and source.kind == "git":
        yield RequiredUrl(TREE, apply_mirror(source.location, source.mirrors))
    for job in (stage.job for stage in profile.plan.find_stages("extensions")):
        if job.kind == "git":
            url = apply_mirror(job.location, job.mirrors)
            yield RequiredUrl(job.name, url, optional=job.optional)


def _resolve_index_url(url: str, mirrors: Mapping[str, str]) -> RequiredUrl:
    index_url = apply_index_mirror(url, mirrors)
    return RequiredUrl(INDEX, index_url, instead_of="" if index_url == url else url)


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
    check_leftovers,
    check_network,
    check_workers,
    check_write_access,
)


def check_host(
    s: HostFacts,
    profile: Profile | None,
    knowledge: Knowledge,
    checks: Collection[CheckId] = ALL_CHECK_IDS,
) -> tuple[CheckResult, ...]:
    """Return the results of `checks`. `profile` is None if the profile could not be opened."""
    results = (found for check in _CHECKS for found in check(s, profile, knowledge))
    selected = [found for found in results if found.id in checks]
    return tuple(sorted(selected, key=lambda found: CHECK_IDS.index(found.id)))
