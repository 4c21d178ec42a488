"""build/PROFILE/run and env.sh of a built profile, used by hand."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.integration.conftest import source_profile
from tests.support.yard import Yard

pytestmark = pytest.mark.integration

LOOK = "import os, sys, torch; print(torch.__version__, os.environ.get('DEVICE'), sys.argv[1:])"


def printed(*argv: str | Path) -> str:
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout.strip()


def test_a_program_runs_with_the_built_torch_and_runtime_settings_rebuild_nothing(
    yard: Yard, tree: Path, extension: Path
) -> None:
    yard.profile(**source_profile(tree, extension), runtime={"env": {"DEVICE": "auto"}})
    yard.must("build")
    version = yard.manifest("wheel")["version"]
    look = (yard.build / "run", "python", "-c", LOOK, "lr=0.1", "a b", "")
    assert printed(*look) == f"{version} auto ['lr=0.1', 'a b', '']"

    left = {name: (yard.build / name).read_bytes() for name in ("env.json", "extension-env.json")}
    yard.profile(**source_profile(tree, extension), runtime={"env": {"DEVICE": "cpu"}})
    out = yard.must("build")
    assert "Rendered env" in out
    assert not [word for word in ("Compiled", "Installed", "Built") if word in out]
    assert {name: (yard.build / name).read_bytes() for name in left} == left
    assert printed(*look) == f"{version} cpu ['lr=0.1', 'a b', '']"

    code = f". '{yard.build}/env.sh'; python -c 'import sys; print(sys.prefix)'; {{}}; echo $PATH"
    before, after = "/usr/bin:/bin", ["bash", "-c", f"PATH=/usr/bin:/bin; {code}"]
    told = printed(*after[:2], after[2].format("torchyard_deactivate")).splitlines()
    assert told == [str(yard.build / "venv"), before]

    (yard.build / "run").unlink()
    assert "Rendered env" in yard.must("build")
    assert (yard.build / "run").is_symlink()
