"""Prereleases: where their wheels are published and which source ref they use."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.knowledge.versions import find_release_channel, format_published_version
from tests.support.newest import NEWEST_RELEASE, NEXT_TORCH
from tests.support.rows import each_row
from tests.unit.planning.test_decide import chosen, host, refused

WHL = "https://download.pytorch.org/whl"
CANDIDATE, NIGHTLY, ALPHA = (f"{NEXT_TORCH}{suffix}" for suffix in ("rc1", ".dev20261101", "a0"))
NEWEST_CU = f"cu{NEWEST_RELEASE.cudas_built[-1].replace('.', '')}"
SOURCE: dict[str, Any] = {"strategy": "source"}


@each_row(
    ("version", "channel"),
    [
        *(("2.15.0", ""), ("v2.15.0", ""), ("2.15.0+cu132", ""), ("2.15", "")),
        *(("2.12.0rc3", "test"), ("v2.12.0-rc3", "test"), ("2.16.0.dev20261101", "nightly")),
        *(("2.16.0a0+git1a2b", "nowhere"), ("2.16.0b1", "nowhere")),
    ],
)
def test_version_determines_where_it_is_published(version: str, channel: str) -> None:
    assert find_release_channel(version) == channel


@pytest.mark.parametrize(
    ("version", "gpus", "index"),
    [
        (CANDIDATE, ["12.0"], f"{WHL}/test/{NEWEST_CU}"),
        ("2.12.0rc3", ["12.0"], f"{WHL}/test/cu132"),
        (CANDIDATE, [], f"{WHL}/test/cpu"),
        (NIGHTLY, ["12.0"], f"{WHL}/nightly/{NEWEST_CU}"),
        (NIGHTLY, [], f"{WHL}/nightly/cpu"),
    ],
)
def test_release_candidates_and_nightlies_have_their_own_index(
    version: str, gpus: list[str], index: str
) -> None:
    choice = chosen(host(), torch={"version": version}, target={"gpus": gpus})
    assert (choice.strategy, choice.index) == ("prebuilt", index)
    assert choice.torch == format_published_version(version)


def test_release_candidate_wheel_is_requested_by_its_actual_version() -> None:
    choice = chosen(host(), torch={"version": CANDIDATE})
    assert choice.torch == NEXT_TORCH
    assert choice.strategy_why.startswith(
        f"torch {CANDIDATE} of download.pytorch.org/whl/test/{NEWEST_CU} "
        f"(named {NEXT_TORCH} in that index) is expected to hold "
    )


def test_release_candidate_on_custom_index_keeps_its_version() -> None:
    own = {"version": CANDIDATE, "index": "https://wheels.example/simple", "strategy": "prebuilt"}
    assert chosen(host(), torch=own, toolkit={"version": "13.2"}).torch == CANDIDATE


@pytest.mark.parametrize(
    ("version", "ref"),
    [
        ("2.12.0rc3", "v2.12.0-rc3"),
        ("2.13.0.dev20260101", "nightly (the branch), or the commit in "),
        (ALPHA, "main, or another branch or commit"),
    ],
)
def test_untagged_version_requires_a_source_ref(version: str, ref: str) -> None:
    message = refused(host(), torch={"version": version, **SOURCE})
    assert message.startswith(f"source.ref: PyTorch's repository has no tag v{version}\n")
    assert f"→ set source.ref: {ref}" in message
    named = ref.split(maxsplit=1)[0].rstrip(",")
    choice = chosen(host(), torch={"version": version, **SOURCE}, source={"ref": named})
    assert (choice.strategy, choice.torch) == ("source", version)


@pytest.mark.parametrize("source", [{"path": "/src"}, {"tarball": "/src.tar.gz"}])
def test_local_source_tree_requires_no_ref(source: dict[str, str]) -> None:
    torch = {"version": ALPHA, **SOURCE}
    assert chosen(host(), torch=torch, source=source).strategy == "source"


def test_alpha_is_on_no_index() -> None:
    message = refused(host(), torch={"version": ALPHA, "strategy": "prebuilt"})
    assert (
        f"torch {ALPHA} is not in any index: only a build from a branch has such a version"
        in message
    )
    assert NEWEST_RELEASE.patch in message
