"""Random profiles, checked against the published wheels and the programs that read a plan.

A plan that is accepted must agree with the wheel's metadata, with the arch lists that this torch
accepts, and with the archs and host compilers that this CUDA compiler accepts. A refusal must have
a way out that works, or a search proves that there is none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

import pytest

from tasks.core.errors import SettingsError
from tasks.core.model import Host, InstalledToolkit, InstalledTorch
from tasks.core.resolution import Resolution, UnsatisfiableError
from tasks.knowledge.cuda_toolkits import list_published_toolkits
from tasks.knowledge.torch_releases import find_release
from tasks.planning.resolve import resolve_torch_version, resolve_without_suggestions
from tasks.planning.suggestions import Suggestion, is_known_bad, list_suggestions
from tasks.settings.schema import parse_settings
from tests.support.checkout import KNOWLEDGE
from tests.support.hints import Given, apply_hint
from tests.support.plancheck import Planned, check_build, check_plan, check_wheel, plan_settings
from tests.support.publishedwheels import PublishedWheels
from tests.support.randomprofiles import (
    CUDAS,
    RELEASES,
    RandomProfile,
    list_pythons,
    make_profiles,
)

pytestmark = [pytest.mark.real, pytest.mark.needs("gcc", "cmake")]

SEED, COUNT = 2, 200
EVERY_TOOLKIT = tuple(InstalledToolkit(f"/cuda-{cuda}", f"{cuda}.1") for cuda in CUDAS)


@dataclass(frozen=True)
class Refused:
    """A profile that has no plan, the error, and the suggestions that its hint consists of."""

    profile: RandomProfile
    error: SettingsError
    suggestions: tuple[Suggestion, ...]

    def __str__(self) -> str:
        """Return the profile, the message and the hint."""
        return f"{self.profile}: {self.error.message} -> {self.error.hint}"


Result = Planned | Refused


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> PublishedWheels:
    return PublishedWheels(tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return [plan_profile(profile) for profile in make_profiles(SEED, COUNT)]


def plan_profile(profile: RandomProfile) -> Result:
    try:
        return plan_settings(str(profile), profile.settings, profile.host)
    except UnsatisfiableError as error:
        settings = parse_settings(profile.settings)
        settings = resolve_torch_version(settings, profile.host, KNOWLEDGE)
        return Refused(profile, error, list_suggestions(settings, profile.host, KNOWLEDGE))
    except SettingsError as error:
        return Refused(profile, error, ())


def test_prebuilt_torch_is_published_for_the_python_and_the_gpus(
    results: list[Result], published: PublishedWheels
) -> None:
    planned = [one for one in results if isinstance(one, Planned)]
    prebuilt = [one for one in planned if one.resolution.strategy == "prebuilt"]
    mistakes = [line for one in prebuilt for line in check_wheel(one, published)]
    require_none(mistakes, count_plans(prebuilt, published))


def test_builds_have_archs_and_compilers_that_torch_and_nvcc_accept(
    results: list[Result], published: PublishedWheels
) -> None:
    planned = [one for one in results if isinstance(one, Planned)]
    built = [one for one in planned if one.resolution.needs_compiler]
    mistakes = [line for one in built for line in check_build(one, published)]
    require_none(mistakes, count_plans(built, published))


def test_refusals_have_a_way_out_that_works_or_there_is_none(
    results: list[Result], published: PublishedWheels
) -> None:
    mistakes, counts = [], Counter[str]()
    for refused in (one for one in results if isinstance(one, Refused)):
        found = list(follow_hints(refused, counts))
        mistakes += [one for one in found if isinstance(one, str)]
        ways = [one for one in found if isinstance(one, Planned)]
        mistakes += [line for one in ways for line in check_plan(one, published)]
        counts["plans of suggestions"] += len(ways)
    require_none(mistakes, counts)


def require_none(mistakes: list[str], counts: Mapping[str, int]) -> None:
    """Print the counts. Fail if there are mistakes, or too few plans or refusals to find any."""
    print(dict(counts))
    assert not mistakes, "\n".join([f"{len(mistakes)} mistakes, {dict(counts)}", *mistakes])
    assert sum(counts.values()) > COUNT // 10, dict(counts)


def count_plans(planned: Iterable[Planned], published: PublishedWheels) -> Counter[str]:
    """Count the plans by strategy, and the prebuilt ones by index."""
    counts = Counter[str]()
    for one in planned:
        kind: str = one.resolution.strategy
        if kind == "prebuilt":
            kind += " of pytorch.org" if one.resolution.index else " of the default index"
        counts[kind if published.has_torch(one.torch) else f"{kind}, not published"] += 1
    return counts


def follow_hints(refused: Refused, counts: Counter[str]) -> Iterator[Planned | str]:
    """Yield the plan of each suggestion, and a line for each that does not lead to one.

    Without suggestions, yield a line if there is a way out nevertheless, or a false hint.
    """
    profile, error = refused.profile, refused.error
    if refused.suggestions:
        counts["refused, with suggestions"] += 1
        if error.hint != "; or ".join(one.hint for one in refused.suggestions):
            yield f"{refused}; the suggestions are not the hint"
        for suggestion in refused.suggestions:
            yield from follow_suggestion(profile, suggestion)
    elif named := find_named_way(refused):
        counts["refused, with another value to write"] += 1
        yield from (one for one in [named] if isinstance(one, Planned))
    elif way := find_way_out(profile):
        yield f"{refused}; this works: {way}"
    else:
        counts["refused, with a proof that no plan exists"] += 1
        if false := re.findall(r'(?:torch|toolkit)\.version|write "[^"]+"', error.hint):
            yield f"{refused}; {false[0]} does not help"


def list_named_changes(refused: Refused) -> Iterator[RandomProfile]:
    """Yield the profile with each change that a hint without suggestions names.

    These are another capability to write, or a Python that has torch and another strategy.
    """
    profile, error = refused.profile, refused.error
    settings, host = profile.settings, profile.host
    written = re.match(r'write "(.+?)"', error.hint)
    arch = re.search(r"builds no extensions for (\S+),", error.message)
    if written and arch:
        gpus = settings["target"]["gpus"]
        gpus = [written[1] if gpu == arch[1] else gpu for gpu in gpus]
        yield replace(profile, settings={**settings, "target": {"gpus": gpus}})
    if "the interpreter that has torch" in error.hint:
        torch = {**settings["torch"], "strategy": "auto"}
        yield replace(profile, settings={**settings, "torch": torch})
        for release in RELEASES:
            installed = InstalledTorch(release.patch, release.pypi_cuda, "/site/torch")
            python = replace(host.python, torch=installed)
            yield replace(profile, host=replace(host, python=python))


def find_named_way(refused: Refused) -> Result | None:
    """Return the plan or the suggestions that the changes named in hints lead to, if any do."""
    for change in list_named_changes(refused):
        result = plan_profile(change)
        if isinstance(result, Planned) or result.suggestions:
            return result
        if way := find_named_way(result):
            return way
    return None


def find_way_out(profile: RandomProfile) -> str:
    """Return a combination that has a plan, "" if a search of all combinations finds none.

    The GPUs, the platform, the extensions and torch.strategy stay, `auto` being both prebuilt and
    source. With the strategy `existing`, its Python and its torch stay too. The search tries every
    recorded release of torch and the profile's own, each Python that the release supports, every
    toolkit.version, and the toolkits of the host or every toolkit. The provider is `auto`, which
    accepts what the others do. A plan does not count if it is known to fail, or if it builds torch
    with a CUDA release that PyTorch does not publish this torch for.
    """
    settings, host = profile.settings, profile.host
    torch, own = settings["torch"], settings["toolkit"]["version"]
    torches = [(torch["version"], host.python.version)]
    if torch["strategy"] != "existing":
        versions = [torch["version"], *(release.patch for release in RELEASES)]
        torches += [(one, f"{python}.0") for one in versions for python in list_pythons(one)]
    kits = (host.toolkits, EVERY_TOOLKIT)
    for (version, python), cuda, toolkits in product(torches, ("auto", *CUDAS), kits):
        toolkit = {"version": cuda, "provider": "auto"}
        changed = {**settings, "torch": {**torch, "version": version}, "toolkit": toolkit}
        interpreter = replace(host.python, version=python)
        there = replace(host, python=interpreter, toolkits=toolkits)
        if choice := _resolve(changed, there, own):
            found = "every CUDA" if toolkits is EVERY_TOOLKIT else "no CUDA but its own"
            keys = f"torch.version: {version}, toolkit.version: {cuda} and toolkit.provider: auto"
            plan = f"{choice.strategy} torch {choice.torch} with CUDA {choice.cuda}"
            return f"{keys}, with Python {python} on a host that has {found} ({plan})"
    return ""


def _resolve(settings: Given, host: Host, own_cuda: str) -> Resolution | None:
    """Return the resolution, None if there is none, or no build of it is known to work."""
    try:
        choice = resolve_without_suggestions(parse_settings(settings), host, KNOWLEDGE)
    except SettingsError:
        return None
    if choice.strategy == "source" and choice.cuda != own_cuda:
        release = find_release(KNOWLEDGE, choice.torch)
        query = (KNOWLEDGE, release, choice.targets, choice.system)
        if choice.cuda not in list_published_toolkits(*query):
            return None
    return None if is_known_bad(KNOWLEDGE, choice, host) else choice


def follow_suggestion(profile: RandomProfile, suggestion: Suggestion) -> Iterator[Planned | str]:
    """Yield the plan of each alternative in a suggestion, or a line if it has none."""
    name = f"{profile}: {suggestion.hint}"
    ways = apply_hint(suggestion.hint, profile.settings, profile.host)
    if not ways:
        yield f"{name}: the test cannot apply this hint"
    for settings, host in ways:
        try:
            planned = plan_settings(name, settings, host)
        except SettingsError as error:
            yield f"{name}: {error.message}"
            continue
        yield planned
        if is_known_bad(KNOWLEDGE, planned.resolution, host):
            yield f"{name}: this is known to fail"
        found, tried = summarize(planned.resolution), summarize(suggestion.resolution)
        if found != tried and "profiles" not in suggestion.hint:
            yield f"{name}: it leads to {found}, but {tried} was tried"


def summarize(choice: Resolution) -> tuple[object, ...]:
    """Return what must be the same in the plan of a suggestion as when it was tried."""
    return (
        *(choice.strategy, choice.torch, choice.cuda, choice.index),
        *(choice.targets, choice.toolkit.version),
    )
