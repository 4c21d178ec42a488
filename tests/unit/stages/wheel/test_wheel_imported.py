"""Tests of the import check of an installed torch, with a real interpreter and fake torches."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tasks.core.errors import BadArtifactError
from tasks.core.model import Layout
from tasks.core.project import Project
from tasks.settings.schema import Settings
from tasks.stages.env.model import Environment
from tasks.stages.wheel import run
from tasks.stages.wheel.model import BuiltJob
from tasks.stages.wheel.plan import plan
from tasks.system import files, manifests
from tests.support.checkout import Heard
from tests.unit.stages.wheel.test_wheel_stage import CHOICE, KNOWLEDGE

VERSION = "2.6.0+cpu.g1234567"


@pytest.fixture
def job(tmp_path: Path) -> BuiltJob:
    """Return a job whose environment has the folder `site` on its path."""
    found = plan(
        Settings(), Layout(Project.of_checkout(tmp_path), "p", tmp_path), CHOICE, KNOWLEDGE
    ).job
    assert isinstance(found, BuiltJob)
    paths = {"PYTHONPATH": (str(tmp_path / "site"),)}
    manifests.write_manifest(found.env, Environment({}, paths, (), os.pathsep))
    files.create_owned_folder(found.landing)
    return found


def torch(folder: Path, *lines: str) -> None:
    package = folder / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("\n".join(lines), encoding="utf-8")


def read_error(job: BuiltJob) -> BadArtifactError:
    with pytest.raises(BadArtifactError) as error:
        run.require_torch_import(job, sys.executable, VERSION)
    assert error.value.hint
    return error.value


def test_torch_of_expected_version_passes_despite_other_output(
    job: BuiltJob, tmp_path: Path
) -> None:
    source = (
        f"print('hello'); import atexit; atexit.register(print, 'bye'); __version__ = '{VERSION}'"
    )
    torch(tmp_path / "site", source)
    run.require_torch_import(job, sys.executable, VERSION)


def test_final_exception_of_import_is_reported(job: BuiltJob, tmp_path: Path) -> None:
    torch(
        tmp_path / "site",
        "try:",
        "    raise OSError('first')",
        "except OSError:",
        "    raise ImportError('libgone.so.1: cannot open shared object file')",
    )
    error = read_error(job)
    assert error.message == (
        f"torch {VERSION} was installed but does not import: "
        "ImportError: libgone.so.1: cannot open shared object file"
    )
    assert error.location.startswith(f"{job.log}:")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no signals to end it")
def test_crash_during_import_is_reported(job: BuiltJob, tmp_path: Path) -> None:
    torch(tmp_path / "site", "import os, signal", "os.kill(os.getpid(), signal.SIGSEGV)")
    assert "signal 11" in read_error(job).message


def test_silent_exit_during_import_is_reported(job: BuiltJob, tmp_path: Path) -> None:
    torch(tmp_path / "site", "raise SystemExit(3)")
    assert "exit 3" in read_error(job).message


def test_missing_driver_during_import_is_warning(
    job: BuiltJob, tmp_path: Path, heard: Heard
) -> None:
    missing = "libcuda.so.1: cannot open shared object file: No such file or directory"
    torch(tmp_path / "site", f"raise ImportError('{missing}')")
    run.require_torch_import(job, sys.executable, VERSION)
    assert (
        heard[-1]
        == f"torch {VERSION} was installed, but its import needs a GPU: ImportError: {missing}"
    )


def test_import_of_other_torch_is_error(job: BuiltJob, tmp_path: Path) -> None:
    torch(tmp_path / "site", "__version__ = '2.5.0'")
    error = read_error(job)
    assert error.message == f"torch {VERSION} was installed, but python imports torch '2.5.0'"
    assert error.location == str(job.log)


def test_torch_in_current_folder_is_ignored(
    job: BuiltJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch(tmp_path / "site", f"__version__ = '{VERSION}'")
    torch(tmp_path / "tree", "raise ImportError('this is the source tree')")
    monkeypatch.chdir(tmp_path / "tree")
    run.require_torch_import(job, sys.executable, VERSION)
