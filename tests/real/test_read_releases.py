"""A recorded release that torchyard is made to forget, and then reads from the package index."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tasks.knowledge import Knowledge
from tasks.knowledge.knowledge_files_io import KNOWLEDGE_FOLDER, load_knowledge
from tasks.planning.read_facts_io import FactReader
from tasks.planning.resolve import resolve_settings
from tasks.settings.schema import parse_settings
from tests.support.checkout import HOST, KNOWLEDGE

pytestmark = pytest.mark.real
# The releases whose wheels list the archs of all official wheels
RELEASES = [release.minor for release in KNOWLEDGE.releases.values()][-3:]


def forgetting(section: str, name: str) -> Knowledge:
    """The knowledge without a release of torch ("pytorch") or of CUDA ("toolkits")."""
    known = load_knowledge(KNOWLEDGE_FOLDER)

    def read_file(path: Path) -> Mapping[str, Any]:
        content = known.read_file(path)
        if path.stem != section:
            return content
        rows = {key: row for key, row in content["releases"].items() if key != name}
        return {**content, "releases": rows}

    return Knowledge(KNOWLEDGE_FOLDER, read_file)


@pytest.mark.parametrize("minor", RELEASES)
def test_release_that_was_read_is_planned_like_the_recorded_one(tmp_path: Path, minor: str) -> None:
    version = KNOWLEDGE.releases[minor].patch
    settings = parse_settings({"torch": {"version": version}, "target": {"gpus": ["12.0"]}})
    unknown = forgetting("pytorch", minor)
    read = FactReader(tmp_path, settings, HOST, unknown).update()
    knowledge = dataclasses.replace(unknown, read=read)
    found, recorded = knowledge.read_releases[version], KNOWLEDGE.releases[minor]
    for name in (
        *("requires_python", "pypi_cuda", "cudas_built", "setuptools", "triton", "cxx_std"),
        *("msvc_min", "min_cuda_cmake", "extension_archs", "pypi_pythons"),
    ):
        assert getattr(found, name) == getattr(recorded, name), name
    codes = [
        {(w.cuda, w.machine): w.archs for w in one.wheels if w.system == "linux"}
        for one in (found, recorded)
    ]
    assert codes[0] == codes[1]
    plans = [resolve_settings(settings, HOST, one) for one in (knowledge, KNOWLEDGE)]
    assert plans[0].cuda == plans[1].cuda
    assert plans[0].facts[0].startswith(f"torch {version}: read from the wheel torch-{version}-")


def test_toolkit_that_was_read_has_the_recorded_limits(tmp_path: Path) -> None:
    recorded = [kit for kit in KNOWLEDGE.toolkits.values() if kit.pypi][-1]
    settings = parse_settings(
        {"toolkit": {"version": recorded.cuda}, "torch": {"strategy": "source"}}
    )
    unknown = forgetting("toolkits", recorded.cuda)
    read = FactReader(tmp_path, settings, HOST, unknown).update()
    found = dataclasses.replace(unknown, read=read).toolkits[recorded.cuda]
    for name in ("sm", "a", "f", "gcc_max", "clang_max", "msvc_min", "msvc_below", "ptx_isa"):
        assert getattr(found, name) == getattr(recorded, name), name
    assert (found.pypi, found.cuobjdump) == (True, recorded.cuobjdump)
