"""For all facts: suggestions work, and plans can be built."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st

from tasks.core.errors import SettingsError, TorchyardError
from tasks.core.model import Arch, Gpu, Host, InstalledToolkit, System
from tasks.core.resolution import Combination, Resolution
from tasks.knowledge.cuda_toolkits import (
    is_known_to_fail,
    list_capable_toolkits,
    list_published_toolkits,
)
from tasks.knowledge.known_problems import find_known_bad
from tasks.planning.resolve import resolve_without_suggestions
from tasks.planning.suggestions import format_wheel_alternatives, is_known_bad, list_suggestions
from tasks.settings.schema import Settings, parse_settings
from tests.support.checkout import RELEASE
from tests.support.newest import NEWEST_RELEASE, PREVIOUS_RELEASE
from tests.support.rows import each_row
from tests.unit.planning.test_decide import CUDA_130, KNOWLEDGE, host, refused

PREVIOUS = f"torch {PREVIOUS_RELEASE.patch} (CUDA {PREVIOUS_RELEASE.pypi_cuda})"
# A fetched wheel that lacks code → the suggested replacement on a machine with an RTX 5090
INSTEAD: list[tuple[dict[str, Any], str]] = [
    (
        {"version": "2.15.9", "index": "/wheels", "local": "mine"},
        (
            f'set torch.index: auto and torch.version: "{RELEASE}" and torch.local: null: '
            f"PyPI's torch {RELEASE} (CUDA 13.2) holds sm_120; or "
            "set torch.strategy: source and torch.local: null, to build it"
        ),
    ),
    (
        {"version": NEWEST_RELEASE.patch},
        (
            f'set torch.version: "{PREVIOUS_RELEASE.patch}": PyPI\'s {PREVIOUS} holds sm_120; or '
            "set torch.strategy: source, to build it"
        ),
    ),
]
SMOKE = {"name": "smoke", "path": "templates/smoke"}
ARCHS = sorted({arch for kit in KNOWLEDGE.toolkits.values() for arch in kit.makes})
PLAIN = [str(arch) for arch in ARCHS if not arch.suffix]
FEW = ["3.5", "7.0", "8.6", "9.0", "10.0", "12.0"]
RELEASES = list(KNOWLEDGE.releases.values())
PATCHES = [found.patch for found in RELEASES]
ALL_TOOLKITS = tuple(InstalledToolkit(f"/cuda-{cuda}", f"{cuda}.1") for cuda in KNOWLEDGE.toolkits)


def asking(torch: str, gpus: list[str], strategy: str, **more: Any) -> Settings:
    """`python_of` is a Python that the release has wheels for."""
    given = {"torch": {"version": torch, "strategy": strategy}, "target": {"gpus": gpus}, **more}
    return parse_settings(given)


def python_of(torch: str) -> str:
    return next(found.python[1] for found in RELEASES if found.patch == torch)


def tried(settings: Settings, on: Host) -> tuple[Resolution | None, str]:
    """Return the resolution, or the reason why there is none."""
    try:
        return resolve_without_suggestions(settings, on, KNOWLEDGE), ""
    except SettingsError as error:
        return None, error.message


@pytest.mark.parametrize(("torch", "message"), INSTEAD)
def test_suggestions_for_a_wheel_without_code_can_be_planned(
    torch: dict[str, Any], message: str
) -> None:
    settings = parse_settings({"torch": torch, "target": {"gpus": ["12.0"]}})
    on = host(toolkits=ALL_TOOLKITS)
    assert format_wheel_alternatives(settings, on, KNOWLEDGE) == message
    for advice in message.split("; or "):
        keys = dict(re.findall(r"torch\.(\w+): ([^\s,:]+)", advice))
        changed = {key: json.loads(text) if text[0] in '"n' else text for key, text in keys.items()}
        again = {"torch": {**torch, **changed}, "target": {"gpus": ["12.0"]}}
        choice, refused = tried(parse_settings(again), on)
        assert choice, refused


def is_bad(choice: Resolution, extensions: object) -> bool:
    findings = find_known_bad(
        KNOWLEDGE,
        Combination(
            system=choice.system,
            cuda=choice.toolkit.version or None,
            torch=choice.torch,
            archs=choice.targets,
            strategy=choice.strategy,
            extensions=bool(extensions),
        ),
    )
    return any(finding.level == "error" for finding in findings)


@pytest.mark.parametrize(
    ("strategy", "archs"),
    [
        ("auto", FEW),
        ("source", FEW),
        ("prebuilt", FEW),
        pytest.param("auto", PLAIN, marks=pytest.mark.long),
    ],
)
@each_row("torch", PATCHES)
def test_no_suggestion_is_known_bad(torch: str, strategy: str, archs: list[str]) -> None:
    for here, arch in itertools.product((False, True), archs):
        on = host(python=python_of(torch), toolkits=(CUDA_130,) if here else ())
        extensions = [SMOKE] if here else []
        settings = asking(torch, [arch], strategy, extensions=extensions)
        try:
            resolve_without_suggestions(settings, on, KNOWLEDGE)
        except TorchyardError:
            for remedy in list_suggestions(settings, on, KNOWLEDGE):
                choice = remedy.resolution
                assert not is_bad(choice, extensions), (arch, remedy)
                if choice.strategy == "source":
                    found = next(item for item in RELEASES if item.patch == choice.torch)
                    assert choice.cuda in list_published_toolkits(
                        KNOWLEDGE, found, choice.targets, choice.system
                    )


def test_required_toolkit_is_suggested_before_one_that_needs_a_setting() -> None:
    on = host(python=python_of("2.6.0"), toolkits=(CUDA_130,))
    settings = asking("2.6.0", ["9.0"], "auto", extensions=[SMOKE])
    result = [remedy.hint for remedy in list_suggestions(settings, on, KNOWLEDGE)]
    assert any(todo.startswith("install CUDA 12.4 ") for todo in result), result
    assert not any("11.8" in todo for todo in result)


def test_hint_omits_old_gpu_next_to_a_new_one() -> None:
    cards = (Gpu("NVIDIA GeForce GT 710", "3.5"), Gpu("NVIDIA GeForce RTX 5090", "12.0"))
    on = replace(host(python="3.12.1"), gpus=cards)
    settings = parse_settings({"extensions": [SMOKE]})
    with pytest.raises(TorchyardError):
        resolve_without_suggestions(settings, on, KNOWLEDGE)
    result = {
        remedy.hint: remedy.resolution for remedy in list_suggestions(settings, on, KNOWLEDGE)
    }
    choice = result['set target.gpus: ["12.0"], which leaves out 3.5']
    assert choice.strategy == "prebuilt"


def test_suggestions_are_filtered_by_known_bad_combinations() -> None:
    settings = asking("2.6.0", ["9.0"], "source", toolkit={"version": "13.0"})
    assert is_known_bad(KNOWLEDGE, resolve_without_suggestions(settings, host(), KNOWLEDGE), host())


def test_torch_2_6_for_blackwell_never_suggests_cuda_13() -> None:
    for strategy in ("auto", "prebuilt", "source"):
        message = refused(host(), torch={"version": "2.6.0", "strategy": strategy})
        assert "toolkit.version" not in message
        assert "install" not in message


@each_row("cuda", KNOWLEDGE.toolkits)
@each_row("torch", PATCHES)
def test_every_release_and_toolkit_is_planned_or_refused_with_reason(torch: str, cuda: str) -> None:
    on = host(python=python_of(torch), toolkits=ALL_TOOLKITS)
    for gpu in PLAIN:
        settings = asking(torch, [gpu], "source", toolkit={"version": cuda})
        arch = Arch.parse_capability(gpu)
        able = arch in KNOWLEDGE.toolkits[cuda].makes
        choice, why = tried(settings, on)
        if choice is None:
            assert not able or f"does not accept {gpu}" in why
        else:
            assert (choice.cuda, choice.toolkit.version, able) == (cuda, cuda, True)


@each_row("torch", PATCHES)
def test_auto_prefers_an_installed_toolkit_known_to_work(
    torch: str,
) -> None:
    found = next(item for item in RELEASES if item.patch == torch)
    on = host(python=python_of(torch), toolkits=ALL_TOOLKITS)
    for gpu in PLAIN:
        arch = Arch.parse_capability(gpu)
        known = list_published_toolkits(KNOWLEDGE, found, [arch], "linux")
        choice, why = tried(asking(torch, [gpu], "source"), on)
        if choice is None:
            assert "does not accept" in why
            continue
        assert choice.cuda in (known or list_capable_toolkits(KNOWLEDGE, [arch]))
        others = [
            cuda
            for cuda in list_capable_toolkits(KNOWLEDGE, [arch])
            if not is_known_to_fail(KNOWLEDGE, torch, cuda, [arch], "linux")
        ]
        assert not is_bad(choice, ()) or not others, "a bad one only where there is no other"


@st.composite
def situations(draw: st.DrawFn) -> tuple[Settings, Host]:
    kits = draw(st.lists(st.sampled_from(ALL_TOOLKITS), max_size=3, unique=True))
    version = draw(st.sampled_from(["auto", *KNOWLEDGE.toolkits]))
    provider = draw(st.sampled_from(["auto", "system", "pypi"]))
    gpus = draw(st.lists(st.sampled_from(list(map(str, ARCHS))), min_size=1, max_size=3))
    torch = draw(st.sampled_from(PATCHES))
    extensions = draw(st.sampled_from([[], [SMOKE]]))
    strategy = draw(st.sampled_from(["auto", "source", "prebuilt"]))
    toolkit = {"version": version, "provider": provider}
    systems: list[System] = ["linux", "windows"]
    system = draw(st.sampled_from(systems))
    settings = asking(torch, gpus, strategy, toolkit=toolkit, extensions=extensions)
    return settings, host(system=system, python=python_of(torch), toolkits=tuple(kits))


@given(situations())
@budget(max_examples=400, deadline=None)
def test_plan_never_contains_an_arch_the_toolkit_lacks(situation: tuple[Settings, Host]) -> None:
    settings, on = situation
    try:
        choice = resolve_without_suggestions(settings, on, KNOWLEDGE)
    except SettingsError:
        return
    assert choice.targets
    if choice.toolkit.provider == "none":
        assert choice.strategy != "source"
        assert not settings.extensions
        return
    makes = KNOWLEDGE.toolkits[choice.toolkit.version].makes
    assert set(choice.targets) <= makes
    assert choice.cuda is not None
    assert choice.cuda.partition(".")[0] == choice.toolkit.version.partition(".")[0]


@given(situations())
@budget(max_examples=60, deadline=None)
def test_no_suggestion_for_any_settings_is_known_bad(
    situation: tuple[Settings, Host],
) -> None:
    settings, on = situation
    try:
        resolve_without_suggestions(settings, on, KNOWLEDGE)
    except SettingsError:
        for remedy in list_suggestions(settings, on, KNOWLEDGE):
            assert not is_bad(remedy.resolution, settings.extensions)


@pytest.mark.parametrize("torch", ["2.0.1", "2.6.0", RELEASE])
def test_refusal_always_has_a_hint(torch: str) -> None:
    on = host(python=python_of(torch))
    for gpu in PLAIN:
        settings = {"torch": {"version": torch}, "target": {"gpus": [gpu]}, "extensions": [SMOKE]}
        if tried(parse_settings(settings), on)[0] is None:
            assert "\n  → " in refused(on, **settings)
