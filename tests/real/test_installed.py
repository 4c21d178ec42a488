"""The installed command in a project of a user: a wheel in an empty venv, outside any checkout.

The tests share a project and run in order, as a user would.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.support.checkout import ROOT
from tests.support.installedwheel import Installed, build_distribution, set_version
from tests.support.snippets import Snippet, every

pytestmark = pytest.mark.real

EXTENSION = "submodules/smoke"
HERE = "tests/real/test_installed.py"


def is_run_here(snippet: Snippet) -> bool:
    """Return True if the documentation says that this file runs the block."""
    return snippet.mark is not None and snippet.mark.text == HERE


def where(snippet: Snippet) -> str:
    """Return the place of a block, as the name of its test."""
    return snippet.where


@dataclass
class Stand:
    """The installed command, and the project that it is used in."""

    installed: Installed
    project: Path

    @property
    def below(self) -> Path:
        """Return a subfolder of the project, which all commands start in."""
        return self.project / "scripts"

    def must(self, *argv: str) -> str:
        """Return the output of a command that has to succeed, started in the subfolder."""
        return self.installed.must(*argv, cwd=self.below)

    def manifest(self, name: str) -> dict[str, object]:
        """Return a manifest of the profile `default`."""
        path = self.project / ".torchyard" / "build" / "default" / f"{name}.json"
        loaded: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
        return loaded


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    folder = tmp_path_factory.mktemp("installed")
    wheel = build_distribution("wheel", folder / "dist")
    project = folder / "my-project"
    shutil.copytree(ROOT / "templates" / "smoke", project / EXTENSION)
    (project / "scripts").mkdir()
    (project / "my_script.py").write_text("import torch, torchyard_smoke\n", encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHYARD_CACHE_DIR", str(folder / "cache"))
        patch.setenv("TORCHYARD__TARGET__GPUS", '["12.0"]')
        yield Stand(Installed(folder / "venv", wheel), project)
    shutil.rmtree(folder)


def test_only_the_package_torchyard_is_installed(stand: Stand) -> None:
    code = "import importlib.util as u; print([n for n in 'torchyard tasks config templates docs'"
    code += ".split() if u.find_spec(n)])"
    python = [str(stand.installed.python), "-I", "-c", code]
    assert subprocess.check_output(python, text=True).strip() == "['torchyard']"


def test_init_writes_a_file_that_lists_the_extension(stand: Stand) -> None:
    out = stand.must("init", "--yes")
    text = (stand.project / "torchyard.yaml").read_text(encoding="utf-8")
    assert all(line in out for line in text.splitlines())  # it was shown
    extensions = yaml.safe_load(text)["extensions"]
    assert [one["path"] for one in extensions] == [EXTENSION]
    assert "next: torchyard build" in out


def test_explain_changes_nothing_but_the_facts(stand: Stand) -> None:
    out = stand.must("explain")
    assert "wheel" in out
    assert "first time" in out
    assert not (stand.project / ".torchyard" / "build" / "default").exists()


def test_build_and_validate_the_project(stand: Stand) -> None:
    assert "strategy prebuilt" in stand.must("build")
    assert "Up to date" in stand.must("build")
    found = stand.must("validate")
    assert "machine code" in found
    assert " 0 failed" in found
    status = ["git", "-C", str(stand.project), "status", "--short", "--untracked-files=all"]
    assert ".torchyard/" not in subprocess.check_output(status, text=True)


@pytest.mark.parametrize("snippet", [one for one in every("sh") if is_run_here(one)], ids=where)
def test_documented_commands_run(snippet: Snippet, stand: Stand) -> None:
    """Run a block of the documentation beside the project `my-project`, as it is written."""
    folder = stand.project if "cd my-project" not in snippet.text else stand.project.parent
    path = f"{stand.installed.program.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", snippet.text],
        cwd=folder,
        env={**os.environ, "PATH": path, "CI": "true"},
        text=True,
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{snippet.text}{done.stdout}{done.stderr}"


def test_an_edit_rebuilds_the_extension_only(stand: Stand) -> None:
    torch = stand.manifest("wheel")
    kernel = next((stand.project / EXTENSION).rglob("kernel.cu"))
    kernel.write_text(f"{kernel.read_text(encoding='utf-8')}\n// edited\n", encoding="utf-8")
    out = stand.must("build")
    built = [line for line in out.splitlines() if line.strip().startswith(("Built", "Installed"))]
    assert len(built) == 1, out
    assert "extensions:" in built[0]
    assert stand.manifest("wheel") == torch


def test_lock_is_written_beside_the_settings(stand: Stand) -> None:
    stand.must("lock")
    assert (stand.project / "torchyard.lock").is_file()
    assert "matches the build" in stand.must("lock", "--check")


def test_an_upgrade_rebuilds_nothing(stand: Stand, tmp_path: Path) -> None:
    """A newer torchyard in another venv, as uvx has it, finds everything up to date."""
    source = tmp_path / "newer"
    for name in ("src", "tasks", "config", "templates", "docs"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("local*.yaml*"))
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, source)
    set_version(source, "99.0")
    newer = Installed(tmp_path / "venv", build_distribution("wheel", tmp_path / "dist", source))
    assert newer.must("--version", cwd=stand.below).strip() == "torchyard 99.0"
    assert "Up to date" in newer.must("build", cwd=stand.below)
    assert "matches the build" in newer.must("lock", "--check", cwd=stand.below)


def test_purge_removes_what_was_built_and_keeps_the_files_of_the_user(stand: Stand) -> None:
    assert "nothing was removed yet" in stand.must("purge")
    stand.must("purge", "--yes")
    assert not (stand.project / ".torchyard" / "build" / "default").exists()
    kept = {path.name for path in stand.project.iterdir()}
    assert kept >= {"torchyard.yaml", "torchyard.lock", "scripts", "submodules"}
