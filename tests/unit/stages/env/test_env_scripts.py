"""env.sh in real shells: what sourcing gives, what torchyard_deactivate takes back, and what goes
wrong quietly. Hostile values by the thousand are in tests/integration/test_env_shells.py.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.core.errors import TorchyardError
from tasks.stages.env.model import Environment
from tasks.stages.env.run import write_scripts
from tasks.system.hardware.capacity import compute_safe_jobs
from tests.support.shellcases import (
    EVERY_SHELL,
    JOB,
    SHELLS,
    Case,
    cases,
    environment_of,
    require_all,
    script,
    seen,
)

FOLDERS = {"PATH": ("/a", "/b"), "LD_LIBRARY_PATH": ("/c",)}
SMALL = Environment({"V_A": "1", "MAX_JOBS": "2"}, FOLDERS, ("V_B",), ":", {"V_D": "d"})
every_shell = pytest.mark.parametrize("shell", EVERY_SHELL)


def said(shell: str, code: str, at: Path, base: Mapping[str, str] | None = None) -> str:
    """What a shell prints that runs this, with nothing to say to stderr."""
    argv = [*SHELLS[shell], "-c", code]
    env = {"PATH": "/usr/bin:/bin"} if base is None else base
    done = subprocess.run(argv, env=env, cwd=at, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@every_shell
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(batch=st.lists(cases, min_size=25, max_size=25))
def test_sourcing_gives_the_environment_of_the_tools_own_children_and_takes_it_back(
    shell: str, batch: list[Case], tmp_path_factory: pytest.TempPathFactory
) -> None:
    require_all(SHELLS[shell], tmp_path_factory.mktemp("many"), batch)


STATE = "set -o; set; alias; case ${ZSH_VERSION-}${BASH_VERSION-} in (?*) typeset -f;; esac"


def names(told: str) -> set[str]:
    """Options as they stand, and variables and functions by name."""
    lines = told.splitlines()
    return {
        line.partition("=")[0] for line in lines if not line.startswith(("BASH_", "_=", "RANDOM"))
    }


@every_shell
@pytest.mark.parametrize("options", ["set -eu", "set -fu", "set -a", "IFS=/:a", ":"])
def test_nothing_is_left_after_torchyard_deactivate(
    shell: str, options: str, tmp_path: Path
) -> None:
    written = script(SMALL, tmp_path / "env.sh")
    before = said(shell, f"V_B=b; {options}; {STATE}", tmp_path)
    code = f"V_B=b; {options}; . {written}; . {written}; torchyard_deactivate; {STATE}"
    assert names(said(shell, code, tmp_path)) == names(before)
    inside = f"f() {{ . {written}; }}; f; g() {{ torchyard_deactivate; }}; g; unset -f f g; "
    assert names(said(shell, f"V_B=b; {options}; {inside}{STATE}", tmp_path)) == names(before)


@every_shell
def test_the_callers_options_stay_as_they_are_in_between(shell: str, tmp_path: Path) -> None:
    written = script(SMALL, tmp_path / "env.sh")
    for options in ("set -eu", "set -fa", ":"):
        before = said(shell, f"{options}; set -o; printf '%s' \"$-\"", tmp_path)
        code = f"{options}; . {written}; set -o; printf '%s' \"$-\""
        assert said(shell, code, tmp_path) == before


ZSH = (
    *("nounset errexit ksharrays extendedglob", "shwordsplit globsubst nonomatch", "rcquotes"),
    *(
        "warncreateglobal warnnestedvar",
        "noclobber nullglob cshnullglob",
        "globassign noglobalexport",
    ),
    *("posixbuiltins", "shglob kshglob", "cshjunkieloops", "typesetsilent allexport"),
)


@pytest.mark.needs("zsh")
@pytest.mark.parametrize("options", ZSH)
def test_zsh_may_have_any_options(options: str, tmp_path: Path) -> None:
    nasty = replace(SMALL, set={**SMALL.set, "V_A": "a'b''c*=~ (x) [y]"})
    written = script(nasty, tmp_path / "env.sh")
    base = {"PATH": "/usr/bin:/bin", "V_A": "x y", "V_B": "*"}
    look = f"V_C='*'; f() {{ . {written}; }}; f; /usr/bin/env -0 > in; f; torchyard_deactivate; "
    said("zsh", f"setopt {options}; {look}/usr/bin/env -0 > out; exit 0", tmp_path, base)
    own = {"V_C": "*"} if "allexport" in options else {}
    assert environment_of(tmp_path / "in") == seen({**nasty.build_child_environment(base), **own})
    assert environment_of(tmp_path / "out") == seen({**base, **own})


@every_shell
def test_aliases_of_what_it_uses_do_not_matter(shell: str, tmp_path: Path) -> None:
    written = script(SMALL, tmp_path / "env.sh")
    hostile = "".join(
        f"alias {word}='echo {word} >&2 #'\n"
        for word in ("export", "unset", "set", "printf", "eval")
    )
    expand = "case ${BASH_VERSION-} in (?*) shopt -s expand_aliases;; esac\n"
    code = f"{expand}{hostile}. {written}\n/usr/bin/env -0 > in\ntorchyard_deactivate\n"
    said(shell, f"{code}/usr/bin/env -0 > out", tmp_path)
    base = {"PATH": "/usr/bin:/bin"}
    assert environment_of(tmp_path / "in") == SMALL.build_child_environment(base)
    assert environment_of(tmp_path / "out") == base


@every_shell
@pytest.mark.parametrize("locked", ["V_A", "V_B", "PATH"])
def test_a_read_only_variable_changes_nothing_and_ends_no_shell(
    shell: str, locked: str, tmp_path: Path
) -> None:
    written = script(SMALL, tmp_path / "env.sh")
    code = (
        f"V_B=b; readonly {locked}; {{ {STATE}; }} > before; /usr/bin/env -0 > x\n"
        f". {written} 2> told; echo $?; {{ {STATE}; }} > after; /usr/bin/env -0 > y"
    )
    assert said(shell, code, tmp_path) == "1\n"
    assert (tmp_path / "told").read_text() == (
        f"torchyard: {locked} is read-only in this shell; nothing was changed\n"
    )
    before, after = ((tmp_path / name).read_text() for name in ("before", "after"))
    assert names(before) == names(after)
    assert environment_of(tmp_path / "x") == environment_of(tmp_path / "y")


@every_shell
def test_what_became_read_only_since_is_told_and_stays(shell: str, tmp_path: Path) -> None:
    written = script(SMALL, tmp_path / "env.sh")
    code = f". {written}; readonly V_A; torchyard_deactivate 2> told; echo $? $V_A"
    assert said(shell, code, tmp_path) == "1 1\n"
    assert "V_A is read-only" in (tmp_path / "told").read_text()


@every_shell
def test_another_profile_takes_the_first_one_back(shell: str, tmp_path: Path) -> None:
    one = script(SMALL, tmp_path / "one.sh")
    other = Environment({"V_B": "2", "MAX_JOBS": "3"}, {"PATH": ("/z",)}, (), ":")
    two = script(other, tmp_path / "two.sh")
    base = {"PATH": "/usr/bin:/bin:/b", "V_B": "b"}
    code = f". {one}; . {two}; /usr/bin/env -0 > in; torchyard_deactivate; /usr/bin/env -0 > out"
    said(shell, code, tmp_path, base)
    assert environment_of(tmp_path / "in") == other.build_child_environment(base)
    assert environment_of(tmp_path / "out") == base


@every_shell
@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        ("/usr/bin:/bin:/b", "PATH=/new:$PATH", "/new:/b:/usr/bin:/bin"),
        ("/usr/bin::/bin:", "PATH=/new:$PATH", "/new:/usr/bin:/bin"),
        ("/usr/bin::/bin:", ":", "/usr/bin::/bin:"),
        ("/usr/bin", "PATH=/a:/b", None),
        ("/usr/bin", "unset PATH", None),
    ],
)
def test_a_path_that_was_changed_since_loses_our_folders_alone(
    shell: str, before: str, change: str, after: str | None, tmp_path: Path
) -> None:
    written = script(SMALL, tmp_path / "env.sh")
    code = f". {written}; {change}; torchyard_deactivate; /usr/bin/env -0 > out"
    said(shell, code, tmp_path, {"PATH": before})
    assert environment_of(tmp_path / "out").get("PATH") == after


@every_shell
def test_a_path_that_was_not_there_is_gone_again(shell: str, tmp_path: Path) -> None:
    written = script(SMALL, tmp_path / "env.sh")
    look = "/usr/bin/env -0"
    code = f"unset PATH; . {written}; {look} > in; torchyard_deactivate; {look} > out"
    said(shell, code, tmp_path)
    assert environment_of(tmp_path / "in")["PATH"] == "/a:/b"
    assert "PATH" not in environment_of(tmp_path / "out")


@every_shell
def test_a_number_that_was_declared_as_one_is_no_obstacle(shell: str, tmp_path: Path) -> None:
    written = script(replace(SMALL, set={"MAX_JOBS": "a b"}), tmp_path / "env.sh")
    declare = "case ${ZSH_VERSION-}${BASH_VERSION-} in (?*) typeset -i MAX_JOBS=4;; esac"
    assert said(shell, f'{declare}; . {written}; printf %s "$MAX_JOBS"', tmp_path) == "a b"


@pytest.mark.skipif(not SHELLS, reason="not run: no shell of POSIX")
def test_a_folder_that_is_there_already_moves_to_the_front(tmp_path: Path) -> None:
    written = script(Environment({}, {"PATH": ("/a", "/b")}, (), ":"), tmp_path / "env.sh")
    base = {"PATH": "/c:/b::/d:/a"}
    said(next(iter(SHELLS)), f". {written}; /usr/bin/env -0 > in", tmp_path, base)
    assert environment_of(tmp_path / "in")["PATH"] == "/a:/b:/c:/d"


@pytest.mark.parametrize("bad", ["V A", "V-A", "2V", "V(x)", "V\nA", "", "Ä", "V;x", "UID", "path"])
def test_a_name_that_the_shell_cannot_hold_is_refused(bad: str, tmp_path: Path) -> None:
    job = replace(JOB, scripts=(tmp_path / "env.sh",))
    with pytest.raises(TorchyardError, match=r"(?s)variable .*→ (rename it|remove the variable)"):
        write_scripts(job, Environment({bad: "1"}, {}, (), ":"))
    assert list(tmp_path.iterdir()) == []


def test_jobs_by_hand_are_in_the_script_unless_a_person_chose_them(tmp_path: Path) -> None:
    assert compute_safe_jobs() >= 1
    job = replace(JOB, scripts=(tmp_path / "env.sh",))
    mine = replace(SMALL, set={"MAX_JOBS": "7"})
    write_scripts(job, replace(mine, set={}, unset=("MAX_JOBS",)))
    assert re.search(r"MAX_JOBS='\d+'  # for manual builds", (tmp_path / "env.sh").read_text())
    write_scripts(job, mine)
    found = re.findall("MAX_JOBS='.*'", (tmp_path / "env.sh").read_text())
    assert found == ["MAX_JOBS='7'"]


def test_reasons_stand_beside_what_they_are_for_and_end_no_line(tmp_path: Path) -> None:
    why = {"V_A": "one\ntouch pwned", "V_B": "two", "PATH": "three", "V_D": "four"}
    found = script(replace(SMALL, why=why), tmp_path / "env.sh").read_text()
    assert "\\export V_A='1'  # one?touch pwned\n" in found
    assert "  # two\n  \\unset -v V_B\n" in found
    assert "_torchyard_prepend PATH '/a:/b'  # three\n" in found
    assert "\\export V_D='d' ;; esac  # four\n" in found


@every_shell
def test_under_set_a_only_the_environment_is_exported(shell: str, tmp_path: Path) -> None:
    script(Environment({"V_A": "1"}, {"PATH": ("/a",)}, ("V_B",), ":"), tmp_path / "e.sh")
    code = "set -a; . ./e.sh; case $- in *a*) echo still;; esac; set +a; env"
    told = said(shell, code, tmp_path).splitlines()
    assert {"still", "V_A=1"} <= set(told)
    assert not [line for line in told if line.startswith(("_torchyard", "BASH_FUNC"))]


@every_shell
def test_one_may_ask_whether_it_worked(shell: str, tmp_path: Path) -> None:
    """dash ends at a `return` of a sourced file under set -e, whoever asked."""
    script(Environment({"V_A": "1"}, {}, (), ":"), tmp_path / "e.sh")
    code = "readonly V_A=0; set -e; . ./e.sh 2>/dev/null || echo handled; echo $V_A alive"
    assert said(shell, code, tmp_path).splitlines() == ["handled", "0 alive"]


@pytest.mark.needs("zsh")
def test_a_list_that_zsh_has_tied_to_a_path_stays_tied(tmp_path: Path) -> None:
    script(Environment({}, {"LD_LIBRARY_PATH": ("/ours",)}, (), ":"), tmp_path / "e.sh")
    tied = "typeset -xT LD_LIBRARY_PATH ld_library_path; LD_LIBRARY_PATH=/q"
    code = f"{tied}; . ./e.sh; torchyard_deactivate; ld_library_path+=/z; echo $LD_LIBRARY_PATH"
    assert said("zsh", code, tmp_path) == "/q:/z\n"
