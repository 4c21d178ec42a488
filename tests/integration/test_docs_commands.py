"""The commands of the documentation, run as they stand there, in a checkout whose profile is small:
a toy of PyTorch's tree and a toy extension.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
import yaml

from tests.integration.conftest import source_profile
from tests.support.snippets import Snippet, commands, every
from tests.support.systems import posix_only
from tests.support.yard import Yard

pytestmark = [pytest.mark.integration, posix_only]

HERE = "tests/integration/test_docs_commands.py"
LOG = "a.cpp:1:10: fatal error: Python.h: No such file or directory\n"
# What a reader has in the place of what an example names
THEIRS = {"FILE": LOG, "train.py": "import sys, torch; print(torch.__version__, sys.argv[1:])\n"}


@contextmanager
def failed(yard: Yard, tree: Path) -> Iterator[None]:
    """While the last build is one that failed."""
    source = tree / "c10" / "core.cpp"
    good = source.read_text(encoding="utf-8")
    source.write_text(f"{good}\nint broken(", encoding="utf-8")
    run(yard, Snippet(HERE, "sh", "! doit build\n", None))
    yield
    source.write_text(good, encoding="utf-8")
    run(yard, Snippet(HERE, "sh", "doit build\n", None))


def run(yard: Yard, snippet: Snippet) -> None:
    bin_folder = Path(sys.executable).parent
    env = {
        **os.environ,
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "CI": "true",
        "TORCHYARD__BUILD__CACHE": "off",
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", snippet.text],
        cwd=yard.folder, env=env, text=True, check=False,
        capture_output=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, f"{snippet.where}\n{snippet.text}{done.stdout}{done.stderr}"


def test_what_is_marked_as_run_here_runs(yard: Yard, tree: Path, extension: Path) -> None:
    profile = yard.folder / "config" / "profiles" / "quickstart.yaml"
    real = {"validation": {"only": ["import", "version", "extensions"]}}  # a toy cannot reckon
    profile.write_text(
        yaml.safe_dump({**source_profile(tree, extension), **real}), encoding="utf-8"
    )
    for name, text in THEIRS.items():
        (yard.folder / name).write_text(text, encoding="utf-8")
    marked = [one for one in every("sh") if one.mark and one.mark.text == HERE]
    build = Snippet(HERE, "sh", "doit build\n", None)  # pages begin with what a build left
    once = {tuple(commands(one.text)): one for one in (build, *marked)}
    for snippet in once.values():
        with failed(yard, tree) if "doit diagnose" in snippet.text else nullcontext():
            run(yard, snippet)
    assert len(marked) > 10
