"""Every suggestion of a refusal can be planned, and there is one if any combination of torch, CUDA
and Python works.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tasks.core.errors import SettingsError, TorchyardError
from tasks.core.model import Host, InstalledToolkit, System
from tasks.planning.resolve import resolve_settings, resolve_without_suggestions
from tasks.planning.suggestions import is_known_bad
from tasks.settings.schema import parse_settings
from tests.support.hints import CUDAS, Given, apply_hint
from tests.support.newest import LATER_TORCH, NEXT_CUDA
from tests.unit.planning.test_decide import CUDA_124, CUDA_132, KNOWLEDGE, host

PATCHES = [found.patch for found in KNOWLEDGE.releases.values()]
EXTENSIONS: tuple[list[Given], ...] = ([], [{"name": "smoke", "path": "templates/smoke"}])
GPUS = ("V100", "RTX 4090", "RTX 5090", "11.0", "10.7", "3.7", "12.1", "9.0a", "8.8", "12.0f")
LISTS = [*([gpu] for gpu in GPUS), ["V100", "11.0"], ["V100", "RTX 5090"]]
SYSTEMS: tuple[tuple[System, str], ...] = (
    ("linux", "x86_64"),
    ("windows", "AMD64"),
    ("linux", "aarch64"),
)
REPORTED = [  # each once had a suggestion that was refused too, or none
    (["RTX 5090"], "2.15.0", "auto", "auto", "path", "3.12.4", f"{NEXT_CUDA}.1"),
    (["V100", "11.0"], "2.15.0", "auto", "auto", "auto", "3.16.0", ""),
    (["RTX 4090"], LATER_TORCH, "prebuilt", "13.5", "path", "3.7.9", "11.8.89"),
    (["12.1"], "2.5.1", "source", "13.0", "auto", "3.7.9", ""),
    (["10.7"], "2.6.0", "auto", NEXT_CUDA, "system", "3.16.0", ""),
    (["RTX 4090"], "2.2.2", "prebuilt", "12.4", "pypi", "3.15.0", ""),
]


def situation(  # noqa: PLR0917 - all that is asked for
    gpus: list[str], torch: str, strategy: str, cuda: str, provider: str, python: str, own: str
) -> tuple[Given, Host]:
    toolkit = {"version": cuda, "provider": provider}
    kits: tuple[InstalledToolkit, ...] = ()
    if provider == "path":
        toolkit["path"] = "/opt/cuda"
        kits = (InstalledToolkit("/opt/cuda", own, asked=True),)
    settings = {"torch": {"version": torch, "strategy": strategy}, "target": {"gpus": gpus}}
    return {**settings, "toolkit": toolkit}, host(python=python, toolkits=kits)


def sampled(count: int) -> Iterator[tuple[Given, Host]]:
    pick = random.Random(19).choice
    for _ in range(count):
        requested, on = situation(
            pick(LISTS),
            pick(["2.0.1", "2.2.2", "2.5.1", "2.6.0", "2.9.1", "2.13.0", "2.15.0", LATER_TORCH]),
            pick(["auto", "prebuilt", "source"]),
            pick(["auto", "auto", "11.8", "12.4", "12.8", "13.0", "13.5", NEXT_CUDA]),
            pick(["auto", "system", "pypi", "path"]),
            pick(["3.7.9", "3.9.1", "3.12.4", "3.13.1", "3.15.0", "3.16.0"]),
            pick(["12.4.131", f"{NEXT_CUDA}.1", "13.2.86", "11.8.89"]),
        )
        system, machine = pick(SYSTEMS)
        kits = on.toolkits or pick([(), (CUDA_124,), (CUDA_132,)])
        there = replace(on, system=system, machine=machine, toolkits=kits)
        yield {**requested, "extensions": pick(EXTENSIONS)}, there


def plans(asked: Given, on: Host) -> bool:
    """Return True if it can be planned and is not known to fail."""
    settings = parse_settings(asked)
    try:
        choice = resolve_without_suggestions(settings, on, KNOWLEDGE)
    except TorchyardError:
        return False
    return not is_known_bad(KNOWLEDGE, choice, on)


def any_combination(asked: Given, on: Host) -> bool:
    """Return True if any torch, CUDA and Python works here. Every release supports Python 3.11."""
    provider = asked["toolkit"]["provider"]
    every = tuple(InstalledToolkit(f"/k{cuda}", f"{cuda}.1") for cuda in CUDAS)
    kits = [on.toolkits]
    if provider == "path":
        kits += [(InstalledToolkit("/opt/cuda", f"{cuda}.1", asked=True),) for cuda in CUDAS]
    elif provider != "pypi":
        kits.append(every)
    changes = itertools.product(
        (on.python.version, "3.11"),
        (asked["torch"]["version"], *PATCHES),
        dict.fromkeys((asked["toolkit"]["version"], "auto", *CUDAS)),
        kits,
    )
    return any(
        plans(
            {
                **asked,
                "torch": {**asked["torch"], "version": torch},
                "toolkit": {**asked["toolkit"], "version": cuda},
            },
            replace(on, python=replace(on.python, version=python), toolkits=there),
        )
        for python, torch, cuda, there in changes
    )


@pytest.mark.parametrize(
    ("requested", "on"), [*(situation(*one) for one in REPORTED), *sampled(24)]
)
def test_suggestions_of_a_refusal_can_be_planned_and_none_is_missed(
    requested: Given, on: Host
) -> None:
    result = ""
    try:
        resolve_settings(parse_settings(requested), on, KNOWLEDGE)
    except SettingsError as error:
        result = error.hint
    if not result:
        return
    lines = [line for line in result.split("; or ") if "doctor --accept" not in line]
    tries = {line: apply_hint(line, requested, on) for line in lines}
    for line, tried in tries.items():
        assert all(plans(*one) for one in tried), line
    if not any(tries.values()) and "profiles" not in result:
        assert not any_combination(requested, on), result
