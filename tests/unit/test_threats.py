"""Attacks through a repository, directory or variable that a build reads.
docs/security.md lists all threats and names those tested elsewhere.
"""

from __future__ import annotations

import ast
import contextlib
import sys
from pathlib import Path

import pytest

from tasks.cli.session import open_session
from tasks.core.deps_model import DepsManifest, Program
from tasks.core.errors import TorchyardError
from tasks.core.model import Command, Layout
from tasks.core.project import Project
from tasks.settings.schema import parse_settings
from tasks.stages.extensions.extension_environment_io import (
    locate_build_requirements,
    prepare_build,
)
from tasks.stages.extensions.plan import plan_extension
from tasks.system import shell
from tasks.system.git import clones
from tasks.system.network import network_access
from tests.support import smallwheels
from tests.support.actionyard import CHOICE
from tests.support.checkout import KNOWLEDGE, Heard
from tests.support.rows import each_row
from tests.support.systems import needs_git
from tests.unit.system.git.test_git import commit, repository, run

ROOT = Path(__file__).parent.parent.parent
MODULES = sorted((ROOT / "tasks").rglob("*.py"))
posix = pytest.mark.skipif(sys.platform == "win32", reason="not run: programs are shell scripts")


@pytest.fixture
def pwned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file that exists once an injected command has run; git's settings would allow it."""
    monkeypatch.setattr(network_access, "RETRY_PAUSES", (0.0, 0.0))
    allowing = tmp_path / "gitconfig"
    allowing.write_text('[protocol "ext"]\n\tallow = always\n', encoding="utf-8")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(allowing))
    monkeypatch.setattr(shell, "PASSED_VARIABLES", shell.PASSED_VARIABLES | {"GIT_CONFIG_GLOBAL"})
    return tmp_path / "pwned"


@posix
@needs_git
def test_submodule_url_runs_no_command(tmp_path: Path, pwned: Path) -> None:
    repository(tmp_path / "part", code="1\n")
    there = repository(tmp_path / "upstream")
    run(there, "submodule", "--quiet", "add", str(tmp_path / "part"), "part")
    modules = (there / ".gitmodules").read_text(encoding="utf-8")
    evil = modules.replace(f"url = {tmp_path / 'part'}", f"url = ext::sh -c touch% {pwned}")
    assert evil != modules
    commit(there, **{".gitmodules": evil})
    with pytest.raises(TorchyardError, match="not allowed"):
        clones.clone_at_ref(str(there), "main", tmp_path / "src" / "clone")
    assert not pwned.exists()


@posix
@needs_git
def test_mirror_url_runs_no_command(tmp_path: Path, pwned: Path) -> None:
    there = repository(tmp_path / "upstream")
    mirrors = {str(there): f"ext::sh -c touch% {pwned}"}
    with pytest.raises(TorchyardError, match="not allowed"):
        clones.clone_at_ref(str(there), "main", tmp_path / "src" / "clone", mirrors=mirrors)
    assert not pwned.exists()


@posix
@needs_git
def test_git_hook_of_a_repository_is_not_run(tmp_path: Path, pwned: Path) -> None:
    """A clone contains no hooks; one among its files is only a file."""
    there = repository(tmp_path / "upstream")
    hooks = there / "hooks"
    hooks.mkdir()
    (hooks / "post-checkout").write_text(f"#!/bin/sh\ntouch {pwned}\n", encoding="utf-8")
    (hooks / "post-checkout").chmod(0o755)
    commit(there)
    clones.clone_at_ref(str(there), "main", tmp_path / "src" / "clone")
    assert (tmp_path / "src" / "clone" / "hooks" / "post-checkout").is_file()
    assert not pwned.exists()


