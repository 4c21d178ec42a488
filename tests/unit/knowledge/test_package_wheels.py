"""Why pip compiles a package is found in the wheels of its releases on a package index."""

from __future__ import annotations

import pytest
import yaml

from tasks.core.package_files import IndexFile
from tasks.knowledge.package_wheels import SourceBuild, WheelHistory
from tasks.knowledge.package_wheels_refresh import build_wheel_document, render_wheel_document
from tests.support.checkout import KNOWLEDGE
from tests.support.rows import each_row


def list_wheels(*names: str, requires_python: str = "", yanked: bool = False) -> list[IndexFile]:
    return [
        IndexFile(name, f"https://i.example/{name}", requires_python=requires_python, yanked=yanked)
        for name in names
    ]


PROJECTS = {
    "toy": [
        *list_wheels(
            "toy-1.0-cp38-cp38-manylinux2014_x86_64.whl",
            "toy-1.0-cp39-cp39-manylinux2014_x86_64.whl",
            "toy-1.0-cp39-cp39-win_amd64.whl",
            "toy-1.0.tar.gz",
            "toy-1.5-cp39-cp39-manylinux2014_x86_64.whl",
            "toy-2.0-cp310-cp310-manylinux2014_x86_64.whl",
            "toy-2.0-cp310-cp310-win_amd64.whl",
            "toy-3.0rc1-cp311-cp311-win_amd64.whl",
            "toy-0.5-py3-none-any.whl",
            "no wheel.whl",
        ),
        *list_wheels("toy-2.1-cp39-cp39-win_amd64.whl", yanked=True),
    ],
    "stable": list_wheels(
        "stable-4.0-cp39-abi3-macosx_11_0_arm64.whl", requires_python=">=3.9.1,!=3.10.0"
    ),
}
DOCUMENT = build_wheel_document(PROJECTS)
HISTORY = WheelHistory(yaml.safe_load(render_wheel_document(DOCUMENT)))


def test_document_has_first_and_last_release_by_python() -> None:
    assert DOCUMENT["toy"] == {
        "linux": {"3.8": "1.0 1.0", "3.9": "1.0 1.5", "3.10": "2.0"},
        "windows": {"3.9": "1.0 1.0", "3.10": "2.0"},
        "macos": {},
    }
    assert DOCUMENT["stable"]["macos"] == {"3.9": "4.0", "3.10": "4.0"}
    assert HISTORY.document["packages"] == DOCUMENT


EXPLAINED = [
    (
        SourceBuild("toy", "1.0", "3.10.4", "Windows"),
        "toy 1.0 has no wheel for Python 3.10: the first with one is 2.0",
        '"toy>=2.0"; or use Python 3.9, for which toy 1.0 has a wheel',
    ),
    (
        SourceBuild("Toy", "2.0", "3.8"),
        "Toy 2.0 has no wheel for Python 3.8: the last with one is 1.0",
        '"Toy<=1.0"; or use Python 3.10, for which Toy 2.0 has a wheel',
    ),
    (
        SourceBuild("toy", "1.0", "3.14"),
        "no release of toy has a wheel for Python 3.14",
        "use Python 3.8 to 3.9, for which toy 1.0 has a wheel",
    ),
    (
        SourceBuild("toy", "", "3.7"),
        "no release of toy has a wheel for Python 3.7",
        "use Python 3.8 and a release with a wheel for it: uv venv --python 3.8",
    ),
    (
        SourceBuild("toy", "", "3.9"),
        "the release of toy that pip chose has no wheel for Python 3.9",
        'pip install --only-binary=:all: "toy>=1.0,<=1.5"',
    ),
    (
        SourceBuild("toy", "1.0"),
        "toy 1.0 has wheels for Python 3.8 to 3.9 only",
        "pip install --only-binary=:all: -U toy; or use Python 3.8 to 3.9",
    ),
    (
        SourceBuild("toy"),
        "the release of toy that pip chose has no wheel for this Python",
        "its newest release has wheels for Python 3.10",
    ),
]


@each_row(("build", "reason", "step"), EXPLAINED)
def test_missing_wheel_is_explained(build: SourceBuild, reason: str, step: str) -> None:
    found = HISTORY.explain_build(build)
    assert found is not None
    assert found.reason == reason
    assert step in found.step


@pytest.mark.parametrize(
    "build",
    [
        SourceBuild("toy", "1.0", "3.9"),  # there is a wheel
        SourceBuild("toy", "2.0"),  # the Python can be one that has a wheel
        SourceBuild("toy", "1.0", "3.9", "macOS"),  # no wheel for any Python
        SourceBuild("other", "1.0", "3.9"),
        SourceBuild("toy", "1.0", "3.5"),  # older than what is recorded
    ],
    ids=str,
)
def test_build_without_a_known_reason_has_none(build: SourceBuild) -> None:
    assert HISTORY.explain_build(build) is None


def test_recorded_packages_have_wheels() -> None:
    packages = KNOWLEDGE.package_wheels.document["packages"]
    assert len(packages) > 200
    assert packages["numpy"]["windows"]["3.13"] == "2.1.0"
