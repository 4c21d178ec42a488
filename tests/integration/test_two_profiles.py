"""Two profiles of one checkout that are built at the same moment, from the same sources and into
the same wheelhouse: both end well, and what each has is whole.
"""

from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path

import pytest

from tests.integration.conftest import source_profile
from tests.support.yard import Yard

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform == "win32", reason="the tree is built with POSIX tools"),
]


@pytest.mark.long
def test_two_profiles_at_the_same_moment_end_well(
    tmp_path: Path, tree: Path, extension: Path
) -> None:
    """They ask for the same, so that their wheels have one name."""
    both = [Yard(tmp_path / "checkout", name) for name in ("one", "other")]
    source = {"git": str(tree), "ref": "main", "submodules": False}
    for yard in both:
        yard.profile(**{**source_profile(tree, extension), "source": source})
    children = [yard.start("build") for yard in both]
    said = [child.communicate(timeout=Yard.patience)[0] for child in children]
    assert [child.returncode for child in children] == [0, 0], "\n".join(said)
    assert "Traceback" not in "\n".join(said)
    for yard in both:
        for name in ("wheel", "extensions:toy"):
            made = yard.manifest(name)["artifact"]
            wheel = yard.folder / "wheelhouse" / made["name"]
            assert sha256(wheel.read_bytes()).hexdigest() == made["sha256"]
        assert "Up to date" in yard.must("build")
        assert yard.build in Path(yard.manifest("wheel")["folder"]).parents
