"""Shell completion: the candidates, and real shells that insert them."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tasks.cli.complete import find_completions
from tasks.cli.help_text import HELP_PAGES
from tasks.core.project import Project
from tasks.settings.layers_io import list_profiles
from tests.support.systems import posix_only

if sys.platform != "win32":
    import pty

ROOT = Path(__file__).parents[3]
COMPLETION = ROOT / "templates"
PATIENCE = 60  # seconds to wait for output of a shell
needs_bash = pytest.mark.skipif(not shutil.which("bash"), reason="not run: there is no bash")
needs_zsh = pytest.mark.needs("zsh")


def words(line: str, root: Path = ROOT) -> list[str]:
    return [name for name, _ in find_completions(line, root)]


def test_task_is_completed_by_name() -> None:
    assert words("doit bui") == ["build"]
    assert words("doit build va") == ["validate"]
    assert set(HELP_PAGES) <= set(words("doit "))


def test_profile_names_are_completed_after_profile_option() -> None:
    assert words("doit build profile=rtx") == [
        f"profile={name}"
        for name in list_profiles(Project.of_checkout(ROOT))
        if name.startswith("rtx")
    ]
    assert "profile=" in words("doit build ")
    assert "profile=" not in words("doit build profile=cpu ")


def test_completed_extensions_are_those_of_named_profile() -> None:
    assert "extensions:smoke" in words("doit extensions:")
    assert words("doit profile=rtx5090 extensions:s") == ["extensions:simple-knn"]


def test_extensions_in_local_yaml_override_the_profile(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "config" / "profiles", tmp_path / "config" / "profiles")
    local = tmp_path / "config" / "local.yaml"
    local.write_text("extensions: [{name: mine, path: x}]\n", encoding="utf-8")
    assert words("doit extensions:", tmp_path) == ["extensions:mine"]


def test_completed_options_are_those_of_the_command() -> None:
    assert words("doit diagnose --") == ["--log", "--json"]
    assert words("doit init --way s") == ["source"]
    assert words("doit list --st") == ["--status"]
    assert words("doit -") == ["-a"]
    assert words("doit build -") == []


def test_file_names_are_left_to_the_shell() -> None:
    assert words("doit diagnose --log ") == []


def test_broken_profile_completes_silently(tmp_path: Path) -> None:
    """The user may be editing the profile."""
    shutil.copytree(ROOT / "tasks", tmp_path / "tasks")
    (tmp_path / "config" / "profiles").mkdir(parents=True)
    (tmp_path / "config" / "profiles" / "quickstart.yaml").write_text("extensions: [", "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "tasks.cli.complete", "--", "doit extensions:"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == []


def test_completion_imports_no_slow_modules() -> None:
    """The user waits for it after pressing Tab."""
    heavy = (
        "pydantic",
        "doit",
        "tasks.cli.session",
        "tasks.planning.profile_plan",
        "tasks.settings.layers_io",
    )
    code = (
        "import sys; from tasks.cli.complete import find_completions;"
        "list(find_completions('doit extensions:'));"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def environment(folder: Path) -> dict[str, str]:
    """Return an environment with doit on PATH, next to the Python of these tests."""
    (folder / "doit").write_text("#!/bin/sh\n", encoding="utf-8")
    (folder / "doit").chmod(0o755)
    (folder / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    (folder / "python").chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    kept = {"PATH": path, "HOME": str(folder), "TERM": "dumb", "PS1": "$ ", "LC_ALL": "C.UTF-8"}
    return {**kept, "PROMPT": "$ ", "ZDOTDIR": str(folder)}


class Shell:
    """An interactive shell in a pseudo-terminal."""

    def __init__(self, argv: list[str], env: dict[str, str], cwd: Path) -> None:
        self.master, slave = pty.openpty()
        self.child = subprocess.Popen(
            argv, stdin=slave, stdout=slave, stderr=slave, env=env, cwd=cwd, start_new_session=True
        )
        os.close(slave)

    def type(self, text: str, until: str) -> str:
        """Type the text; return the output up to a match of the regular expression `until`."""
        os.write(self.master, text.encode())
        said, begun = "", time.monotonic()
        while not re.search(until, said):
            assert time.monotonic() - begun < PATIENCE, said
            if select.select([self.master], [], [], 1)[0]:
                said += os.read(self.master, 4096).decode(errors="replace")
        return said

    def close(self) -> None:
        self.child.kill()
        self.child.wait()
        os.close(self.master)


SHELLS = [
    pytest.param("bash", ["bash", "--norc", "--noprofile", "-i"], "", marks=needs_bash, id="bash"),
    pytest.param(
        "zsh", ["zsh", "-f", "-i"], "autoload -U compinit; compinit -u; ", marks=needs_zsh, id="zsh"
    ),
]
TYPED = [
    ("doit bui\t", "doit build "),
    ("doit build profile=cu\t", "profile=cuda124-torch25"),
    ("doit extensions:sm\t", "extensions:smoke"),
    ("doit init --way so\t", "--way source"),
    ("doit diagnose --log CHAN\t", "--log CHANGELOG.md"),
]


@posix_only
@pytest.mark.parametrize(("name", "argv", "before"), SHELLS)
def test_real_shell_completes_typed_words(
    name: str, argv: list[str], before: str, tmp_path: Path
) -> None:
    shell = Shell(argv, environment(tmp_path), ROOT)
    try:
        shell.type(f"{before}source templates/completion.{name}; echo re''ady\n", r"ready\r")
        for typed, whole in TYPED:
            shell.type(typed, re.escape(whole))
            shell.type("\x15", "")  # ^U deletes the line
    finally:
        shell.close()


@posix_only
@needs_bash
def test_bash_outside_a_checkout_gets_no_completions(tmp_path: Path) -> None:
    """doit of another project would need its own completion."""
    script = (
        f"source '{COMPLETION / 'completion.bash'}'; cd '{tmp_path}'; COMP_LINE='doit bui' "
        "COMP_POINT=8 COMP_WORDS=(doit bui) COMP_CWORD=1; _torchyard_doit; echo ${#COMPREPLY[@]}"
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env=environment(tmp_path), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("0\n", "")
