"""The scripts, read back from real shells and a PowerShell parser, against Environment.over."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePath

import pytest
import tree_sitter_powershell
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_sitter import Language, Node, Parser

from tasks.effects import render
from tasks.effects.capacity import safe_jobs
from tasks.errors import BuildError
from tasks.stages.env.action import write_scripts
from tasks.stages.env.job import ArchLists, Environment, EnvJob

TEMPLATES = Path(__file__).parents[2] / "templates"
SHELLS = [(shell, path) for shell in ("bash", "dash", "zsh") if (path := shutil.which(shell))]
ENV = shutil.which("env") or "/usr/bin/env"
OF_THE_SHELL = {"_", "PWD", "OLDPWD", "SHLVL", "HOME", "LOGNAME", "MAX_JOBS"}
HOSTILE = [
    *("$(touch pwned)", "`touch pwned`", "${HOME}", "%PATH%", "!x!", "it's", '"', "\\", "a\\"),
    *("a\nb\n", " ", "", "*", "~", "#", ";", "|", "&& touch pwned", "ünï🜨", "-n", "''", "\t"),
    *("\r", "{}", "{{ x }}", "\u2019; touch pwned; \u2018"),
]

text = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
)
folder = st.one_of(
    st.sampled_from([item for item in HOSTILE if item and ":" not in item]),
    st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0:"), min_size=1, max_size=9
    ),
)
name = st.from_regex(r"V_[A-Za-z0-9_]{0,6}", fullmatch=True)
variables = st.dictionaries(name, text, max_size=4)
prepends = st.dictionaries(
    st.sampled_from(["PATH", "LD_LIBRARY_PATH", "V_", "rest", "item", "kept"]),
    st.lists(folder, min_size=1, max_size=3).map(tuple),
    max_size=3,
)


def script(environment: Environment, place: Path, kind: str = "env.sh") -> Path:
    job = EnvJob(
        profile="quick",
        system="linux",
        strategy="prebuilt",
        cuda=None,
        torch="2.15.0",
        targets=(),
        ptx=False,
        arch_lists=ArchLists(),
        build_type="Release",
        blas="auto",
        flags={},
        variables={},
        caching="auto",
        cache_size="auto",
        venv=PurePath("venv"),
        deps=PurePath("deps.json"),
        cache=PurePath("cache.json"),
        source=None,
        scripts=(place / kind,),
        templates=TEMPLATES,
        log=PurePath("env.log"),
    )
    write_scripts(job, environment)
    return place / kind


def sourced(shell: str, path: Path, base: Mapping[str, str], times: int = 1) -> dict[str, str]:
    """The environment of a child of `shell` after it has sourced the script under set -eu."""
    again = f". {render.sh(str(path))}; " * times
    argv = [shell, *(["-f"] if "zsh" in shell else []), "-c", f"set -eu; {again}exec {ENV} -0"]
    done = subprocess.run(argv, env=base, capture_output=True, check=True, cwd=path.parent)
    assert done.stderr == b""
    pairs = (item.decode().partition("=") for item in done.stdout.split(b"\0") if item)
    return {name: value for name, _, value in pairs if name not in OF_THE_SHELL}


def expected(environment: Environment, base: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in environment.over(base).items() if k not in OF_THE_SHELL}


environments = st.builds(
    lambda values, prepend, gone, mild: Environment(
        values,
        prepend,
        tuple(gone - values.keys()),
        ":",
        {name: value for name, value in mild.items() if name not in gone},
    ),
    variables,
    prepends,
    st.sets(name, max_size=3),
    variables,
)


@pytest.mark.parametrize(("shell", "path"), SHELLS)
@settings(max_examples=40, deadline=None)
@given(environment=environments, base=variables)
def test_sourcing_gives_the_environment_of_the_tools_own_children(
    shell: str, path: str, environment: Environment, base: dict[str, str]
) -> None:
    before = {"PATH": "/usr/bin::/bin:", "LD_LIBRARY_PATH": ":", **base}
    with tempfile.TemporaryDirectory() as place:
        written = script(environment, Path(place))
        once = sourced(path, written, before)
        assert once == expected(environment, before), shell
        assert sourced(path, written, before, times=2) == once
        assert [item.name for item in Path(place).iterdir()] == ["env.sh"]


@pytest.mark.parametrize(("shell", "path"), SHELLS)
def test_the_callers_shell_keeps_its_options_and_gets_no_new_names(
    shell: str, path: str, tmp_path: Path
) -> None:
    folders = {"PATH": ("/a", "/b"), "LD_LIBRARY_PATH": ("/c",)}
    written = script(Environment({"V_A": "1"}, folders, ("V_B",), ":"), tmp_path)
    plain = tmp_path / "plain.sh"
    plain.write_text("export V_A=1 PATH=/a LD_LIBRARY_PATH=/c MAX_JOBS=1\n")
    assert state(shell, path, written) == state(shell, path, plain)


def state(shell: str, path: str, source: Path) -> set[str]:
    """The options of a shell, and the names of its variables and functions, after it sourced."""
    look = "set -o; set" if shell == "dash" else "set -o; set; typeset -f"
    argv = [path, *(["-f"] if shell == "zsh" else []), "-c", f". {render.sh(str(source))}; {look}"]
    done = subprocess.run(argv, env={"PATH": "/bin"}, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    return {line.partition("=")[0] for line in lines if not line.startswith("BASH_")}


@pytest.mark.skipif(not SHELLS, reason="not run: no shell of POSIX")
def test_a_folder_that_is_there_already_moves_to_the_front(tmp_path: Path) -> None:
    environment = Environment({}, {"PATH": ("/a", "/b")}, (), ":")
    written = script(environment, tmp_path)
    got = sourced(SHELLS[0][1], written, {"PATH": "/c:/b::/d:/a"})
    assert got["PATH"] == "/a:/b:/c:/d" == environment.over({"PATH": "/c:/b::/d:/a"})["PATH"]


@pytest.mark.parametrize("bad", ["V A", "V-A", "2V", "V(x)", "V\nA", "", "Ä", "V;x"])
def test_a_name_that_the_shell_cannot_hold_is_refused(bad: str, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"cannot hold a variable named .*\n.*rename it"):
        script(Environment({bad: "1"}, {}, (), ":"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_nul_is_refused_by_name(tmp_path: Path) -> None:
    for kind in ("env.sh", "env.ps1"):
        with pytest.raises(BuildError, match="NUL"):
            script(Environment({"V_A": "a\0b"}, {}, (), ":"), tmp_path, kind)


def test_jobs_by_hand_are_in_the_script_unless_a_person_chose_them(tmp_path: Path) -> None:
    assert safe_jobs() >= 1
    mine = Environment({"MAX_JOBS": "7"}, {}, (), ":")
    assert f"MAX_JOBS='{safe_jobs()}'" in script(replace(mine, set={}), tmp_path).read_text()
    assert re.findall("MAX_JOBS='.*'", script(mine, tmp_path).read_text()) == ["MAX_JOBS='7'"]


# PowerShell: read back from the parse tree by a reader that shares no code with the writer.

QUOTES = "'\u2018\u2019\u201a\u201b"


def tree(source: bytes) -> Node:
    return Parser(Language(tree_sitter_powershell.language())).parse(source).root_node


def nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from nodes(child)


def text_of(node: Node) -> str:
    return (node.text or b"").decode()


def unquoted(literal: str) -> str:
    """A verbatim string as PowerShell reads it: any two quotes in a row are the second one."""
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


def read_back(path: Path) -> tuple[dict[str, str], list[str]]:
    """The assignments of a quoted text, and the variables that are removed."""
    raw = path.read_bytes()
    assert raw.startswith(b"\xef\xbb\xbf")
    root = tree(raw[3:])
    assert not root.has_error
    assigned: dict[str, str] = {}
    removed: list[str] = []
    for node in nodes(root):
        if node.type == "assignment_expression":
            left, right = text_of(node.children[0]), text_of(node.children[-1])
            found = re.fullmatch(r"\$(?:env:(\w+)|\{env:(.+)\})", left)
            if found and right.startswith("'"):
                assigned[found[1] or found[2]] = unquoted(right)
        elif node.type == "command" and text_of(node).startswith("Remove-Item"):
            literals = [one for one in nodes(node) if one.type == "verbatim_string_characters"]
            removed = [unquoted(text_of(one)).removeprefix("Env:") for one in literals]
    return assigned, removed


powershell_name = st.from_regex(r"[A-Z_][A-Za-z0-9_]{0,6}(\(x86\))?", fullmatch=True)


@settings(max_examples=60, deadline=None)
@given(
    values=st.dictionaries(powershell_name, text, max_size=4),
    gone=st.sets(powershell_name, max_size=3),
    folders=st.lists(folder, min_size=1, max_size=3),
)
def test_powershell_reads_the_values_that_were_written(
    values: dict[str, str], gone: set[str], folders: list[str]
) -> None:
    values.pop("MAX_JOBS", None)
    environment = Environment(values, {"PATH": tuple(folders)}, tuple(sorted(gone)), ";")
    with tempfile.TemporaryDirectory() as place:
        path = script(environment, Path(place), "env.ps1")
        assigned, removed = read_back(path)
        assert assigned == {**values, "MAX_JOBS": str(safe_jobs())}
        assert removed == sorted(gone)


def test_a_default_gives_way_in_powershell_too(tmp_path: Path) -> None:
    path = script(Environment({}, {}, (), ";", {"V_A": "it's"}), tmp_path, "env.ps1")
    assert read_back(path)[0]["V_A"] == "it's"
    condition = "if (-not (Test-Path -LiteralPath 'Env:V_A'))"
    assert condition in path.read_text(encoding="utf-8-sig")


@pytest.mark.skipif(not shutil.which("pwsh"), reason="not run: no pwsh")
def test_real_powershell_gives_the_same_environment(tmp_path: Path) -> None:
    environment = Environment({"V_A": "it's \u2019 $x"}, {"PATH": ("/a",)}, ("V_B",), ":")
    path = script(environment, tmp_path, "env.ps1")
    base = {"PATH": "/usr/bin:/bin:/a", "V_B": "1", "HOME": str(tmp_path)}
    argv = [shutil.which("pwsh") or "", "-NoProfile", "-c", f". {render.ps(str(path))}; . {ENV} -0"]
    done = subprocess.run(argv, env=base, capture_output=True, check=True)
    got = dict(item.decode().split("=", 1) for item in done.stdout.split(b"\0") if b"=" in item)
    assert {n: got.get(n) for n in ("V_A", "V_B", "PATH")} == {
        n: environment.over(base).get(n) for n in ("V_A", "V_B", "PATH")
    }
