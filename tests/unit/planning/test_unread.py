"""An unused setting is reported once, with its location."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tasks.cli.commands import explain
from tasks.cli.session import open_profile
from tasks.core.model import Host, InstalledToolkit, InstalledTorch, Interpreter
from tasks.core.project import Project
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.planning.warnings import list_unused_setting_warnings
from tasks.settings.layers_io import list_profiles
from tests.support.checkout import HOST, KNOWLEDGE, ROOT, Heard, opened, write
from tests.support.rows import each_row

OWN = replace(
    HOST, python=Interpreter("/own/python", "3.12.4", InstalledTorch("2.14.1", "13.2", "/own"))
)


def list_warnings(yard: Path, text: str, on: Host = HOST, name: str = "mine") -> list[str]:
    write(yard, text)
    profile = opened(yard, name, on).require_profile()
    found = list_unused_setting_warnings(profile.loaded, on, profile.choice)
    return [line.replace("config/profiles/mine.yaml:", "mine:") for line in found]


VARIABLES = "{MAX_JOBS: '4', CC: gcc, CCACHE_DIR: /c}"
EXTENSIONS = "[{name: toy, path: toy, ref: main, submodules: true}, {name: b, git: 'https://a/b'}]"


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            "torch: {strategy: source, index: 'https://a.example'}",
            "torch.index (mine:1): strategy source downloads no wheel of torch",
        ),
        (
            f"torch: {{strategy: prebuilt}}\nsource: {{ref: main}}\nbuild: {{env: {VARIABLES}}}",
            "source.ref (mine:2), build.env.MAX_JOBS (mine:3): strategy prebuilt builds no torch",
        ),
        (
            "torch: {strategy: prebuilt}\nbuild:\n  flags:\n    USE_A: true\n    USE_B: true",
            "build.flags (mine:4): strategy prebuilt builds no torch",
        ),
        (
            f"torch: {{strategy: source}}\nsource: {{sha256: {'a' * 64}}}",
            "source.sha256 (mine:2): it is the digest of source.tarball, which is not set",
        ),
        (
            "torch: {strategy: source}\nsource: {path: /tree, ref: main}",
            "source.ref (mine:2): source.path is used as it is",
        ),
        (
            "source: {tarball: t.tar, ref: main, submodules: false}",
            "source.ref (mine:1), source.submodules (mine:1): source.tarball is used as it is",
        ),
        (
            "target: {gpus: [], ptx: true}",
            "target.ptx (mine:1): a CPU build has no machine code for GPUs",
        ),
        (
            "toolkit: {path: /a}",
            "toolkit.path (mine:1): another toolkit is used (CUDA 13.2 from Python packages)",
        ),
        ("build: {hosts: [10.0.0.5/8]}", "build.hosts (mine:1): build.distribute is off"),
        ("publish: {keep: 2}", "publish.keep (mine:1): publish.dest is not set"),
        (
            f"extensions: {EXTENSIONS}",
            "ref, submodules of toy (mine:1): toy sets its source with the key path",
        ),
    ],
)
def test_unused_setting_is_reported_with_location_and_reason(
    yard: Path, text: str, warning: str
) -> None:
    assert list_warnings(yard, text) == [f"this profile does not use {warning}"]


def test_existing_torch_leaves_most_settings_unused(yard: Path) -> None:
    text = f"torch: {{strategy: existing, version: 2.14.0, sha256: {'a' * 64}}}\nwheel: {{cuda: "
    version, digest, wheel = list_warnings(yard, f"{text}toolkit}}", OWN)
    assert version.endswith(": it uses the torch of /own/python")
    assert "torch.sha256" in digest
    assert wheel.startswith("this profile does not use wheel.cuda (mine:2): strategy exis")


@pytest.mark.parametrize(
    "text",
    [
        "torch: {strategy: source}\nsource: {ref: main}\nbuild: {flags: {USE_NCCL: false}}",
        "torch: {strategy: source}\nsource: {path: /tree, git: /other, submodules: false}",
        f"torch: {{strategy: prebuilt, index: 'https://a', sha256: {'a' * 64}}}",
        "torch: {strategy: source, index: auto, sha256: null}\ntarget: {ptx: false}",
        "source: {mirrors: {'https://a/': /b/}}\nbuild: {jobs: 4, cache: 'off', cache_size: 5G}",
        "toolkit: {provider: path, path: /own}",
        "matrix: {gpus: [[]]}\ntarget: {ptx: true}\nbuild: {hosts: []}",
    ],
)
def test_used_or_default_setting_is_not_reported(yard: Path, text: str) -> None:
    own = InstalledToolkit("/own", "13.2.86", asked=True)
    assert list_warnings(yard, text, replace(HOST, toolkits=(own,))) == []


def test_settings_unused_by_only_one_matrix_entry_are_not_reported(yard: Path) -> None:
    text = "matrix: {gpus: [[], '12.0']}\ntarget: {ptx: true}"
    assert list_warnings(yard, text, name="mine@cpu") == []
    assert list_warnings(yard, f"{text}\ntorch: {{strategy: source, index: /w}}")


@each_row("name", list_profiles(Project.of_checkout(ROOT)))
def test_no_shipped_profile_has_unused_settings(name: str) -> None:
    on = replace(HOST, toolkits=(InstalledToolkit("/usr/local/cuda", "12.4.131"),))
    profile = opened(ROOT, name, on).require_profile()
    assert list(list_unused_setting_warnings(profile.loaded, on, profile.choice)) == []


def test_unused_setting_is_a_plan_warning(yard: Path) -> None:
    write(yard, "torch: {strategy: prebuilt}\ntarget: {gpus: []}\nwheel: {cuda: toolkit}\n")
    profile = open_profile(Project.of_checkout(yard), "mine", {}, KNOWLEDGE, lambda *_: HOST)
    assert profile.plan.warnings == (
        (
            "this profile does not use wheel.cuda (config/profiles/mine.yaml:3): "
            "strategy prebuilt builds no torch"
        ),
    )


def test_explain_reports_unused_settings(yard: Path, heard: Heard) -> None:
    write(yard, "torch: {strategy: prebuilt}\ntarget: {gpus: []}\nwheel: {cuda: toolkit}\n")
    project = Project.of_checkout(yard)
    profile = open_profile(project, "mine", {}, KNOWLEDGE, lambda *_: HOST)
    explain.run(SelectedProfile(project, "mine", profile))
    assert "WARNING this profile does not use wheel.cuda (config/profiles/mine.yaml:3)" in " ".join(
        heard.text.split()
    )


def test_local_yaml_setting_may_be_unused_in_a_profile(yard: Path) -> None:
    text = "torch: {sha256: " + "a" * 64 + "}\ntoolkit: {path: /usr/local/cuda}\n"
    (yard / "config" / "local.yaml").write_text(text, encoding="utf-8")
    assert list_warnings(yard, "torch: {strategy: source}") == []
