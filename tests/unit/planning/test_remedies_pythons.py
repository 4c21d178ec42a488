"""Another Python is suggested only if the release does not support the current one."""

from __future__ import annotations

import pytest

from tasks.core.errors import SettingsError
from tasks.planning.resolve import resolve_without_suggestions
from tasks.planning.suggestions import list_suggestions
from tasks.settings.schema import parse_settings
from tests.unit.planning.test_decide import KNOWLEDGE, host, refused


@pytest.mark.parametrize(
    ("python", "torch", "nearest"),
    [
        *(("3.8.1", "2.15.0", "3.11"), ("3.10.2", "2.15.0", "3.11")),
        *(("3.14.0", "2.6.0", "3.13"), ("3.15.0", "2.0.1", "3.11")),
    ],
)
def test_nearest_supported_python_is_suggested_with_install_command(
    python: str, torch: str, nearest: str
) -> None:
    settings = {"torch": {"version": torch}, "target": {"gpus": ["9.0"]}}
    way = f'set python: "{nearest}" (to install it: uv python install {nearest})'
    assert f"\n  → {way}" in refused(host(python=python), **settings)


def test_install_target_with_old_python_suggests_another_environment() -> None:
    """`python:` alone would be refused next: its wheel does not fit that environment."""
    into = {"into": "/envs/gs/bin/python"}
    message = refused(host(python="3.8.18"), target={"gpus": ["12.0"]}, install=into)
    assert "\n  → create an environment with Python 3.11 (conda create -n NAME " in message
    assert "set install.into and python to its Python" in message
    assert 'set python: "3.11"' not in message


def test_other_python_is_not_suggested_if_current_one_is_supported() -> None:
    for minor, found in KNOWLEDGE.releases.items():
        for python in found.python:
            given = {"torch": {"version": found.patch}, "target": {"gpus": ["12.0", "7.0"]}}
            settings, on = parse_settings(given), host(python=f"{python}.1")
            try:
                resolve_without_suggestions(settings, on, KNOWLEDGE)
            except SettingsError:
                hints = [remedy.hint for remedy in list_suggestions(settings, on, KNOWLEDGE)]
                alone = [hint for hint in hints if "python" in hint and "torch" not in hint]
                assert not alone, (minor, python, hints)


def test_python_and_toolkit_are_suggested_together_if_both_are_needed() -> None:
    settings = {"torch": {"version": "2.6.0", "strategy": "source"}, "target": {"gpus": ["9.0"]}}
    message = refused(host(python="3.7.9"), **settings)
    assert 'set python: "3.9" (to install it: uv python install 3.9)' in message
    assert "install CUDA 12.4" in message
