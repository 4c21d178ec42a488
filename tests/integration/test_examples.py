"""The examples: their settings are planned, and the commands of their READMEs exist. They are built
with small stand-ins: a toy of PyTorch's tree, small wheels, and toy extensions.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.cli import help_pages
from tasks.cli.session import open_profile
from tasks.core.model import Host, Plan
from tasks.core.project import Project
from tasks.settings.layers_io import list_profiles, load_settings, read_default_profile
from tasks.settings.matrix_entries import expand_matrix
from tests.integration.conftest import commit, git
from tests.support import smallwheels
from tests.support.checkout import HOST, KNOWLEDGE, RELEASE, ROOT
from tests.support.snippets import commands, snippets
from tests.support.systems import posix_only
from tests.support.torchyardcommand import torchyard
from tests.support.toyextension import make_extension
from tests.support.toytree import make_tree

pytestmark = [pytest.mark.integration, posix_only]
EXAMPLES = sorted(path.name for path in (ROOT / "examples").iterdir() if path.is_dir())
# The folders of the extensions, and the module of each
SUBMODULES = {
    "diff-gaussian-rasterization": "diff_gaussian_rasterization",
    "simple-knn": "simple_knn",
}
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Return the folder for the examples, with what all of them name."""
    for name in EXAMPLES:
        shutil.copytree(ROOT / "examples" / name, tmp_path / name)
    for folder, module in SUBMODULES.items():
        make_extension(tmp_path / "gaussian-splatting" / "submodules" / folder, name=module)
    return tmp_path


@pytest.fixture
def fork(copied: Path) -> Path:
    """Return the folder of the example pytorch-fork, with a small clone of PyTorch."""
    root = copied / "pytorch-fork"
    tree = make_tree(root / "pytorch")
    git(tree, "init", "-q", "-b", "main")
    commit(tree, "first")
    return root


def project_of(root: Path) -> Project:
    return Project.of_folder(root, ROOT, root.with_name("cache"))


def planned(root: Path, profile: str = "") -> Plan:
    project = project_of(root)
    name = profile or read_default_profile(project)
    return open_profile(
        project, name, {}, KNOWLEDGE, lambda query, pin: _host_with(query.python)
    ).plan


def _host_with(python: str) -> Host:
    """Return a host with an RTX 5090 that has the requested Python."""
    version = f"{python}.1" if re.fullmatch(r"3\.\d+", python) else HOST.python.version
    return Host(
        HOST.system, HOST.machine, type(HOST.python)("/usr/bin/python3", version), HOST.gpus
    )


def overridden(root: Path, settings: Mapping[str, Any]) -> None:
    """Write settings of this machine, which override those of the example."""
    (root / "torchyard.local.yaml").write_text(yaml.safe_dump(dict(settings)), encoding="utf-8")


