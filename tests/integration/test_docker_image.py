"""The Dockerfile of a project, without Docker: the COPY steps of its last stage, done with folders.

The environment must work at its place when everything else that the build left is gone.
"""

from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support import smallwheels
from tests.support.systems import posix_only
from tests.support.torchyardcommand import torchyard
from tests.support.toyextension import make_extension

pytestmark = [pytest.mark.integration, posix_only]
TORCH = {
    "torch/__init__.py": "from torch.version import __version__\n",
    "torch/version.py": "__version__ = '2.15.0+ours'\ncuda = None\n",
}
TRAIN = "import sys, torch, toyext\nprint(torch.__version__, toyext.answer(), sys.prefix)\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project for the CPU: a small torch, an extension in submodules, and a program."""
    root = tmp_path / "app"
    smallwheels.wheel(tmp_path / "index", "torch", "2.15.0+ours", TORCH)
    make_extension(root / "submodules" / "toy")
    settings = {
        "target": {"gpus": []},
        "torch": {"strategy": "prebuilt", "version": "2.15.0", "index": str(tmp_path / "index")},
        "extensions": [{"name": "toy", "path": "submodules/toy", "imports": ["toyext"]}],
    }
    (root / "torchyard.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    (root / "train.py").write_text(TRAIN, encoding="utf-8")
    return root


def copy(source: Path, target: Path, ignored: tuple[str, ...] = ()) -> None:
    """Copy as Docker does: of a folder, what is in it; symbolic links stay links."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        leave_out = shutil.ignore_patterns(*ignored)
        shutil.copytree(source, target, symlinks=True, ignore=leave_out, dirs_exist_ok=True)
    else:
        shutil.copy2(source, target)


def test_environment_works_with_only_what_the_image_copies(project: Path) -> None:
    torchyard(project, "build")
    torchyard(project, "matrix", "--workflow", "docker", "--out", str(project / "Dockerfile"))
    text = (project / "Dockerfile").read_text(encoding="utf-8")
    run_stage = text[text.index(" AS run") :]
    copies = [line.split()[1:] for line in run_stage.splitlines() if line.startswith("COPY ")]
    assert copies[-1] == [".", "."]

    built = project.rename(project.with_name("build-stage"))
    shutil.rmtree(project.with_name("cache"))
    entry_point = project.with_name("bin") / "torchyard-run"
    for _, source, target in copies[:-1]:
        places = {"/usr/local/bin/torchyard-run": entry_point}
        copy(built / source.removeprefix("/app/"), places.get(target, project / target))
    ignored = (built / ".dockerignore").read_text(encoding="utf-8").split()
    assert ".torchyard" in ignored
    copy(built, project, tuple(ignored))
    shutil.rmtree(built)

    env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    argv = [str(entry_point), "python", "train.py"]
    done = subprocess.run(argv, env=env, cwd=project, capture_output=True, text=True, check=False)
    environment = project / ".torchyard" / "build" / "default" / "venv"
    assert done.stdout.split() == ["2.15.0+ours", "42", str(environment)], done.stderr
    # the program does not run as root
    files = [path for path in environment.rglob("*") if not path.is_symlink()]
    assert all(path.stat().st_mode & stat.S_IROTH for path in files)
