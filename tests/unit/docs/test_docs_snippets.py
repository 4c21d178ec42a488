"""Documented commands and settings are valid: a test runs each command, or its marker explains why
not; YAML parses as settings, shell blocks parse, and `torchyard` and
`doit` have the named commands.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import tree_sitter_powershell
import yaml
from tree_sitter import Language, Parser

from tasks.core.project import PROJECT_FILE, Project
from tasks.settings.layers_io import PROJECT_PROFILE, load_settings, read_default_profile
from tests.support.documentedcommands import Use, uses, wrong
from tests.support.rows import each_row
from tests.support.snippets import (
    ROOT,
    Mark,
    Snippet,
    commands,
    every,
    inline,
    name_of,
    pages,
    snippets,
)
from tests.support.systems import posix_only

RUNNER = "tests/integration/test_docs_commands.py"
RUNNERS = (RUNNER, "tests/real/test_installed.py")  # of whole blocks
TERMINAL = "tests/integration/test_terminal.py"
SHELLS = ("sh", "console", "powershell", "bat")
OTHERS = ("", "text", "yaml", "toml", "json", "ini", "python")


def where(snippet: Snippet) -> str:
    return snippet.where


def missing(snippet: Snippet) -> str:
    """Return what the marker of a block lacks; "" if it is complete."""
    mark = snippet.mark
    if mark is None or mark.kind == "not settings":
        return "say before it <!-- run by FILE --> or <!-- not run: REASON -->"
    if mark.kind == "not run":
        return "" if len(mark.text.split()) > 1 else "give the reason"
    if not (ROOT / mark.text).is_file():
        return f"there is no {mark.text}"
    if mark.text in RUNNERS:
        return "" if snippet.language == "sh" else f"{mark.text} runs sh alone"
    run = run_by(ROOT / mark.text)
    return ", ".join(
        f"{mark.text} has no {one!r}" for one in commands(snippet.text) if one not in run
    )


def run_by(file: Path) -> set[str]:
    """Return the complete commands in the strings of a test file or the lines of a script."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        return {one for literal in literals(text) for one in commands(literal)}
    lines = re.sub(r"--quiet ", "", text)
    return {one for line in commands(lines) for one in map(str.strip, re.split(r"\|+", line))}


def literals(code: str) -> Iterator[str]:
    """Return the strings of a Python module, without docstrings."""
    nodes = list(ast.walk(ast.parse(code)))
    result = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in result
        ):
            yield node.value


@each_row("snippet", every(*SHELLS), ids=where)
def test_documented_command_is_run_by_a_test_or_explains_why_not(snippet: Snippet) -> None:
    assert not missing(snippet), f"{snippet.where}: {missing(snippet)}"


@each_row("page", pages(), ids=name_of)
def test_code_block_states_its_language(page: Path) -> None:
    assert {one.language for one in snippets(page)} <= {*SHELLS, *OTHERS}


