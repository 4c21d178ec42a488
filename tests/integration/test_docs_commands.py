"""The commands of the documentation, run as they stand there, in a project whose settings are
small: a toy of PyTorch's tree and a toy extension.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.integration.conftest import source_profile
from tests.support.snippets import Snippet, commands, every
from tests.support.systems import posix_only
from tests.support.torchyardcommand import make_command

pytestmark = [pytest.mark.integration, posix_only]

HERE = "tests/integration/test_docs_commands.py"
LOG = "a.cpp:1:10: fatal error: Python.h: No such file or directory\n"
# What a reader has in the place of what an example names
THEIRS = {"FILE": LOG, "train.py": "import sys, torch; print(torch.__version__, sys.argv[1:])\n"}


@dataclass(frozen=True)
class Reader:
    """A user with `torchyard` on PATH and a project."""

    project: Path
    programs: Path

    def run(self, snippet: Snippet) -> None:
        """Run a block of commands in the project; each has to succeed."""
        env = {
            **os.environ,
            "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}",
            "CI": "true",
            "TORCHYARD__BUILD__CACHE": "off",
        }
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", snippet.text],
            cwd=self.project, env=env, text=True, check=False,
            capture_output=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, f"{snippet.where}\n{snippet.text}{done.stdout}{done.stderr}"


@pytest.fixture
def reader(tmp_path: Path, tree: Path, extension: Path) -> Reader:
    """The default profile has the name that it has without a torchyard.yaml."""
    reader = Reader(tmp_path / "project", tmp_path / "programs")
    make_command(reader.programs)
    reader.project.mkdir()
    validation = {"only": ["import", "version", "extensions"]}  # a toy cannot calculate
    settings = {**source_profile(tree, extension), "validation": validation}
    text = yaml.safe_dump({"profile": "quickstart", **settings})
    for name, content in {**THEIRS, "torchyard.yaml": text}.items():
        (reader.project / name).write_text(content, encoding="utf-8")
    return reader


@contextmanager
def failed(reader: Reader, tree: Path) -> Iterator[None]:
    """While the last build is one that failed."""
    source = tree / "c10" / "core.cpp"
    good = source.read_text(encoding="utf-8")
    source.write_text(f"{good}\nint broken(", encoding="utf-8")
    reader.run(Snippet(HERE, "sh", "! torchyard build\n", None))
    yield
    source.write_text(good, encoding="utf-8")
    reader.run(Snippet(HERE, "sh", "torchyard build\n", None))


def test_what_is_marked_as_run_here_runs(reader: Reader, tree: Path) -> None:
    marked = [one for one in every("sh") if one.mark and one.mark.text == HERE]
    build = Snippet(HERE, "sh", "torchyard build\n", None)  # pages begin with what a build left
    once = {tuple(commands(one.text)): one for one in (build, *marked)}
    for snippet in once.values():
        with failed(reader, tree) if "torchyard diagnose" in snippet.text else nullcontext():
            reader.run(snippet)
    assert len(marked) > 10
