"""The matrix as a GitHub Actions workflow and a Slurm script: checked with linters, and run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.cli.commands import matrix
from tasks.core.errors import TorchyardError
from tasks.core.project import Project
from tasks.lock.opened_profile_io import SelectedProfile
from tests.support.checkout import ROOT, Heard, write
from tests.support.systems import posix_only

MATRIX = """\
matrix:
  torch: ["2.15.0"]
  python: ["3.10", "3.12"]
  gpus: ["RTX 5060 Ti", ["8.9", "9.0"], []]
"""
CELLS = [
    *("torch2.15.0-py3.10-rtx5060ti", "torch2.15.0-py3.10-sm89.sm90", "torch2.15.0-py3.10-cpu"),
    *("torch2.15.0-py3.12-rtx5060ti", "torch2.15.0-py3.12-sm89.sm90", "torch2.15.0-py3.12-cpu"),
]
posix = pytest.mark.skipif(sys.platform == "win32", reason="not run: Slurm is not on Windows")


@pytest.fixture
def checkout(yard: Path) -> Path:
    shutil.copytree(ROOT / "templates", yard / "templates")
    write(yard, MATRIX)
    return yard


def written(yard: Path, kind: str, profile: str = "mine") -> Path:
    out = yard / {"github": "matrix.yml", "slurm": "matrix.sh"}[kind]
    matrix.run(
        SelectedProfile(Project.of_checkout(yard), profile, None), workflow=kind, out=str(out)
    )
    return out


def checked(*argv: str | Path) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


@pytest.mark.parametrize("wheelhouse", ["wheelhouse", '/a b/"c"\\$(d)', "${{ secrets.A }}"])
@posix_only
def test_workflow_is_valid_by_github_schema(checkout: Path, heard: Heard, wheelhouse: str) -> None:
    write(checkout, MATRIX + f"wheel: {{wheelhouse: {json.dumps(wheelhouse)}}}\n")
    out = written(checkout, "github")
    checked(program("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", out)
    *_, upload = read(out)["jobs"]["build"]["steps"]
    assert upload["with"]["path"] == wheelhouse.replace("${{", "${{ '${{' }}")


@pytest.mark.skipif(not shutil.which("actionlint"), reason="not run: actionlint is not here")
@posix_only
def test_workflow_passes_actionlint(checkout: Path, heard: Heard) -> None:
    checked("actionlint", written(checkout, "github"))


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_workflow_builds_every_entry_with_its_python(checkout: Path, heard: Heard) -> None:
    found = read(written(checkout, "github"))
    job = found["jobs"]["build"]
    listed = job["strategy"]["matrix"]["include"]
    assert [one["cell"] for one in listed] == CELLS
    assert [one["profile"] for one in listed] == [f"mine@{cell}" for cell in CELLS]
    # torchyard requires 3.11 or later: `python` is the version that is set up last
    assert [one["python"] for one in listed] == ["3.10\n3.12"] * 3 + ["3.12"] * 3
    assert found["permissions"] == {"contents": "read"}
    assert job["strategy"]["fail-fast"] is False
    used = [step["uses"].partition("@") for step in job["steps"] if "uses" in step]
    assert [name for name, _, _ in used] == [
        *("actions/checkout", "actions/setup-python", "actions/upload-artifact"),
    ]
    assert all(major.removeprefix("v").isdecimal() for _, _, major in used)


def test_no_matrix_value_is_part_of_a_command_line(checkout: Path, heard: Heard) -> None:
    steps = read(written(checkout, "github"))["jobs"]["build"]["steps"]
    assert not [step["run"] for step in steps if "${{" in step.get("run", "")]


def test_workflow_warns_about_files_missing_on_runner(checkout: Path, heard: Heard) -> None:
    (checkout / "config" / "local.yaml").write_text("matrix: {cuda: ['13.2']}\n", encoding="utf-8")
    written(checkout, "github")
    assert (
        "config/local.yaml, your settings for all projects and the environment: matrix.cuda"
        in heard.text
    )
    heard.clear()
    written(checkout, "slurm")
    assert "config/local.yaml" not in heard.text


def test_workflow_without_output_file_is_printed(checkout: Path, heard: Heard) -> None:
    matrix.run(SelectedProfile(Project.of_checkout(checkout), "mine", None), workflow="slurm")
    assert heard.text.startswith("#!/usr/bin/env bash\n")


@pytest.mark.parametrize("name", ["a b", "a$(touch b)", "a'b", "${{ a }}", "-a"])
def test_profile_name_with_shell_syntax_is_refused(checkout: Path, name: str) -> None:
    write(checkout, MATRIX, name)
    for kind in ("github", "slurm"):
        with pytest.raises(TorchyardError, match="is not allowed in a workflow"):
            written(checkout, kind, name)


def test_unknown_format_and_oversized_matrix_are_refused(checkout: Path) -> None:
    with pytest.raises(TorchyardError, match='there is no workflow "gitlab"'):
        matrix.run(SelectedProfile(Project.of_checkout(checkout), "mine", None), workflow="gitlab")
    many = [f'"2.{number}.0"' for number in range(300)]
    write(checkout, f"matrix: {{torch: [{', '.join(many)}]}}\n")
    with pytest.raises(TorchyardError, match="this matrix has 300"):
        written(checkout, "github")


@posix
def test_slurm_script_passes_bash_and_shellcheck(checkout: Path, heard: Heard) -> None:
    out = written(checkout, "slurm")
    checked("bash", "-n", out)
    checked(program("shellcheck"), "--severity=style", out)
    assert "#SBATCH --array=0-5\n" in out.read_text(encoding="utf-8")


def task(script: Path, number: str | None) -> subprocess.CompletedProcess[str]:
    """Run a copy of the script elsewhere, as Slurm does; `python` prints its arguments."""
    stand_in = script.parent / "bin" / "python"
    stand_in.parent.mkdir(exist_ok=True)
    stand_in.write_text('#!/bin/sh\nprintf "%s\\n" "$PWD" "$@"\n', encoding="utf-8")
    stand_in.chmod(0o755)
    env = {"PATH": f"{stand_in.parent}:{os.environ['PATH']}"}
    if number is not None:
        env["SLURM_ARRAY_TASK_ID"] = number
    return subprocess.run(
        ["bash", script], env=env, cwd="/", capture_output=True, text=True, check=False
    )


@posix
def test_each_array_task_builds_its_entry_in_the_checkout(
    checkout: Path, heard: Heard, tmp_path_factory: pytest.TempPathFactory
) -> None:
    script = written(checkout, "slurm")
    for number, cell in enumerate(CELLS):
        done = task(script, str(number))
        assert done.stdout.splitlines() == [
            *(str(checkout), "-m", "doit", "build", f"profile=mine@{cell}"),
        ]


@posix
@pytest.mark.parametrize("number", ["6", "-1", "08x", "a[$(touch hit)]", "", None])
def test_array_task_beyond_the_matrix_is_refused(
    checkout: Path, heard: Heard, number: str | None
) -> None:
    done = task(written(checkout, "slurm"), number)
    assert done.returncode != 0
    assert done.stdout == ""
    assert "there is no build" in done.stderr or "SLURM_ARRAY_TASK_ID" in done.stderr
    assert not Path("/hit").exists()


@posix
def test_slurm_script_enters_checkout_with_unusual_name(
    checkout: Path, heard: Heard, tmp_path: Path
) -> None:
    odd = tmp_path / 'it\'s $(touch hit) "here"'
    shutil.copytree(checkout / "config", odd / "config")
    shutil.copytree(checkout / "templates", odd / "templates")
    script = written(odd, "slurm")
    checked(program("shellcheck"), "--severity=warning", script)
    assert task(script, "0").stdout.splitlines()[0] == str(odd)