def run(root: Path, profile: str, code: str) -> str:
    """Return what a program prints in the environment of a profile."""
    program = str(root / ".torchyard" / "build" / profile / "run")
    argv = [program, "python", "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_gaussian_splatting_plans_its_submodules_and_an_install(copied: Path) -> None:
    root = copied / "gaussian-splatting"
    overridden(root, {"torch": {"version": RELEASE}})
    plan = planned(root)
    names = [stage.name for stage in plan.stages]
    assert [name for name in names if name.startswith("extensions:")] == [
        *("extensions:torchvision", "extensions:diff-gaussian-rasterization"),
        "extensions:simple-knn",
    ]
    assert "install" in names
    assert "compile" not in names  # an official wheel has code for the RTX 5090


def test_fork_plans_a_build_of_the_clone_for_each_profile(fork: Path) -> None:
    project = project_of(fork)
    assert read_default_profile(project) == "release"
    for profile, folder, kind in (
        ("release", "pytorch", "Release"),
        ("debug", "pytorch-debug", "Debug"),
    ):
        settings = load_settings(project, profile, {}).settings
        assert (settings.source.path, settings.build.type) == (folder, kind)
        assert settings.build.flags == {"BUILD_TEST": False}
    overridden(fork, {"target": {"gpus": []}})
    assert "compile" in [stage.name for stage in planned(fork).stages]


def test_every_matrix_entry_of_the_lab_can_be_planned(copied: Path) -> None:
    root = copied / "lab"
    project = project_of(root)
    loaded = load_settings(project, read_default_profile(project), {})
    entries = expand_matrix(loaded.settings.matrix)
    assert len(entries) == 4
    assert loaded.settings.publish.dest == "wheels"
    for entry in entries:
        plan = planned(root, f"default@{entry}")
        assert {"extensions:simple-knn", "wheel"} <= {stage.name for stage in plan.stages}


# Settings that a comment of an example suggests
SUGGESTED = [
    (name, line.removeprefix("# "))
    for name in EXAMPLES
    for line in (ROOT / "examples" / name / "torchyard.yaml").read_text("utf-8").splitlines()
    if re.match(r"# \w+: \{", line)
]


@pytest.mark.parametrize(("name", "line"), SUGGESTED)
def test_suggested_settings_are_valid(copied: Path, name: str, line: str) -> None:
    root = copied / name
    (root / "torchyard.local.yaml").write_text(f"{line}\n", encoding="utf-8")
    project = project_of(root)
    load_settings(project, read_default_profile(project), {})


def documented(name: str) -> Iterator[list[str]]:
    """Yield the words of each call of torchyard in a README."""
    for block in snippets(ROOT / "examples" / name / "README.md"):
        if block.language == "sh":
            for command in commands(block.text):
                words = command.split()
                if "torchyard" in words:
                    yield words[words.index("torchyard") + 1 :]
    text = (ROOT / "examples" / name / "README.md").read_text(encoding="utf-8")
    yield from (code.split() for code in re.findall(r"`torchyard ([^`]+)`", text) if code)


OPTIONS = {
    **{page.name: page.options for page in help_pages.COMMAND_PAGES},
    **{page.name: () for page in (help_pages.BUILD_PAGE, *help_pages.STAGE_PAGES)},
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_commands_of_the_readme_exist(copied: Path, name: str) -> None:
    project = project_of(copied / name)
    profiles = list_profiles(project)
    calls = [words for words in documented(name) if not words[0].endswith(".yaml")]
    assert len(calls) >= 4
    for command, *arguments in calls:
        known = {one.name: one for one in OPTIONS[command]}
        while arguments:
            option = arguments.pop(0).removeprefix("--")
            if option == "profile":
                load_settings(project, arguments[0], {})  # with its matrix entry
                assert arguments.pop(0).partition("@")[0] in profiles
            elif known[option].value:
                arguments.pop(0)
    text = (ROOT / "examples" / name / "README.md").read_text(encoding="utf-8")
    for profile in re.findall(r"\.torchyard/build/([\w.-]+)/run", text):
        assert profile in profiles
    for link in re.findall(r"\]\((\.\.[^)]+)\)", text):
        assert (ROOT / "examples" / name / link).is_file()


def test_gaussian_splatting_is_built_and_installed(copied: Path) -> None:
    root, index = copied / "gaussian-splatting", copied / "index"
    torch = {
        "torch/__init__.py": "from torch.version import __version__\n",
        "torch/version.py": "__version__ = '2.15.0+ours'\ncuda = None\n",
    }
    smallwheels.wheel(index, "torch", "2.15.0+ours", torch)
    target = smallwheels.theirs(root / ".venv")
    overridden(
        root,
        {
            "python": PYTHON,
            "target": {"gpus": []},
            "torch": {"version": "2.15.0", "index": str(index), "strategy": "prebuilt"},
            "companions": [],
        },
    )
    torchyard(root, "build")
    code = "import torch, simple_knn, diff_gaussian_rasterization as d; "
    code += "print(torch.__version__, simple_knn.answer(), d.answer())"
    assert target.says(code) == "2.15.0+ours 42 42"
    assert run(root, "default", code) == "2.15.0+ours 42 42"
    torchyard(root, "restore", "--yes")
    assert not (target.site / "torch").exists()


def test_fork_is_built_in_both_profiles(fork: Path) -> None:
    overridden(fork, {"target": {"gpus": []}, "source": {"submodules": False}})
    torchyard(fork, "build")
    show = "import torch; print(torch.__version__, torch.add(1, 2))"
    head = git(fork / "pytorch", "rev-parse", "HEAD")[:7]
    assert run(fork, "release", show) == f"2.6.0+cpu.g{head} 3.0"

    git(fork / "pytorch", "worktree", "add", "-q", "--detach", "../pytorch-debug")
    torchyard(fork, "build", "--profile", "debug")
    assert run(fork, "debug", show) == f"2.6.0+cpu.debug.g{head} 3.0"
    assert "Up to date" in torchyard(fork, "build")  # the other tree changed nothing


@pytest.mark.long
def test_lab_publishes_every_entry(copied: Path) -> None:
    root, index = copied / "lab", copied / "index"
    for release in ("2.15.0", "2.14.1"):
        torch = {
            "torch/__init__.py": "from torch.version import __version__\n",
            "torch/version.py": f"__version__ = '{release}+ours'\ncuda = None\n",
        }
        smallwheels.wheel(index, "torch", f"{release}+ours", torch)
    overridden(
        root,
        {
            "target": {"gpus": []},
            "torch": {"index": str(index), "strategy": "prebuilt"},
            "extensions": [],
            "matrix": {"python": [PYTHON]},
        },
    )
    torchyard(root, "matrix", "--build")
    published = {path.name.split("-")[1] for path in (root / "wheels" / "files").glob("*.whl")}
    assert published == {"2.15.0+ours", "2.14.1+ours"}
    torchyard(root, "lock")
    entry = f"default@torch2.15.0-py{PYTHON}"
    torchyard(root, "bundle", "--profile", entry, "--dest", "bundle.tar")
    other = root.with_name("other")
    other.mkdir()
    for name in ("torchyard.yaml", "torchyard.local.yaml", "torchyard.lock", "bundle.tar"):
        shutil.move(root / name, other)
    shutil.rmtree(root)
    shutil.rmtree(index)
    torchyard(other, "build", "--profile", entry, offline="bundle.tar")
    show = "import torch; print(torch.__version__)"
    assert run(other, entry.replace("@", "."), show) == "2.15.0+ours"
