"""Tests of env.bat and run.bat with a model of cmd; tests/real runs them in Wine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.core import shell_quoting
from tasks.core.errors import TorchyardError
from tasks.stages.env.model import Environment
from tasks.stages.env.run import render_script
from tests.support.cmdreader import NASTY, assignments
from tests.support.rows import each_row
from tests.support.shellcases import JOB

WINDOWS = replace(JOB, system="windows")
characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n\x1a")
text = st.one_of(
    st.sampled_from(NASTY),
    st.text(st.sampled_from('"^!%&|<>() a;'), min_size=1, max_size=9),
    st.text(characters, min_size=1, max_size=9),
)
names = st.from_regex(r"V_[A-Za-z0-9_]{0,6}", fullmatch=True)


def render(environment: Environment, kind: str = "env.bat") -> str:
    return render_script(WINDOWS, PurePath(kind), environment)


@pytest.mark.parametrize("delayed", [False, True])
@settings(max_examples=300, deadline=None)
@given(
    values=st.dictionaries(names, text, max_size=4),
    defaults=st.dictionaries(names, text, max_size=2),
    folders=st.lists(text, min_size=1, max_size=3).map(tuple),
)
def test_cmd_reads_written_values(
    delayed: bool, values: dict[str, str], defaults: dict[str, str], folders: tuple[str, ...]
) -> None:
    environment = Environment({**values, "MAX_JOBS": "1"}, {"PATH": folders}, (), ";", defaults)
    read = dict(assignments(render(environment), delayed=delayed))
    expected = {**defaults, **values, "MAX_JOBS": "1"}
    assert {name: read[name] for name in expected} == expected
    pairs = list(assignments(render(environment), delayed=delayed))
    assert ("_TORCHYARD_NAMES", " ".join(environment.names)) in pairs
    assert ("_TORCHYARD_FIRST", ";".join(folders)) in pairs


@settings(max_examples=300, deadline=None)
@given(values=st.dictionaries(names, text, max_size=4))
def test_run_bat_disables_delayed_expansion(values: dict[str, str]) -> None:
    script = render(Environment(values, {}, (), ";"), "run.bat")
    read = dict(assignments(script, delayed=False))
    assert {name: read[name] for name in values} == values
    assert script.index("@setlocal DisableDelayedExpansion") < script.index("@set ")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("a\nb", "more than one line"),
        ("a\rb", "more than one line"),
        ("a\x1ab", "more than one line"),
        ("a\0b", "NUL"),
        ("\ud800", "half a character"),
        ("x" * 8192, "cannot read a line of more than 8191 characters"),
        ("%" * 4200, "cannot read a line of more than 8191 characters"),
    ],
)
def test_value_unsupported_by_batch_file_is_refused(value: str, why: str) -> None:
    with pytest.raises(TorchyardError, match=rf"a batch file cannot contain the value .*: .*{why}"):
        shell_quoting.format_cmd_assignment("V_A", value)


@each_row("bad", ["V A", "V=A", "V%A", "2V", "", "V(x)", "Vä", "V!"])
def test_name_unsupported_by_batch_file_is_refused(bad: str) -> None:
    with pytest.raises(TorchyardError, match=r"not a valid name of a variable in cmd\n.*rename it"):
        shell_quoting.format_cmd_assignment(bad, "1")


def test_batch_lines_are_silent_and_end_with_crlf() -> None:
    full = Environment({"V_A": "%!", "V_B": "b"}, {"PATH": ("C:\\a",)}, ("V_C",), ";", {"V_D": "d"})
    for kind in ("env.bat", "run.bat"):
        script = render(replace(full, why={"V_A": "50 % of ~ & more\nx"}), kind)
        assert script.count("\n") == script.count("\r\n")
        lines = [line for line in script.split("\r\n") if line]
        assert all(line.startswith(("@", ":")) for line in lines)
        assert "@rem 50 ? of ? ? more?x" in lines


def test_code_page_changes_only_for_non_ascii_script() -> None:
    assert "chcp" not in render(Environment({"V_A": "a"}, {}, (), ";"))
    script = render(Environment({"V_A": "ä"}, {}, (), ";"))
    assert script.count("chcp.com") == 3
    assert not script.startswith("\ufeff")
