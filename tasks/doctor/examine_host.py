"""List what the checks of a profile inspect, check the network, and run all checks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from tasks.core.check_ids import ALL_CHECK_IDS, CHECK_IDS, CheckId
from tasks.core.errors import OFFLINE_HINT
from tasks.doctor import check_result, compatibility_checks, folder_checks, machine_checks
from tasks.doctor.check_result import report_ok, report_problem, report_unchecked, report_warning
from tasks.doctor.host_facts import ProbeRequest, RequiredUrl
from tasks.knowledge.mirrors import apply_index_mirror, apply_mirror
from tasks.knowledge.read_facts import MAX_FACT_AGE_DAYS
from tasks.knowledge.resource_estimates import ALL_PLACES
from tasks.knowledge.torch_releases import find_newer_releases
from tasks.settings.compile_workers import DISTRIBUTOR_PROGRAMS, build_distribution_settings

if TYPE_CHECKING:
    from pathlib import PurePath

    from tasks.core.model import Host, Layout
    from tasks.core.project import Project
    from tasks.doctor.check_result import CheckResult, Results
    from tasks.doctor.host_facts import HostFacts
    from tasks.knowledge import Knowledge
    from tasks.lock.opened_profile_io import Profile
    from tasks.stages.source.model import SourceJob


INDEX = "the package index"
TREE = "PyTorch's tree"


def build_probe_request(project: Project, host: Host, profile: Profile | None) -> ProbeRequest:
    """Return the paths, programs and URLs to inspect; without a profile, only the project."""
    if profile is None:
        places = tuple((place, project.outputs) for place in ALL_PLACES[:-1])
        return ProbeRequest(project, host, places)
    source = _find_source_job(profile)
    extensions = [stage.job for stage in profile.plan.find_stages("extensions")]
    layout, settings, choice = profile.layout, profile.loaded.settings, profile.choice
    path_type = type(layout.build)
    own_folders = [(job, path_type(job.location)) for job in extensions if job.kind == "path"]
    # With source.path, PyTorch is built in the user's tree, which uses most of the space
    own_tree = source.tree if source and source.kind == "path" else None
    checkouts = [(f"extensions ({job.name}).path", folder) for job, folder in own_folders]
    torch = choice.python.torch if choice.strategy == "existing" else None
    manifest, build = layout.compute_manifest_path("wheel"), settings.build
    return ProbeRequest(
        project=project,
        host=host,
        places=tuple(list_build_places(layout, own_tree or layout.build)),
        build=layout.build,
        venv=layout.venv,
        torch=path_type(torch.folder) if torch else None,
        # This file exists if the build already uses most of its disk space
        begun=(source.tree / "build" / "CMakeCache.txt" if source else manifest,),
        into=settings.install.into or "",
        installed=layout.compute_manifest_path("install"),
        deps=machine_checks.find_deps_job(profile),
        toolkit_home=choice.toolkit.home,
        urls=() if settings.offline else (*_list_required_urls(profile),),
        sources=tuple((job.name, job.original) for job in extensions),
        own=tuple((job.name, folder, folder / job.subdirectory) for job, folder in own_folders),
        checkouts=((("source.path", own_tree),) if own_tree else ()) + (*checkouts,),
        workers=build_distribution_settings(build.distribute, build.hosts, layout.build),
    )


def _find_source_job(profile: Profile) -> SourceJob | None:
    return next((stage.job for stage in profile.plan.find_stages("source")), None)


def list_build_places(layout: Layout, tree: PurePath) -> Iterator[tuple[str, PurePath]]:
    """Yield label and path of each folder that a build writes to. PyTorch is built in `tree`."""
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


def check_network(s: HostFacts, profile: Profile | None, _: Knowledge) -> Results:
    """Yield the results of the checks `proxies`, `index` and `git-hosts`."""
    yield _check_proxies(s)
    if profile and (bundle := profile.loaded.settings.offline):
        message = f"offline: everything comes from {bundle}"
        yield from (report_ok(check, message) for check in ("index", "git-hosts"))
        return
    if s.reach is None or profile is None:
        reason = "no host was contacted" if profile else check_result.NO_PROFILE
        yield from (report_unchecked(check, reason) for check in ("index", "git-hosts"))
        return
    for url in s.reach:
        yield _check_index(url) if url.subject == INDEX else _check_git_host(s, url)
    if all(url.subject == INDEX for url in s.reach):
        yield report_ok("git-hosts", "no source comes from a git host")


def check_knowledge(s: HostFacts, _: Profile | None, knowledge: Knowledge) -> Results:
    """Check `knowledge`: whether the recorded facts are old and the index has newer releases."""
    if not s.today:
        yield report_unchecked("knowledge")
        return
    days = (date.fromisoformat(s.today) - date.fromisoformat(knowledge.date)).days
    message = f"the facts about PyTorch and CUDA were recorded on {knowledge.date}"
    newer = ", ".join(find_newer_releases(knowledge))
    if days <= MAX_FACT_AGE_DAYS or not newer:
        yield report_ok("knowledge", message)
        return
    message += f", {days} days ago; {knowledge.read.index} has {newer}"
    hint = check_result.format_command("git pull", "to get the recorded facts of these releases:")
    yield report_warning("knowledge", message, hint)


def _check_index(found: RequiredUrl) -> CheckResult:
    url = found.url + (f" (mirror of {found.instead_of})" if found.instead_of else "")
    if found.answers:
        return report_ok("index", f"{url} answers", found.subject)
    variables = "PIP_INDEX_URL and UV_INDEX_URL for all packages, torch.index for torch's wheel"
    hint = f"check network and proxy\nor set another index: {variables}\n{OFFLINE_HINT}"
    if found.instead_of:
        hint = f"remove the mirror from mirrors or source.mirrors, or choose another\nor {hint}"
    if found.optional:
        message = f"{url} does not answer; the finished stages do not need it"
        return report_warning("index", message, hint, found.subject)
    return report_problem("index", f"{url} does not answer", hint, found.subject)


def _check_git_host(s: HostFacts, found: RequiredUrl) -> CheckResult:
    message = f"{found.subject}: {found.url}"
    if found.answers:
        return report_ok("git-hosts", f"{message} answers", found.subject)
    message += " does not answer"
    setting = "source.path" if found.subject == TREE else "path instead of git"
    hint = f"check network and proxy\nor set {setting} to build a local checkout\n{OFFLINE_HINT}"
    if found.optional:
        existing = "the build uses the existing files"
        message += f"; {existing if s.begun else 'this optional source will be left out'}"
        return report_warning("git-hosts", message, hint, found.subject)
    return report_problem("git-hosts", message, hint, found.subject)


def _check_proxies(s: HostFacts) -> CheckResult:
    """Warn if the upper-case and lower-case variables of a proxy have different values.

    curl, which git uses, prefers https_proxy to HTTPS_PROXY, and never reads HTTP_PROXY.
    """
    if s.proxies is None:
        return report_unchecked("proxies")
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        lower, upper = s.proxies.get(name), s.proxies.get(name.upper())
        if lower is not None and upper is not None and lower != upper:
            message = f"{name} is {lower}, but {name.upper()} is {upper}"
            hint = "set both to the same value: git and pip prefer different ones"
            return report_warning("proxies", message, hint)
    if invalid := next((name for name, address in s.proxies.items() if not address), ""):
        message = f"the proxy variable {invalid} names no host"
        return report_warning("proxies", message, f"set {invalid} to http://host:port")
    proxies = ", ".join(f"{name} is {address}" for name, address in s.proxies.items())
    return report_ok("proxies", proxies or "no proxy is set")


# distcc has no authentication: anyone who can reach the port can run programs
_DAEMON_COMMANDS = {
    "distcc": "distccd --daemon --jobs N --allow YOUR-NETWORK/24 --listen ITS-ADDRESS",
    "icecream": "icecc-scheduler there, and iceccd --scheduler-host THAT-HOST on each machine",
}


def check_workers(s: HostFacts, profile: Profile | None, knowledge: Knowledge) -> Results:
    """Check `workers`: whether the workers of distributed compilation answer."""
    kind = profile.loaded.settings.build.distribute if profile else "off"
    if kind == "off":
        yield report_ok("workers", "nothing is compiled on other machines")
    elif s.hands_on is None or s.workers is None:
        yield report_unchecked("workers", "no worker was contacted")
    elif not s.hands_on.path:
        program = DISTRIBUTOR_PROGRAMS[kind]
        message = f"{program} is not installed, so everything is compiled on this machine"
        hint = check_result.format_install_hint(knowledge, s, kind)
        yield report_warning("workers", message, hint, program)
    else:
        steps = "remove the worker from build.hosts, or start it, in a network that you trust:"
        hint = check_result.format_command(_DAEMON_COMMANDS[kind], steps)
        for host in s.workers:
            message = f"{host.url} does not answer: the build continues without it"
            if host.answers:
                yield report_ok("workers", f"{host.url} answers", host.subject)
            else:
                yield report_warning("workers", message, hint, host.subject)


_CHECKS = (
    machine_checks.check_machine,
    machine_checks.check_python,
    machine_checks.check_build_tools,
    machine_checks.check_compilers,
    compatibility_checks.check_toolkit_and_gpus,
    compatibility_checks.check_torch_compilers,
    folder_checks.check_submodules,
    folder_checks.check_merge_conflicts,
    compatibility_checks.check_known_bad,
    folder_checks.check_folders,
    folder_checks.check_leftovers,
    check_network,
    check_knowledge,
    check_workers,
    folder_checks.check_write_access,
)


def check_host(
    s: HostFacts,
    profile: Profile | None,
    knowledge: Knowledge,
    checks: Collection[CheckId] = ALL_CHECK_IDS,
) -> tuple[CheckResult, ...]:
    """Return the results of `checks`. `profile` is `None` if the profile could not be opened."""
    results = (found for check in _CHECKS for found in check(s, profile, knowledge))
    selected = [found for found in results if found.id in checks]
    return tuple(sorted(selected, key=lambda found: CHECK_IDS.index(found.id)))
