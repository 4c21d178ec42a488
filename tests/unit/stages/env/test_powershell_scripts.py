"""Tests of env.ps1 and run.ps1, by an independent reader of their parse tree and by PowerShell."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

import pytest
import tree_sitter_powershell
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_sitter import Language, Node, Parser

from tasks.core.errors import TorchyardError
from tasks.stages.env.model import Environment
from tasks.stages.env.run import render_script
from tests.support.shellcases import JOB, folder, script, text

QUOTES = "'\u2018\u2019\u201a\u201b"
PWSH = shutil.which("pwsh")
needs_pwsh = pytest.mark.skipif(not PWSH, reason="not run: no pwsh")
KINDS = ("env.ps1", "run.ps1")


@dataclass
class Read:
    """Effects of a script: assigned, removed and remembered variables, and prepended folders."""

    assigned: dict[str, str] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    remembered: list[str] = field(default_factory=list)
    folders: dict[str, list[str]] = field(default_factory=dict)


def nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from nodes(child)


def source(node: Node) -> str:
    return (node.text or b"").decode()


def unquoted(literal: str) -> str:
    """Decode a verbatim string like PowerShell: two quotes in a row are the second one."""
    assert literal[0] == literal[-1] == "'"
    inner, out = iter(literal[1:-1]), []
    for character in inner:
        if character in QUOTES:
            second = next(inner)
            assert second in QUOTES
            out.append(second)
        else:
            out.append(character)
    return "".join(out)


def literals(node: Node) -> list[str]:
    found = (one for one in nodes(node) if one.type == "verbatim_string_characters")
    return [unquoted(source(one)) for one in found]


def read_back(script: str) -> Read:
    """Parse a script without errors; the last assignment to a variable wins."""
    assert script.startswith("\ufeff")
    parser = Parser(Language(tree_sitter_powershell.language()))
    root = parser.parse(script.removeprefix("\ufeff").encode()).root_node
    assert not root.has_error
    read = Read()
    for node in nodes(root):
        if node.type == "command" and source(node).startswith("Remove-Item -ErrorAction"):
            read.removed |= {name.removeprefix("Env:") for name in literals(node)}
        if node.type == "assignment_expression":
            parts = [child for child in node.children if child.type != "comment"]
            _assignment(read, source(parts[0]), parts[-1])
    return read


def _assignment(read: Read, left: str, right: Node) -> None:
    variable = re.fullmatch(r"\$(?:env:(\w+)|\{env:(.+)\})", left)
    first = re.fullmatch(r"\$\S+\.Ours\['(.*)'\]", left)
    if variable:
        (read.assigned[variable[1] or variable[2]],) = literals(right)
    elif first:
        read.folders[first[1]] = literals(right)
    elif left == "$names":
        read.remembered = literals(right)


name = st.from_regex(r"[A-Z_][A-Za-z0-9_]{0,6}(\(x86\))?", fullmatch=True)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(
    values=st.dictionaries(name, text, max_size=4),
    defaults=st.dictionaries(name, text, max_size=2),
    gone=st.sets(name, max_size=3),
    folders=st.lists(folder, min_size=1, max_size=3),
    why=text,
)
def test_powershell_reads_written_values(
    *,
    kind: str,
    values: dict[str, str],
    defaults: dict[str, str],
    gone: set[str],
    folders: list[str],
    why: str,
) -> None:
    unset = tuple(sorted(gone - values.keys()))
    environment = Environment(values, {"PATH": tuple(folders)}, unset, ";", defaults)
    reasons = dict.fromkeys(environment.names, why)
    read = read_back(render_script(JOB, PurePath(kind), replace(environment, why=reasons)))
    given = {n: v for n, v in defaults.items() if n not in values and n not in gone}
    assert read == Read({**given, **values}, set(unset), list(environment.names), {"PATH": folders})


def test_powershell_default_keeps_existing_variable() -> None:
    found = render_script(JOB, PurePath("env.ps1"), Environment({}, {}, (), ";", {"V_A": "it's"}))
    assert "if (-not (Test-Path -LiteralPath 'Env:V_A')) { $env:V_A = 'it''s' }" in found


@pytest.mark.parametrize("bad", ["V=A", "2V", "", "V\nA", "V}", "V`"])
def test_name_unsupported_by_powershell_is_refused(bad: str) -> None:
    with pytest.raises(
        TorchyardError, match=r"(?s)not a valid name of a variable in PowerShell.*rename it"
    ):
        render_script(JOB, PurePath("env.ps1"), Environment({bad: "1"}, {}, (), ";"))


def test_nul_character_is_refused() -> None:
    for kind in ("env.sh", "env.ps1", "env.bat"):
        with pytest.raises(TorchyardError, match="NUL"):
            render_script(JOB, PurePath(kind), Environment({"V_A": "a\0b"}, {}, (), ":"))


def test_powershell_globals_are_removed() -> None:
    found = render_script(JOB, PurePath("env.ps1"), Environment({"V_A": "1"}, {}, (), ";"))
    created = set(re.findall(r"\$global:(\w+) =", found)) | set(
        re.findall(r"function global:(\w+)", found)
    )
    assert created == {"_torchyard", "torchyard_deactivate"}
    end = found[found.index("function global:") :]
    assert "Remove-Variable -Name _torchyard -Scope Global" in end
    assert r"Remove-Item -LiteralPath 'Function:\torchyard_deactivate'" in end
    run = render_script(JOB, PurePath("run.ps1"), Environment({"V_A": "1"}, {}, (), ";"))
    assert "$global:" not in run.replace("$global:LASTEXITCODE", "")
    assert run.index("\ntry {") < run.index("} finally {") < run.index("\nexit $code")


LOOK = "[Environment]::GetEnvironmentVariables() | ConvertTo-Json -Compress"


@needs_pwsh
def test_real_powershell_sets_and_restores_environment(tmp_path: Path) -> None:
    environment = Environment({"V_A": "it's \u2019 $x"}, {"PATH": ("/a",)}, ("V_B",), ":")
    path = script(environment, tmp_path / "env.ps1")
    base = {"PATH": "/usr/bin:/bin:/a", "V_B": "1", "HOME": str(tmp_path)}
    head = "Set-StrictMode -Version Latest; $ErrorActionPreference = 'Stop'"
    code = f"{head}; . '{path}'; . '{path}'; {LOOK}; torchyard_deactivate; {LOOK}"
    argv = [PWSH or "", "-NoProfile", "-c", code]
    done = subprocess.run(argv, env=base, capture_output=True, check=True, text=True)
    once, back = (
        dict(re.findall(r'"(V_A|V_B|PATH)":"(.*?)"', n)) for n in done.stdout.splitlines()
    )
    assert once == {
        n: v for n, v in environment.build_child_environment(base).items() if n != "HOME"
    }
    assert back == {n: v for n, v in base.items() if n != "HOME"}


@needs_pwsh
def test_real_powershell_forwards_arguments_and_exit_code(tmp_path: Path) -> None:
    path = tmp_path / "run.ps1"
    path.write_text(
        render_script(JOB, path, Environment({"V_A": "1"}, {}, (), ":")), encoding="utf-8"
    )
    code = (
        f"& '{path}' /bin/sh -c 'printf \"[%s]\" \"$V_A\" \"$@\"; exit 7' sh 'a b' '' lr=0.1 '\"'"
    )
    argv = [PWSH or "", "-NoProfile", "-c", f"{code}; exit $LASTEXITCODE"]
    done = subprocess.run(argv, capture_output=True, check=False, text=True)
    assert (done.returncode, done.stdout) == (7, '[1][a b][][lr=0.1]["]')