@posix_only
@each_row("snippet", every("sh"), ids=where)
def test_bash_blocks_are_valid(snippet: Snippet) -> None:
    done = subprocess.run(
        ["bash", "-n"], input=snippet.text, text=True, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@each_row("snippet", every("powershell"), ids=where)
def test_powershell_blocks_are_valid(snippet: Snippet) -> None:
    parser = Parser(Language(tree_sitter_powershell.language()))
    assert not parser.parse(snippet.text.encode()).root_node.has_error


@each_row("snippet", every("yaml"), ids=where)
def test_settings_examples_are_valid(snippet: Snippet, tmp_path: Path) -> None:
    """In torchyard.yaml, with each profile that they define."""
    if snippet.mark and snippet.mark.kind == "not settings":
        return
    project = Project.of_folder(tmp_path, ROOT, tmp_path / "cache")
    (tmp_path / PROJECT_FILE).write_text(snippet.text, encoding="utf-8")
    profiles = yaml.safe_load(snippet.text).get("profiles", ())
    for name in (PROJECT_PROFILE, read_default_profile(project), *profiles):
        assert load_settings(project, name, {}).profile == name


@pytest.mark.parametrize("snippet", every("toml", "json"), ids=where)
def test_toml_and_json_blocks_are_valid(snippet: Snippet) -> None:
    assert {"toml": tomllib.loads, "json": json.loads}[snippet.language](snippet.text)


@each_row("page", pages(), ids=name_of)
def test_documented_commands_options_and_profiles_exist(page: Path) -> None:
    shown = [
        line for one in snippets(page) if one.language in SHELLS for line in one.text.splitlines()
    ]
    for line in (*inline(page), *shown):
        for use in uses(line):
            assert not wrong(use), f"{name_of(page)}: {line}: {wrong(use)}"


@each_row("page", pages(), ids=name_of)
def test_modules_and_files_named_in_docs_exist(page: Path) -> None:
    """Only files of the checkout count: build outputs and placeholders are skipped."""
    for code in (*inline(page), *(one.text for one in snippets(page))):
        for module in re.findall(r"python -m (tasks\.[\w.]+|tests(?:\.[\w.]+)?)", code):
            path = ROOT / module.replace(".", "/")
            assert path.is_dir() or path.with_suffix(".py").is_file(), f"{name_of(page)}: {code}"
    for code in inline(page):
        if re.fullmatch(r"(?:tasks|tests|templates|docs|\.ci|\.github)/[a-z0-9_./-]+", code):
            assert (ROOT / code).exists(), f"{name_of(page)}: {code}"


@each_row(
    ("text", "message"),
    [
        ("```sh\nls\n```", "say before it"),
        ("<!-- not run: why -->\n```sh\nls\n```", "give the reason"),
        ("<!-- run by tests/nothing.py -->\n```sh\nls\n```", "there is no"),
        ("<!-- run by .ci/run -->\n```sh\nls --nothing # comment\n```", "has no 'ls --nothing'"),
        ("<!-- run by .ci/run -->\n```sh\nmypy && doit build  # all\n```", ""),
        ("<!-- run by .ci/run -->\n```sh\nruff check\n```", "has no 'ruff check'"),
        ("<!-- run by .ci/run -->\n```sh\nunits\n```", "has no 'units'"),
        (f"<!-- run by {TERMINAL} -->\n```sh\ndoit init\n```", "has no 'doit init'"),
        (f"<!-- run by {RUNNER} -->\n```bat\ndir\n```", "runs sh alone"),
    ],
)
def test_block_without_complete_marker_is_found(text: str, message: str) -> None:
    (found,) = snippets(ROOT / "README.md", text)
    assert message in missing(found)
    assert bool(message) == bool(missing(found))


def test_command_in_a_comment_or_longer_command_is_not_run() -> None:
    code = (
        '"""doit a"""\nA = "doit b --all"\n# "doit c"\ndef f():\n    "doit d"\n    run("doit e")\n'
    )
    assert set(literals(code)) == {"doit b --all", "doit e"}


def test_marker_belongs_to_the_next_block() -> None:
    text = "<!-- not settings: of GitHub -->\n```yaml\na: 1\n```\n\n   ```\n   out\n   ```\n"
    first, other = snippets(ROOT / "README.md", text)
    assert first.mark == Mark("not settings", "of GitHub")
    assert (other.text, other.mark) == ("out\n", None)


@pytest.mark.parametrize(
    ("line", "bad"),
    [
        ("doit matrix [--build] [--workflow github\\|slurm --out FILE] [--json FILE]", []),
        ("doit build && doit bundle --dest /media/usb/torch.tar", []),
        (".venv\\Scripts\\doit doctor profile=cpu", []),
        ("doit extensions:NAME", []),
        ("doit report --rum NAME", ["--rum"]),
        ("doit biuld", ["biuld"]),
        ("doit validate --json FILE", ["--json"]),
        ("doit build profile=rtx50900", ["profile=rtx50900"]),
        ("torchyard matrix [--build] [--workflow github\\|slurm --out FILE] [--json FILE]", []),
        (".venv\\Scripts\\torchyard doctor --profile cpu", []),
        ("torchyard -C DIR build --always --profile nobody@torch2.15.0", ["nobody@torch2.15.0"]),
        ("torchyard build --profile default@torch2.15.0 && torchyard clean -n extensions:NAME", []),
        ("torchyard completion bash > FILE", []),
        ("torchyard completion tcsh > FILE", ["tcsh"]),
        ("torchyard build -z", ["-z"]),
        ("torchyard build profile=cpu", ["profile=cpu"]),
        ("torchyard report --rum NAME", ["--rum"]),
        ("torchyard biuld", ["biuld"]),
        ("torchyard validate --json FILE", ["--json"]),
        ("torchyard build --profile rtx50900", ["rtx50900"]),
    ],
)
def test_unknown_command_option_or_profile_is_found(line: str, bad: list[str]) -> None:
    assert [one for use in uses(line) for one in wrong(use)][:1] == bad


def test_calls_are_found_with_their_program() -> None:
    line = "In `x`: doit build # doit a"
    assert uses(line) == [Use("doit", ("build",))]
    assert uses("torchyard -C a build > b; torchyard.yaml") == [
        Use("torchyard", ("-C", "a", "build"))
    ]
