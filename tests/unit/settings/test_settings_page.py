"""docs/settings.md is generated from the model, with valid examples and the stages that rerun."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from tasks.cli.generated_files import render_generated_files
from tasks.core.model import Host, InstalledToolkit
from tasks.core.project import Project
from tasks.planning.profile_plan import STAGE_KINDS, build_layout, make_plan
from tasks.settings.schema import Extension, Settings, parse_settings
from tasks.settings.settings_page import (
    EXTENSION_EXAMPLES,
    SETTING_EXAMPLES,
    build_example_extension,
    render_settings_page,
)
from tasks.settings.values import Section, list_fields
from tests.support.checkout import HOST, KNOWLEDGE, RELEASE, ROOT
from tests.support.rows import each_row

MINE = {"extensions": [{"name": "mine", "path": "mine"}]}
SOURCE = {"torch": {"strategy": "source", "version": RELEASE}, **MINE}
PREBUILT = {"torch": {"strategy": "prebuilt", "version": RELEASE}, **MINE}
SYSTEM = replace(HOST, toolkits=(InstalledToolkit("/usr/local/cuda-13.2", "13.2.51"),))
# Settings that an example needs to have an effect
BEFORE: Mapping[str, tuple[dict[str, Any], ...]] = {
    "source.sha256": (
        {**SOURCE, "source": {"tarball": "https://a.example/b", "sha256": "1" * 64}},
    ),
    "build.backend": ({"torch": {"strategy": "source"}},),
    "torch.strategy": (PREBUILT,),
    "torch.local": (PREBUILT,),
    "wheel.cuda": ({**SOURCE, "toolkit": {"provider": "system"}},),
    "install.partial": ({**PREBUILT, "install": {"into": "~/miniconda3/bin/python"}},),
    "toolkit.provider": ({**PREBUILT, "toolkit": {"provider": "pypi"}},),
    "toolkit.path": ({**PREBUILT, "toolkit": {"provider": "path", "path": "/opt/cuda"}},),
}


def sections() -> dict[str, type[Section]]:
    defaults = dict(list_fields(Settings))
    return {name: type(value) for name, value in defaults.items() if isinstance(value, Section)}


def test_settings_page_is_up_to_date() -> None:
    kept = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert kept == render_generated_files()["docs/settings.md"], (
        "python -m tasks.cli.generated_files"
    )


def test_every_key_has_example() -> None:
    plain = dict(list_fields(Settings)).keys() - sections().keys()
    dotted = {
        f"{name}.{key}" for name, model in sections().items() for key, _ in list_fields(model)
    }
    assert SETTING_EXAMPLES.keys() == plain | dotted
    assert EXTENSION_EXAMPLES.keys() == dict(list_fields(Extension)).keys()


@each_row("dotted", SETTING_EXAMPLES)
def test_every_example_is_valid_and_not_default(dotted: str) -> None:
    changed = parse_settings(with_value({}, dotted))
    assert changed != Settings()


@each_row("key", EXTENSION_EXAMPLES)
def test_every_extension_example_is_valid(key: str) -> None:
    assert parse_settings({"extensions": [build_example_extension(key)]}).extensions


def combine_fingerprints(settings: dict[str, Any], host: Host = HOST) -> dict[str, Any]:
    """Return the fingerprint of each stage kind, with all extensions combined."""
    made = parse_settings(settings)
    layout = build_layout(Project.of_checkout(PurePosixPath("/yard")), "mine", made)
    _, plan = make_plan(made, host, KNOWLEDGE, layout)
    found: dict[str, Any] = {}
    for stage in (*plan.stages, plan.validate):
        found.setdefault(stage.kind, []).append(
            (stage.name, stage.fingerprint, sorted(map(str, stage.inputs)))
        )
    return found


def find_changed(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {room for room, value in after.items() if before.get(room) != value}


def with_value(before: dict[str, Any], dotted: str) -> dict[str, Any]:
    name, _, key = dotted.partition(".")
    value, beside = SETTING_EXAMPLES[dotted].value, SETTING_EXAMPLES[dotted].required_keys
    if name == "extensions":
        return {**before, name: [*before.get(name, ()), *value]}
    return {**before, name: {**before.get(name, {}), **beside, key: value} if key else value}


def host_of(dotted: str) -> tuple[Host, Host]:
    if dotted == "python":
        return HOST, replace(HOST, python=replace(HOST.python, version="3.13.1"))
    if dotted in {"toolkit.provider", "wheel.cuda"}:
        return SYSTEM, SYSTEM
    if dotted == "toolkit.path":
        there = (
            InstalledToolkit(home, "13.2.51", asked=True)
            for home in ("/opt/cuda", "/usr/local/cuda-13.2")
        )
        before, after = (replace(HOST, toolkits=(one,)) for one in there)
        return before, after
    return HOST, HOST


@each_row("dotted", SETTING_EXAMPLES)
def test_listed_stages_are_those_that_rerun(dotted: str) -> None:
    first, then = host_of(dotted)
    found: set[str] = set()
    for before in BEFORE.get(dotted, (SOURCE, PREBUILT)):
        found |= find_changed(
            combine_fingerprints(before, first),
            combine_fingerprints(with_value(before, dotted), then),
        )
    assert tuple(name for name in STAGE_KINDS if name in found) == SETTING_EXAMPLES[dotted].stages


@each_row("key", EXTENSION_EXAMPLES)
def test_listed_stages_of_extension_key_are_those_that_rerun(key: str) -> None:
    other = {"name": "simple-knn", "path": "knn"}
    bare = (
        {"name": "mine", "path": "elsewhere"}
        if key == "path"
        else {"name": "mine", "path": "~/code/my-extension"}
    )
    before, after = ({"extensions": [other, one]} for one in (bare, build_example_extension(key)))
    if key == "name":
        before = {"extensions": [other]}
    found = find_changed(combine_fingerprints(before), combine_fingerprints(after)) - {"validate"}
    assert tuple(name for name in STAGE_KINDS if name in found) == EXTENSION_EXAMPLES[key].stages


def test_every_key_has_unique_anchor() -> None:
    titles = [line for line in render_settings_page().splitlines() if line.startswith("### ")]
    assert len(titles) == len(set(titles)) == len(SETTING_EXAMPLES) + len(EXTENSION_EXAMPLES)
