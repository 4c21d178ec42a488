"""Tests of env.sh in real shells: activation, deactivation and silent failures.

Thousands of hostile values are in tests/integration/test_env_shells.py.
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


def run_shell(shell: str, code: str, at: Path, base: Mapping[str, str] | None = None) -> str:
    """Run code in a shell and return its output; stderr must be empty."""
    argv = [*SHELLS[shell], "-c", code]
    env = {"PATH": "/usr/bin:/bin"} if base is None else base
    done = subprocess.run(argv, env=env, cwd=at, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@every_shell
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(batch=st.lists(cases, min_size=25, max_size=25))
def test_sourcing_sets_child_environment_and_deactivate_restores_it(
    shell: str, batch: list[Case], tmp_path_factory: pytest.TempPathFactory
) -> None:
    require_all(SHELLS[shell], tmp_path_factory.mktemp("many"), batch)


STATE = "set -o; set; alias; case ${ZSH_VERSION-}${BASH_VERSION-} in (?*) typeset -f;; esac"


def names(state: str) -> set[str]:
    """Return the options, and the names of variables and functions."""
    lines = state.splitlines()
    return {
        line.partition("=")[0] for line in lines if not line.startswith(("BASH_", "_=", "RANDOM"))
    }


@every_shell
@pytest.mark.parametrize("options", ["set -eu", "set -fu", "set -a", "IFS=/:a", ":"])
def test_deactivate_leaves_nothing_behind(shell: str, options: str, tmp_path: Path) -> None:
    written = script(SMALL, tmp_path / "env.sh")
    before = run_shell(shell, f"V_B=b; {options}; {STATE}", tmp_path)
    code = f"V_B=b; {options}; . {written}; . {written}; torchyard_deactivate; {STATE}"
    assert names(run_shell(shell, code, tmp_path)) == names(before)
    inside = f"f() {{ . {written}; }}; f; g() {{ torchyard_deactivate; }}; g; unset -f f g; "
    assert names(run_shell(shell, f"V_B=b; {options}; {inside}{STATE}", tmp_path)) == names(before)


@every_shell
def test_shell_options_are_kept_while_active(shell: str, tmp_path: Path) -> None:
    written = script(SMALL, tmp_path / "env.sh")
    for options in ("set -eu", "set -fa", ":"):
        before = run_shell(shell, f"{options}; set -o; printf '%s' \"$-\"", tmp_path)
        code = f"{options}; . {written}; set -o; printf '%s' \"$-\""
        assert run_shell(shell, code, tmp_path) == before


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
def test_any_zsh_options_are_supported(options: str, tmp_path: Path) -> None:
    nasty = replace(SMALL, set={**SMALL.set, "V_A": "a'b''c*=~ (x) [y]"})
    written = script(nasty, tmp_path / "env.sh")
    base = {"PATH": "/usr/bin:/bin", "V_A": "x y", "V_B": "*"}
    dump = f"V_C='*'; f() {{ . {written}; }}; f; /usr/bin/env -0 > in; f; torchyard_deactivate; "
    run_shell("zsh", f"setopt {options}; {dump}/usr/bin/env -0 > out; exit 0", tmp_path, base)
    own = {"V_C": "*"} if "allexport" in options else {}
    assert environment_of(tmp_path / "in") == seen({**nasty.build_child_environment(base), **own})
    assert environment_of(tmp_path / "out") == seen({**base, **own})


@every_shell
def test_aliases_of_used_commands_are_ignored(shell: str, tmp_path: Path) -> None:
    written = script(SMALL, tmp_path / "env.sh")
    hostile = "".join(
        f"alias {word}='echo {word} >&2 #'\n"
        for word in ("export", "unset", "set", "printf", "eval")
    )
    expand = "case ${BASH_VERSION-} in (?*) shopt -s expand_aliases;; esac\n"
    code = f"{expand}{hostile}. {written}\n/usr/bin/env -0 > in\ntorchyard_deactivate\n"
    run_shell(shell, f"{code}/usr/bin/env -0 > out", tmp_path)
    base = {"PATH": "/usr/bin:/bin"}
    assert environment_of(tmp_path / "in") == SMALL.build_child_environment(base)
    assert environment_of(tmp_path / "out") == base


@every_shell
@pytest.mark.parametrize("locked", ["V_A", "V_B", "PATH"])
def test_read_only_variable_prevents_any_change(shell: str, locked: str, tmp_path: Path) -> None:
    written = script(SMALL, tmp_path / "env.sh")
    code = (
        f"V_B=b; readonly {locked}; {{ {STATE}; }} > before; /usr/bin/env -0 > x\n"
        f". {written} 2> errors; echo $?; {{ {STATE}; }} > after; /usr/bin/env -0 > y"
    )
    assert run_shell(shell, code, tmp_path) == "1\n"
    assert (tmp_path / "errors").read_text() == (
        f"torchyard: {locked} is read-only in this shell; nothing was changed\n"
    )
    before, after = ((tmp_path / name).read_text() for name in ("before", "after"))
    assert names(before) == names(after)
    assert environment_of(tmp_path / "x") == environment_of(tmp_path / "y")


@every_shell
def test_variable_made_read_only_later_is_reported_and_kept(shell: str, tmp_path: Path) -> None:
    written = script(SMALL, tmp_path / "env.sh")
    code = f". {written}; readonly V_A; torchyard_deactivate 2> errors; echo $? $V_A"
    assert run_shell(shell, code, tmp_path) == "1 1\n"
    assert "V_A is read-only" in (tmp_path / "errors").read_text()


@every_shell
def test_activating_other_profile_deactivates_first(shell: str, tmp_path: Path) -> None:
    one = script(SMALL, tmp_path / "one.sh")
    other = Environment({"V_B": "2", "MAX_JOBS": "3"}, {"PATH": ("/z",)}, (), ":")
    two = script(other, tmp_path / "two.sh")
    base = {"PATH": "/usr/bin:/bin:/b", "V_B": "b"}
    code = f". {one}; . {two}; /usr/bin/env -0 > in; torchyard_deactivate; /usr/bin/env -0 > out"
    run_shell(shell, code, tmp_path, base)
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
def test_changed_path_loses_only_managed_folders(
    shell: str, before: str, change: str, after: str | None, tmp_path: Path
) -> None:
    written = script(SMALL, tmp_path / "env.sh")
    code = f". {written}; {change}; torchyard_deactivate; /usr/bin/env -0 > out"
    run_shell(shell, code, tmp_path, {"PATH": before})
    assert environment_of(tmp_path / "out").get("PATH") == after


@every_shell
def test_unset_path_is_unset_after_deactivate(shell: str, tmp_path: Path) -> None:
    written = script(SMALL, tmp_path / "env.sh")
    dump = "/usr/bin/env -0"
    code = f"unset PATH; . {written}; {dump} > in; torchyard_deactivate; {dump} > out"
    run_shell(shell, code, tmp_path)
    assert environment_of(tmp_path / "in")["PATH"] == "/a:/b"
    assert "PATH" not in environment_of(tmp_path / "out")


@every_shell
def test_variable_declared_as_integer_is_overwritten(shell: str, tmp_path: Path) -> None:
    written = script(replace(SMALL, set={"MAX_JOBS": "a b"}), tmp_path / "env.sh")
    declare = "case ${ZSH_VERSION-}${BASH_VERSION-} in (?*) typeset -i MAX_JOBS=4;; esac"
    assert run_shell(shell, f'{declare}; . {written}; printf %s "$MAX_JOBS"', tmp_path) == "a b"


@pytest.mark.skipif(not SHELLS, reason="not run: no shell of POSIX")
def test_existing_path_entry_moves_to_front(tmp_path: Path) -> None:
    written = script(Environment({}, {"PATH": ("/a", "/b")}, (), ":"), tmp_path / "env.sh")
    base = {"PATH": "/c:/b::/d:/a"}
    run_shell(next(iter(SHELLS)), f". {written}; /usr/bin/env -0 > in", tmp_path, base)
    assert environment_of(tmp_path / "in")["PATH"] == "/a:/b:/c:/d"


@pytest.mark.parametrize("bad", ["V A", "V-A", "2V", "V(x)", "V\nA", "", "Ä", "V;x", "UID", "path"])
def test_name_unsupported_by_shell_is_refused(bad: str, tmp_path: Path) -> None:
    job = replace(JOB, scripts=(tmp_path / "env.sh",))
    with pytest.raises(TorchyardError, match=r"(?s)variable .*→ (rename it|remove the variable)"):
        write_scripts(job, Environment({bad: "1"}, {}, (), ":"))
    assert list(tmp_path.iterdir()) == []


def test_script_sets_safe_jobs_unless_user_did(tmp_path: Path) -> None:
    assert compute_safe_jobs() >= 1
    job = replace(JOB, scripts=(tmp_path / "env.sh",))
    mine = replace(SMALL, set={"MAX_JOBS": "7"})
    write_scripts(job, replace(mine, set={}, unset=("MAX_JOBS",)))
    assert re.search(
        r"MAX_JOBS='\d+'  # for builds that you start", (tmp_path / "env.sh").read_text()
    )
    write_scripts(job, mine)
    found = re.findall("MAX_JOBS='.*'", (tmp_path / "env.sh").read_text())
    assert found == ["MAX_JOBS='7'"]


def test_reasons_are_single_line_comments(tmp_path: Path) -> None:
    why = {"V_A": "one\ntouch pwned", "V_B": "two", "PATH": "three", "V_D": "four"}
    found = script(replace(SMALL, why=why), tmp_path / "env.sh").read_text()
    assert "\\export V_A='1'  # one?touch pwned\n" in found
    assert "  # two\n  \\unset -v V_B\n" in found
    assert "_torchyard_prepend PATH '/a:/b'  # three\n" in found
    assert "\\export V_D='d' ;; esac  # four\n" in found


@every_shell
def test_only_environment_is_exported_under_set_a(shell: str, tmp_path: Path) -> None:
    script(Environment({"V_A": "1"}, {"PATH": ("/a",)}, ("V_B",), ":"), tmp_path / "e.sh")
    code = "set -a; . ./e.sh; case $- in *a*) echo still;; esac; set +a; env"
    lines = run_shell(shell, code, tmp_path).splitlines()
    assert {"still", "V_A=1"} <= set(lines)
    assert not [line for line in lines if line.startswith(("_torchyard", "BASH_FUNC"))]


@every_shell
def test_failed_sourcing_can_be_handled(shell: str, tmp_path: Path) -> None:
    """Under set -e, dash exits at a failing `return` of a sourced file, even if it is handled."""
    script(Environment({"V_A": "1"}, {}, (), ":"), tmp_path / "e.sh")
    code = "readonly V_A=0; set -e; . ./e.sh 2>/dev/null || echo handled; echo $V_A alive"
    assert run_shell(shell, code, tmp_path).splitlines() == ["handled", "0 alive"]


@pytest.mark.needs("zsh")
def test_tied_zsh_array_stays_tied(tmp_path: Path) -> None:
    script(Environment({}, {"LD_LIBRARY_PATH": ("/ours",)}, (), ":"), tmp_path / "e.sh")
    tied = "typeset -xT LD_LIBRARY_PATH ld_library_path; LD_LIBRARY_PATH=/q"
    code = f"{tied}; . ./e.sh; torchyard_deactivate; ld_library_path+=/z; echo $LD_LIBRARY_PATH"
    assert run_shell("zsh", code, tmp_path) == "/q:/z\n"