@posix
@pytest.mark.parametrize("entry", [".", "", "tools"])
def test_program_in_working_directory_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    for folder in (tmp_path, tmp_path / "tools"):
        folder.mkdir(exist_ok=True)
        (folder / "uname").write_text("#!/bin/sh\necho theirs\n", encoding="utf-8")
        (folder / "uname").chmod(0o755)
    monkeypatch.setenv("PATH", f"{entry}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    result = shell.capture_output(Command(("uname",), shell.build_host_env(), "look", cwd=tmp_path))
    assert result.strip() == "Linux" or sys.platform != "linux"
    assert "theirs" not in result


def test_build_requirement_on_torch_fails_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smallwheels.wheel(tmp_path / "index", "helper", "1.0", {"helper.py": ""}, ["torch"])
    smallwheels.torch(tmp_path / "index", "2.15.0")
    (tmp_path / "uv.toml").write_text("no-index = true\n", encoding="utf-8")
    monkeypatch.setenv("UV_CONFIG_FILE", str(tmp_path / "uv.toml"))
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "index"))
    extension = {"name": "toy", "path": str(tmp_path), "requires": ["helper"]}
    settings = parse_settings({"extensions": [extension]})
    layout = Layout(Project.of_checkout(tmp_path), "mine", tmp_path / "wheelhouse")
    job = plan_extension(settings.extensions[0], settings, layout, CHOICE, KNOWLEDGE).job
    none = Program("", "")
    deps = DepsManifest(
        sys.executable, "3.12.0", "1", None, "", None, None, none, none, none, none, None
    )
    with pytest.raises(
        TorchyardError, match="helper installs another torch, and toy would be built against"
    ):
        prepare_build(job, deps)
    assert not locate_build_requirements(job).exists()


@pytest.fixture
def laid(yard: Path) -> Path:
    """Create a checkout whose config/local.yaml names programs that create a file `ran`."""
    for program in ("env/bin/python", "cuda/bin/nvcc"):
        path = yard / program
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\ntouch {yard / 'ran'}\n", encoding="utf-8")
        path.chmod(0o755)
    (yard / "cuda" / "include").mkdir()
    text = "#define CUDA_VERSION 13020\n"
    (yard / "cuda" / "include" / "cuda.h").write_text(text, encoding="utf-8")
    python = yard / "env" / "bin" / "python"
    text = f"python: {python}\ntoolkit: {{path: {yard / 'cuda'}}}\ninstall: {{into: {python}}}\n"
    (yard / "config" / "local.yaml").write_text(text, encoding="utf-8")
    return yard


@posix
@pytest.mark.parametrize(
    "words",
    [
        *("list", "list --all", "list --quiet --sort=name", "help", "help build", "help list"),
        *("settings", "settings --json out.json", "lock --help", "build --help", "install -h"),
        "list --help",
    ],
)
def test_read_only_commands_run_no_program_from_the_settings(laid: Path, words: str) -> None:
    session = open_session(Project.of_checkout(laid), "mine", {}, words.split())
    names = {task["basename"] for task in session.tasks()}
    assert {"deps", "wheel", "install", "lock", "explain"} <= names
    assert not (laid / "ran").exists()


@posix
@pytest.mark.parametrize(
    "words", ["explain", "list --status", "list -qs", "settings build", "settings x --json y"]
)
def test_planning_commands_run_programs_from_the_settings(laid: Path, words: str) -> None:
    """docs/security.md documents it; no other command lets a stage run with incomplete facts."""
    with contextlib.suppress(TorchyardError):
        open_session(Project.of_checkout(laid), "mine", {}, words.split())
    assert (laid / "ran").exists()


@posix
def test_help_option_builds_nothing(laid: Path, heard: Heard) -> None:
    """doit reads --help in `doit -o --help deps` as a file name, and would run deps."""
    opened = open_session(Project.of_checkout(laid), "mine", {}, ["-o", "--help", "deps"])
    (deps,) = (task for task in opened.tasks() if task["basename"] == "deps")
    execute, (yard, stage) = deps["actions"][0]
    yard.gate = lambda: None
    assert "nothing is built because" in execute(yard, stage).get_msg()
    assert not (laid / "ran").exists()
    assert not (laid / "build" / "mine" / "host.json").exists()


@each_row("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_shell_string_and_no_root_privileges_are_used(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.keyword):
            assert node.arg != "shell", f"line {node.value.lineno}"
        if isinstance(node, ast.Tuple | ast.List) and node.elts:
            first = node.elts[0]
            program = first.value if isinstance(first, ast.Constant) else ""
            assert program not in {"sudo", "doas", "su", "pkexec"}, f"line {node.lineno}"
