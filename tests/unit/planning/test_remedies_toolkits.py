"""Suggestions for a configured toolkit, and for one that may have been installed since."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from tasks.core.errors import SettingsError
from tasks.core.model import InstalledToolkit
from tasks.planning.resolve import resolve_without_suggestions
from tasks.planning.suggestions import is_known_bad, list_suggestions
from tasks.settings.schema import parse_settings
from tests.support.checkout import RELEASE
from tests.support.newest import NEWEST_TOOLKIT
from tests.unit.planning.test_decide import CUDA_124, KNOWLEDGE, chosen, existing, host, refused

EXTENSION: dict[str, Any] = {"extensions": [{"name": "smoke", "path": "templates/smoke"}]}
SOURCE: dict[str, Any] = {"torch": {"strategy": "source"}}
KITS = list(KNOWLEDGE.toolkits)
ACCEPT = "; or if you have installed what is missing, run: doit doctor --accept"
ARCHIVE = "(https://developer.nvidia.com/cuda-toolkit-archive)"


def toolkit(version: str) -> InstalledToolkit:
    return InstalledToolkit("/opt/cuda", version, asked=True)


def at_path(**more: str) -> dict[str, Any]:
    return {"toolkit": {"provider": "path", "path": "/opt/cuda", **more}}


def advised(told: str) -> str:
    return told.partition("\n  → ")[2]


def test_torch_for_configured_toolkit_is_suggested_before_other_releases() -> None:
    on = host(toolkits=(toolkit("12.6.85"),))
    settings = {"target": {"gpus": ["9.0"]}, **at_path(), **EXTENSION}
    assert advised(refused(on, **settings)).startswith(
        f'set toolkit.version: "12.6", the toolkit in toolkit.path: torch {RELEASE} of '
        "download.pytorch.org/whl/cu126 holds sm_90; or "
    )
    choice = chosen(on, **{**settings, **at_path(version="12.6")})
    assert (choice.torch, choice.cuda, choice.toolkit.provider) == (RELEASE, "12.6", "path")


@pytest.mark.parametrize("version", ["11.8.89", "12.4.131", "12.6.85"])
def test_toolkit_too_old_for_gpu_names_the_first_that_works(version: str) -> None:
    assert advised(refused(host(toolkits=(toolkit(version),)), **at_path())) == (
        f"set toolkit.path to CUDA 13.0 to {NEWEST_TOOLKIT.cuda}; "
        "or set toolkit.provider: auto (CUDA 13.2 from Python packages)"
    )


def test_build_suggests_toolkits_the_release_is_published_with() -> None:
    message = advised(refused(host(toolkits=(toolkit("12.4.131"),)), **SOURCE, **at_path()))
    assert message.startswith("set toolkit.path to CUDA 13.0, 13.2 or 13.4; or ")


def test_toolkit_too_new_for_gpu_names_the_last_that_works() -> None:
    settings = {"target": {"gpus": ["V100"]}, **at_path(), **EXTENSION}
    message = advised(refused(host(toolkits=(toolkit("13.0.88"),)), **settings))
    assert message == "set toolkit.path to CUDA 12.0 to 12.9"


def test_version_mismatch_with_toolkit_path_has_a_hint() -> None:
    settings = {**at_path(version="13.0"), **EXTENSION}
    message = refused(host(toolkits=(toolkit("13.4.59"),)), **settings)
    assert message.startswith("toolkit.version: CUDA 13.4.59 is at /opt/cuda, but 13.0 is required")
    assert advised(message) == (
        f'set toolkit.version: "13.4", the toolkit in toolkit.path: torch {RELEASE} of '
        "download.pytorch.org/whl/cu134 holds sm_120; "
        "or set toolkit.provider: auto (CUDA 13.0 from Python packages)"
    )


def test_existing_torch_requires_same_cuda_major_in_toolkit_path() -> None:
    on = existing("2.6.0+cu124", "12.4", toolkits=(toolkit("13.0.88"),))
    settings = {"torch": {"strategy": "existing"}, "target": {"gpus": ["9.0"]}, **at_path()}
    assert advised(refused(on, **settings, **EXTENSION)) == "set toolkit.path to CUDA 12.0 to 12.9"


def test_toolkit_path_alone_is_not_suggested_for_provider_pypi() -> None:
    settings = {"target": {"gpus": ["9.0"]}, "torch": {"strategy": "source", "version": "2.5.0"}}
    message = refused(host(), **settings, toolkit={"version": "12.4", "provider": "pypi"})
    assert (
        f"install CUDA 12.4 {ARCHIVE} and set toolkit.provider: system, or set toolkit.path "
        in message
    )
    assert "toolkit.path to it and toolkit.provider: path" in message
    here = host(toolkits=(toolkit("12.4.131"),))
    with pytest.raises(SettingsError):
        chosen(
            here, **settings, toolkit={"version": "12.4", "provider": "pypi", "path": "/opt/cuda"}
        )
    assert chosen(here, **settings, **at_path(version="12.4")).toolkit.home == "/opt/cuda"


@pytest.mark.parametrize("strategy", ["auto", "source", "prebuilt"])
@pytest.mark.parametrize("versions", [KITS[::4], pytest.param(KITS, marks=pytest.mark.long)])
def test_no_toolkit_path_suggestion_is_known_bad(strategy: str, versions: list[str]) -> None:
    """Checked for GPUs of every toolkit, with and without extensions."""
    cards = ("7.0", "9.0", "12.0")
    for version, card, torch, more in itertools.product(
        versions, cards, ("2.6.0", "2.15.0"), ({}, EXTENSION)
    ):
        on = host(toolkits=(toolkit(f"{version}.1"),))
        given = {"torch": {"strategy": strategy, "version": torch}, "target": {"gpus": [card]}}
        settings = parse_settings({**given, **at_path(), **more})
        try:
            resolve_without_suggestions(settings, on, KNOWLEDGE)
        except SettingsError:
            for remedy in list_suggestions(settings, on, KNOWLEDGE):
                assert not is_known_bad(KNOWLEDGE, remedy.resolution, on), remedy
                if "toolkit.path to CUDA" in remedy.hint and "torch.version" not in remedy.hint:
                    assert remedy.resolution.torch == torch


def test_pinned_host_is_probed_again_for_new_installations() -> None:
    settings = {"torch": {"strategy": "source", "version": "2.5.0"}, "target": {"gpus": ["9.0"]}}
    for on in (host(), host(toolkits=(CUDA_124,))):
        message = refused(on, **settings, toolkit={"version": "12.6"})
        assert ACCEPT not in message
        pinned = refused(replace(on, pinned=True), **settings, toolkit={"version": "12.6"})
        assert pinned == message + ACCEPT


def test_toolkit_path_is_probed_again_if_toolkit_was_replaced() -> None:
    on = replace(host(toolkits=(toolkit("12.4.131"),)), pinned=True)
    assert refused(on, **at_path()).endswith(ACCEPT)
    assert ACCEPT not in refused(replace(on, pinned=False), **at_path())


def test_host_is_not_probed_again_if_no_installation_could_help() -> None:
    on = replace(host(), pinned=True)
    assert "doctor" not in refused(on, torch={"version": "2.6.0", "strategy": "prebuilt"})


@pytest.mark.parametrize(("python", "again"), [("auto", True), ("3.10", False)])
def test_pinned_python_is_probed_again_unless_overridden(python: str, again: bool) -> None:
    on = replace(host(python="3.10.2"), pinned=True)
    assert (ACCEPT in refused(on, python=python)) is again
