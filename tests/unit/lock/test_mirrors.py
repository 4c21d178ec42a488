"""Mirrors: known presets, the user's mirrors, and indexes in the settings of uv and pip."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tasks.cli.session import open_profile
from tasks.core.errors import SettingsError
from tasks.core.project import Project
from tasks.doctor import examine_host as judged
from tasks.doctor import host_facts_io
from tasks.doctor.examine_host import build_probe_request
from tasks.doctor.host_facts import HostFacts, RequiredUrl
from tasks.knowledge.mirrors import DEFAULT_INDEX, apply_index_mirror, collect_mirror_replacements
from tasks.lock.opened_profile_io import Profile
from tasks.system.network import package_indexes
from tests.support.checkout import KNOWLEDGE, write
from tests.support.rows import each_row
from tests.support.surroundings import LINUX

SJTU = "https://mirror.sjtu.edu.cn"
TUNA = "https://pypi.tuna.tsinghua.edu.cn/simple"
CPU = "target: {gpus: []}\ntorch: {strategy: prebuilt, version: '2.6.0'}\n"


@pytest.fixture(autouse=True)
def _nobodys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the settings of the user who runs the tests, and undo all changes at the end."""
    monkeypatch.setattr(package_indexes, "list_pip_files", lambda: iter([tmp_path / "pip.conf"]))
    monkeypatch.setattr(package_indexes, "list_uv_files", lambda: iter([tmp_path / "uv.toml"]))
    for name in (
        *package_indexes.UV_INDEX_VARIABLES,
        *package_indexes.PIP_INDEX_VARIABLES,
        package_indexes._MIRRORS_VARIABLE,
    ):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def opened(yard: Path, text: str) -> Profile:
    write(yard, text)
    return open_profile(Project.of_checkout(yard), "mine", {})


def test_mirror_presets_use_https_and_are_marked_unverified() -> None:
    assert {"tuna", "ustc", "aliyun", "sjtu"} <= KNOWLEDGE.mirrors.keys()
    for one in KNOWLEDGE.mirrors.values():
        assert one.status.startswith("unverified: not fetched"), one.name
        assert DEFAULT_INDEX in one.instead


@each_row(
    ("names", "index", "place"),
    [
        (["sjtu"], "https://download.pytorch.org/whl/cu132", f"{SJTU}/pytorch-wheels/cu132"),
        (["sjtu"], "https://download.pytorch.org/whl/cpu", f"{SJTU}/pytorch-wheels/cpu"),
        (["sjtu"], DEFAULT_INDEX, f"{SJTU}/pypi/web/simple"),
        (["sjtu"], f"{DEFAULT_INDEX}/", f"{SJTU}/pypi/web/simple"),
        (["tuna", "sjtu"], DEFAULT_INDEX, TUNA),
        (["tuna", "sjtu"], "https://download.pytorch.org/whl/cpu", f"{SJTU}/pytorch-wheels/cpu"),
        (["sjtu"], "https://download.pytorch.org/whl/nightly/cpu", ""),
        (["tuna"], "https://download.pytorch.org/whl/cu132", ""),
        ([], DEFAULT_INDEX, ""),
    ],
)
def test_first_mirror_that_has_index_is_used(names: list[str], index: str, place: str) -> None:
    assert (
        apply_index_mirror(index, collect_mirror_replacements(names, KNOWLEDGE)) == place or index
    )


def test_unknown_mirror_is_refused_with_closest_name(yard: Path) -> None:
    with pytest.raises(SettingsError) as error:
        opened(yard, f"{CPU}mirrors: [tunna]\n")
    assert 'mirrors: the mirror "tunna" is not known; did you mean "tuna"?' in str(error.value)


def test_user_mirror_overrides_preset_without_changing_fingerprints(yard: Path) -> None:
    plain = opened(yard, CPU)
    mine = "source:\n  mirrors: {'https://pypi.org/simple': 'https://mine.example/simple'}\n"
    named = opened(yard, f"{CPU}mirrors: [sjtu]\n{mine}")
    assert [stage.fingerprint for stage in named.plan.stages] == [
        stage.fingerprint for stage in plain.plan.stages
    ]
    assert named.choice == plain.choice
    assert named.pinned_plan is not None
    assert named.pinned_plan.mirrors[DEFAULT_INDEX] == "https://mine.example/simple"
    assert apply_index_mirror(named.choice.index, named.pinned_plan.mirrors).startswith(SJTU)


def test_uv_and_pip_use_mirror(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package_indexes.set_index_mirrors({DEFAULT_INDEX: TUNA, "https://i.example/whl": str(tmp_path)})
    assert (package_indexes.find_uv_index(), package_indexes.find_pip_index()) == (TUNA, TUNA)
    assert package_indexes.build_extra_index_options("https://i.example/whl") == (
        "--find-links",
        str(tmp_path),
    )
    assert package_indexes.build_only_index_options("https://i.example/whl") == (
        "--no-index",
        "--find-links",
        str(tmp_path),
    )
    assert package_indexes.build_only_index_options("https://j.example") == (
        "--index-url",
        "https://j.example",
    )


@pytest.mark.parametrize(
    "text",
    [
        'index-url = "https://own.example/simple"',
        '[pip]\nindex-url = "https://own.example/simple"',
        (
            '[[index]]\nurl = "https://o.example"\n'
            '[[index]]\nurl = "https://own.example/simple"\ndefault = true'
        ),
    ],
)
def test_default_index_in_uv_settings_is_kept(tmp_path: Path, text: str) -> None:
    (tmp_path / "uv.toml").write_text(text, encoding="utf-8")
    package_indexes.set_index_mirrors({DEFAULT_INDEX: TUNA})
    assert package_indexes.find_uv_index() == "https://own.example/simple"
    assert package_indexes.find_pip_index() == TUNA, "each by itself"


def test_default_index_in_pip_settings_is_kept(tmp_path: Path) -> None:
    own = "[global]\nindex-url = https://own.example/simple\n"
    (tmp_path / "pip.conf").write_text(own, encoding="utf-8")
    package_indexes.set_index_mirrors({DEFAULT_INDEX: TUNA})
    assert package_indexes.find_pip_index() == "https://own.example/simple"
    assert package_indexes.find_uv_index() == TUNA


def test_doctor_probes_mirror_and_names_original(yard: Path) -> None:
    profile = opened(yard, f"{CPU}mirrors: [sjtu]\n")
    urls = build_probe_request(Project.of_checkout(yard), profile.host, profile).urls
    asked = {one.url: one.instead_of for one in map(host_facts_io._apply_user_index, urls)}
    assert asked[f"{SJTU}/pypi/web/simple"] == DEFAULT_INDEX
    assert asked[f"{SJTU}/pytorch-wheels/cpu"] == "https://download.pytorch.org/whl/cpu"
    for answers, said in ((True, "answers"), (False, "does not answer")):
        reach = RequiredUrl(judged.INDEX, TUNA, answers, instead_of=DEFAULT_INDEX)
        looked: HostFacts = replace(LINUX, reach=(reach,))
        (found,) = (
            one for one in judged.check_network(looked, profile, KNOWLEDGE) if one.id == "index"
        )
        assert found.seen == f"{TUNA} (mirror of {DEFAULT_INDEX}) {said}"
        assert ("remove the mirror" in found.todo) is not answers
