"""env.bat and run.bat, read back by the documented phases of cmd; in Wine's cmd they are run by
tests/real.
"""

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


def of(environment: Environment, kind: str = "env.bat") -> str:
    return render_script(WINDOWS, PurePath(kind), environment)


@pytest.mark.parametrize("delayed", [False, True])
@settings(max_examples=300, deadline=None)
@given(
    values=st.dictionaries(names, text, max_size=4),
    mild=st.dictionaries(names, text, max_size=2),
    folders=st.lists(text, min_size=1, max_size=3).map(tuple),
)
def test_cmd_reads_the_values_that_were_written(
    delayed: bool, values: dict[str, str], mild: dict[str, str], folders: tuple[str, ...]
) -> None:
    environment = Environment({**values, "MAX_JOBS": "1"}, {"PATH": folders}, (), ";", mild)
    read = dict(assignments(of(environment), delayed=delayed))
    expected = {**mild, **values, "MAX_JOBS": "1"}
    assert {name: read[name] for name in expected} == expected
    said = list(assignments(of(environment), delayed=delayed))
    assert ("_TORCHYARD_NAMES", " ".join(environment.names)) in said
    assert ("_TORCHYARD_FIRST", ";".join(folders)) in said


@settings(max_examples=300, deadline=None)
@given(values=st.dictionaries(names, text, max_size=4))
def test_run_bat_needs_one_form_alone(values: dict[str, str]) -> None:
    script = of(Environment(values, {}, (), ";"), "run.bat")
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
def test_what_a_batch_file_cannot_hold_is_refused(value: str, why: str) -> None:
    with pytest.raises(TorchyardError, match=rf"a batch file cannot hold the value .*: .*{why}"):
        shell_quoting.format_cmd_assignment("V_A", value)


@each_row("bad", ["V A", "V=A", "V%A", "2V", "", "V(x)", "Vä", "V!"])
def test_a_name_that_a_batch_file_cannot_hold_is_refused(bad: str) -> None:
    with pytest.raises(TorchyardError, match=r"cmd cannot hold a variable named .*\n.*rename it"):
        shell_quoting.format_cmd_assignment(bad, "1")


def test_every_line_is_silent_and_ends_as_windows_has_it() -> None:
    full = Environment({"V_A": "%!", "V_B": "b"}, {"PATH": ("C:\\a",)}, ("V_C",), ";", {"V_D": "d"})
    for kind in ("env.bat", "run.bat"):
        script = of(replace(full, why={"V_A": "50 % of ~ & more\nx"}), kind)
        assert script.count("\n") == script.count("\r\n")
        lines = [line for line in script.split("\r\n") if line]
        assert all(line.startswith(("@", ":")) for line in lines)
        assert "@rem 50 ? of ? ? more?x" in lines


def test_the_code_page_is_changed_only_for_a_script_that_is_not_ascii() -> None:
    assert "chcp" not in of(Environment({"V_A": "a"}, {}, (), ";"))
    script = of(Environment({"V_A": "ä"}, {}, (), ";"))
    assert script.count("chcp.com") == 3
    assert not script.startswith("\ufeff")
