"""torch.version: auto is the locked release, else the newest one that fits this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tasks.cli.session import open_profile
from tasks.core.errors import SettingsError
from tasks.core.model import Host, Interpreter
from tasks.core.project import LOCK_NAME, Project
from tasks.knowledge import Knowledge
from tasks.knowledge.read_facts import ReadFacts
from tasks.lock.lock_file import LockSection, replace_section
from tasks.lock.opened_profile_io import find_locked_release
from tasks.planning.resolve import list_versions, resolve_settings, resolve_torch_version
from tasks.settings.schema import parse_settings
from tests.support.checkout import HOST, KNOWLEDGE, write
from tests.support.newest import LATER_PATCH, LATER_TORCH, NEWEST_RELEASE, NEXT_TORCH

NEWEST = NEWEST_RELEASE.patch
NO_CUDA: dict[str, Any] = {"target": {"gpus": []}}
SOURCE: dict[str, Any] = {"torch": {"strategy": "source"}}
INTEL_MAC = Host("macos", "x86_64", Interpreter("/usr/bin/python3", "3.12.4"))


def on_python(version: str) -> Host:
    return replace(HOST, python=replace(HOST.python, version=version))


def newest_of(minor: str) -> str:
    return KNOWLEDGE.releases[minor].patch


def read_row(*archs: str, cuda: str = NEWEST_RELEASE.pypi_cuda) -> dict[str, Any]:
    """Return the row of a release whose wheel has code for these archs."""
    platform = {"cuda": cuda, "system": "linux", "machine": "x86_64", "pypi": True}
    wheel = {**platform, "archs": list(archs), "ptx": [], "status": "verified: torch.whl"}
    row: dict[str, Any] = {"pypi_cuda": cuda, "cudas_built": [cuda], "wheels": [wheel]}
    return row | {"origin": "read from the wheel torch.whl", "status": "verified: torch.whl"}


def read_index(published: Sequence[str], **archs: Sequence[str]) -> Knowledge:
    """Return the knowledge with what was read from an index: `v2_16_0` has code for its archs."""
    rows = {name[1:].replace("_", "."): read_row(*codes) for name, codes in archs.items()}
    facts = ReadFacts(releases=rows, versions=tuple(published), index="https://pypi.org/simple")
    return replace(KNOWLEDGE, read=facts)


def read_next(published: Sequence[str], *archs: str) -> Knowledge:
    return read_index(published, **{f"v{NEXT_TORCH.replace('.', '_')}": archs})


def choose(knowledge: Knowledge = KNOWLEDGE, on: Host = HOST, **asked: Any) -> str:
    return resolve_torch_version(parse_settings(asked), on, knowledge).torch.version


@pytest.mark.parametrize(
    ("on", "asked", "version"),
    [
        (HOST, {}, NEWEST),
        (HOST, NO_CUDA, NEWEST),
        (HOST, {"torch": {"version": "2.9.1"}}, "2.9.1"),
        (HOST, {"torch": {"version": LATER_TORCH}}, LATER_TORCH),
        (HOST, {"torch": {"strategy": "prebuilt"}}, NEWEST),
        (HOST, SOURCE, NEWEST),
        (HOST, {"target": {"gpus": ["7.0", "12.0"]}}, newest_of("2.10")),
        (HOST, {"toolkit": {"version": "12.8"}}, newest_of("2.11")),
        (INTEL_MAC, {}, newest_of("2.2")),
        (on_python("3.10.1"), {}, newest_of("2.14")),
        (on_python("3.10.1"), SOURCE, newest_of("2.14")),
        (on_python("3.10.1"), {"source": {"path": "/src"}}, newest_of("2.14")),
        (on_python("3.10.1"), {"build": {"flags": {"USE_NCCL": False}}}, newest_of("2.14")),
        # a build needs no wheel for the targets
        (HOST, {**SOURCE, "target": {"gpus": ["7.0", "12.0"]}}, NEWEST),
        # nothing fits: the message is about the newest
        (on_python("3.99.1"), {}, NEWEST),
        (HOST, {"target": {"gpus": ["nonsense"]}}, NEWEST),
    ],
)
def test_auto_is_the_newest_known_release_that_fits(
    on: Host, asked: dict[str, Any], version: str
) -> None:
    assert choose(on=on, **asked) == version


@pytest.mark.parametrize(
    ("knowledge", "version"),
    [
        (read_next([NEWEST, NEXT_TORCH], "9.0", "12.0"), NEXT_TORCH),
        (read_next([NEWEST, NEXT_TORCH], "9.0"), NEWEST),
        # read at an earlier time, or from a wheel that was withdrawn
        (read_next([NEWEST], "9.0", "12.0"), NEWEST),
        # published, but not read
        (read_index([NEWEST, NEXT_TORCH]), NEWEST),
        (read_index([NEWEST, LATER_PATCH]), NEWEST),
        (read_index([newest_of("2.9"), newest_of("2.13"), NEXT_TORCH]), newest_of("2.13")),
        (read_index(["2.9.0", "2.8.0"]), "2.9.0"),
        (read_index(["1.13.1"]), NEWEST),
    ],
)
def test_auto_is_a_release_that_the_index_has(knowledge: Knowledge, version: str) -> None:
    assert choose(knowledge, target={"gpus": ["12.0"]}) == version


def test_releases_are_tried_from_the_newest_to_the_oldest() -> None:
    known = list_versions(parse_settings({}), KNOWLEDGE)
    assert (known[0], known[-2:]) == (NEWEST, ["2.0.1", "2.0.0"])
    assert known.index(newest_of("2.10")) < known.index(newest_of("2.9")) < known.index("2.9.0")
    published = [newest_of("2.9"), newest_of("2.10"), NEXT_TORCH, LATER_TORCH]
    assert list_versions(parse_settings({}), read_next(published, "9.0")) == [
        *(NEXT_TORCH, newest_of("2.10"), newest_of("2.9")),
    ]


def test_suggestion_is_near_the_release_that_auto_means() -> None:
    knowledge = read_next([newest_of("2.14"), NEXT_TORCH], "9.0", "12.0")
    asked = {"torch": {"strategy": "prebuilt"}, "toolkit": {"version": "13.0"}}
    choice = resolve_settings(parse_settings(asked), HOST, knowledge)
    assert choice.torch == newest_of("2.14")
    only = read_next([NEXT_TORCH], "9.0", "12.0")
    with pytest.raises(SettingsError) as caught:
        resolve_settings(parse_settings(asked), HOST, only)
    assert caught.value.message.startswith(f"no official wheel of torch {NEXT_TORCH} is built with")
    assert f'set torch.version: "{NEWEST}": ' in caught.value.hint


SECTION = LockSection(
    python="3.12", platform="linux x86_64", strategy="prebuilt", release="2.9.1", packages={}
)


@pytest.mark.parametrize(
    ("strategy", "locks", "release"),
    [
        ("prebuilt", True, "2.9.1"),
        ("source", True, "2.9.1"),
        ("existing", True, ""),
        ("prebuilt", False, ""),
    ],
)
def test_locked_release_is_found(tmp_path: Path, strategy: Any, locks: bool, release: str) -> None:
    settings = parse_settings({"lock": locks})
    assert find_locked_release(settings, Project.of_checkout(tmp_path), "mine") == ""
    text = replace_section("", "mine", structs.replace(SECTION, strategy=strategy))
    (tmp_path / LOCK_NAME).write_text(text, encoding="utf-8")
    assert find_locked_release(settings, Project.of_checkout(tmp_path), "mine") == release
    assert find_locked_release(settings, Project.of_checkout(tmp_path), "other") == ""


@pytest.mark.parametrize(
    ("version", "release", "origin"),
    [("auto", "2.9.1", f", auto: {LOCK_NAME}"), ("2.8.0", "2.8.0", "")],
)
def test_auto_is_the_locked_release(yard: Path, version: str, release: str, origin: str) -> None:
    write(yard, f"target: {{gpus: ['12.0']}}\ntorch:\n  version: {version}\n")
    text = replace_section("", "mine", SECTION)
    (yard / LOCK_NAME).write_text(text, encoding="utf-8")
    loaded = open_profile(Project.of_checkout(yard), "mine", {}, KNOWLEDGE, lambda *_: HOST).loaded
    assert loaded.settings.torch.version == release
    assert loaded.origin["torch.version"] == f"config/profiles/mine.yaml:3{origin}"


def test_origin_of_auto_names_what_was_asked(yard: Path) -> None:
    write(yard, "target: {gpus: ['12.0']}\ntorch:\n  version: auto\n")
    profile = open_profile(Project.of_checkout(yard), "mine", {}, KNOWLEDGE, lambda *_: HOST)
    origin = "config/profiles/mine.yaml:3, auto: the recorded facts"
    assert (profile.choice.torch, profile.loaded.origin["torch.version"]) == (NEWEST, origin)
