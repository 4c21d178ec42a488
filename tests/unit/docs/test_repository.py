"""Repository files: workflow and issue forms by GitHub's schemas, the recipes of CONTRIBUTING, the
pre-commit hooks, and the version.
"""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import tasks
from tasks.cli.session import generate_command_tasks
from tasks.core.project import Project
from tasks.lock.opened_profile_io import SelectedProfile
from tests.support.checkout import ROOT
from tests.support.snippets import commands
from tests.support.systems import posix_only

FORMS = sorted(
    path for path in (ROOT / ".github/ISSUE_TEMPLATE").iterdir() if path.stem != "config"
)
SCHEMAS = [
    *((form, "vendor.github-issue-forms") for form in FORMS),
    (ROOT / ".github/ISSUE_TEMPLATE/config.yml", "vendor.github-issue-config"),
    (ROOT / ".github/workflows/ci.yml", "vendor.github-workflows"),
    (ROOT / ".github/workflows/ci.yml", "custom.github-workflows-require-timeout"),
]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPES = dict(
    re.findall(r"^## (Add a .*?)\n\n(.*?)(?=^## )", CONTRIBUTING, re.DOTALL | re.MULTILINE)
)


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("path", "schema"), SCHEMAS, ids=[f"{p.name}-{s}" for p, s in SCHEMAS])
@posix_only
def test_workflow_and_forms_are_valid_by_github_schema(path: Path, schema: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, path],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def steps(job: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read(ROOT / ".github/workflows/ci.yml")["jobs"][job]["steps"]
    return found


def test_workflow_runs_ci_and_unit_tests_on_windows() -> None:
    jobs = read(ROOT / ".github/workflows/ci.yml")["jobs"]
    assert [step["run"] for step in steps("linux") if "run" in step] == [".ci/run"]
    assert jobs["windows"]["runs-on"].startswith("windows-")
    assert "python -m pytest -q tests/unit" in [step.get("run") for step in steps("windows")]
    assert "python -m mkdocs build --strict" in [step.get("run") for step in steps("docs")]


def test_workflow_has_read_only_permissions_and_interpolates_no_values() -> None:
    workflow = read(ROOT / ".github/workflows/ci.yml")
    assert workflow["permissions"] == {"contents": "read"}
    for step in (one for job in workflow["jobs"] for one in steps(job)):
        assert "${{" not in step.get("run", "")
        if step.get("uses", "").startswith("actions/checkout"):
            assert step["with"]["persist-credentials"] is False
        assert re.fullmatch(r"actions/[\w-]+@v\d+", step.get("uses", "actions/none@v0"))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_issue_forms_request_output_of_torchyard_commands(form: Path) -> None:
    text = form.read_text(encoding="utf-8")
    assert re.search(r"doit report`.*report/report\.md|doit diagnose", text, re.DOTALL)
    if form.name == "build.yml":
        report = next(one for one in read(form)["body"] if one.get("id") == "report")
        assert "report.md" in report["attributes"]["description"]
        assert report["validations"] == {"required": True}


def test_contributing_has_four_recipes_of_five_steps() -> None:
    names = ["Add a fact", "Add a failure signature", "Add a profile", "Add a stage"]
    assert list(RECIPES) == names
    for recipe in RECIPES.values():
        assert re.findall(r"^(\d)\. ", recipe, re.MULTILINE) == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("name", RECIPES)
def test_files_of_a_recipe_exist(name: str) -> None:
    for code in re.findall(r"`([^`]+)`", RECIPES[name]):
        for word in re.findall(
            r"(?<![\w/])(?:tasks|tests|docs|config)/[\w./-]+|\w+\.(?:md|yml)\b", code
        ):
            assert "NAME" in word or (ROOT / word).exists(), word


def test_pre_commit_hooks_fetch_nothing_and_name_existing_tests() -> None:
    (local,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    for hook in local["hooks"]:
        assert hook["language"] in {"system", "pygrep"}
        if hook["language"] == "pygrep":
            continue
        for file in hook.get("args", ()):
            text = (ROOT / file).read_text(encoding="utf-8")
            assert re.search(r"^def test_\w+_is_(fresh|up_to_date)\(", text, re.MULTILINE), file


SUBJECTS = [
    ("Keep SOURCE_DATE_EPOCH out of the fingerprint", None),
    ("compile: keep SOURCE_DATE_EPOCH out of the fingerprint", None),
    ("core, docs: pass the name", None),
    ("Process each line", None),
    ("Embed the version", None),
    ("Test " + "é" * 67, None),
    ("Test " + "é" * 68, "subject-length"),
    ("Merge branch '" + "a" * 72, None),
    ("Add a check.", "subject-period"),
    ("docs: add a check. ", "subject-period"),
    ("Added a check", "subject-imperative"),
    ("docs: fixes a link", "subject-imperative"),
    ("tests, docs: renaming", "subject-imperative"),
    ("Wrote a test", "subject-imperative"),
]


@pytest.mark.parametrize(("subject", "refused_by"), SUBJECTS)
@pytest.mark.parametrize("body", ["", "\n\nAdded because it fails.\n" + "a" * 90 + ".\n"])
def test_hooks_refuse_a_commit_subject(subject: str, refused_by: str | None, body: str) -> None:
    (local,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    message = f"{subject}{body}".encode()
    refusing = [
        hook["id"]
        for hook in local["hooks"]
        if hook.get("stages") == ["commit-msg"]
        # as pre-commit's pygrep with --multiline
        and re.search(hook["entry"].encode(), message, re.MULTILINE | re.DOTALL)
    ]
    assert refusing == ([refused_by] if refused_by else [])


def test_doit_check_is_documented_and_ci_builds_the_site() -> None:
    assert "check" in {
        one["basename"]
        for one in generate_command_tasks(SelectedProfile(Project.of_checkout(ROOT), "mine", None))
    }
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert any("mkdocs build --strict" in line for line in commands(script))


def test_ci_lists_skipped_tests_with_reasons() -> None:
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    runs = [line for line in script.splitlines() if re.match(r" *pytest ", line)]
    assert len(runs) == 2
    assert all(" -rs " in line for line in runs)


def test_ci_runs_readme_test_command_before_installing_optional_packages() -> None:
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    (command,) = [line for line in script.splitlines() if re.search(r"&& pytest\b", line)]
    for name in ("README.md", "README.zh-CN.md"):
        assert f"\n{command}\n" in (ROOT / name).read_text(encoding="utf-8")
    assert script.index(command) < script.index("ccache")


def test_version_is_stated_in_one_place() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", tasks.__version__)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"] == {"path": "tasks/__init__.py"}
    released = re.findall(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert released[:1] in ([], [tasks.__version__])


def test_installed_package_has_that_version() -> None:
    try:
        installed = importlib.metadata.version("torchyard")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("not run: only the dependencies are installed here")
    assert installed == tasks.__version__
