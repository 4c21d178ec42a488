"""env.bat and run.bat in Wine's cmd.exe, told by a Python for Windows.

Where Wine's cmd reads otherwise than Microsoft's, the scripts keep the form that the latter needs,
and what it would be tried on is left out here; test_cmd_scripts.py has all of it, by the
documented phases.
"""

from __future__ import annotations

import json
import random
import re
import string
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.stages.env.model import Environment
from tasks.stages.env.run import render_script
from tests.real.wine import HOME, Wine, windows
from tests.support.cmdreader import NASTY
from tests.support.shellcases import JOB

pytestmark = pytest.mark.real

PYTHON = windows(HOME / "python" / "python.exe")
DUMP = """\
import json, os, sys
with open(sys.argv[1], "w", encoding="utf-8") as out:
    json.dump([sys.argv[2:], dict(os.environ)], out)
sys.exit(int(os.environ.get("CODE", "0")))
"""
# Wine's cmd tells by what follows whether a quote ends; Microsoft's takes each second one
_QUOTES_APART = re.compile(r'"[^"]*\^[^"]*"')
FOLDERS = ("C:\\a b", "C:\\100%&^x", "C:\\(x86)")


def values(seed: int) -> list[str]:
    """All of the list, and others made of what cmd reads."""
    rolled = random.Random(seed)
    letters = string.punctuation + " abA1ü\t"
    made = ["".join(rolled.choices(letters, k=rolled.randint(1, 12))) for _ in range(250)]
    return [*NASTY, *made]


def wine_can(text: str, *, delayed: bool) -> bool:
    """Its cmd reads batch files in the OEM code page, whatever chcp says, and knows no `^!`."""
    return text.isascii() and not _QUOTES_APART.search(text) and not (delayed and "!" in text)


def put(wine: Wine, name: str, environments: Mapping[str, Environment]) -> Path:
    """A folder with the scripts, and what tells the environment."""
    folder = wine.folder(name)
    for kind, environment in environments.items():
        job = replace(JOB, system="windows")
        template = folder / ("run.bat" if kind == "run.bat" else "env.bat")
        (folder / kind).write_bytes(render_script(job, template, environment).encode())
    (folder / "dump.py").write_text(DUMP)
    return folder


def drive(wine: Wine, folder: Path, steps: Iterable[str], *options: str, **base: str) -> None:
    """Run a batch file with echo on, of which nothing may be seen; `dump N` tells the environment
    into N.json.
    """
    lines = [re.sub(r"^dump (\w+)", lambda m: f"{PYTHON} dump.py {m[1]}.json", s) for s in steps]
    text = "".join(f"@{line}\r\n" for line in lines)
    (folder / "driver.bat").write_text(text, newline="")
    code, out = wine.cmd(*options, "/c", "driver.bat", at=wine.inside(folder.name), env=base)
    assert (code, out.strip()) == (0, b"")


def told(folder: Path, name: str) -> tuple[list[str], dict[str, str]]:
    argv, found = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return argv, {n: v for n, v in found.items() if not n.startswith(("WINE", "PROMPT"))}


def differing(got: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    gone = "(unset)"
    pairs = {name: (got.get(name, gone), wanted.get(name, gone)) for name in {*got, *wanted}}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


@pytest.mark.parametrize("expansion", ["/v:off", "/v:on"])
def test_env_bat_holds_every_value_and_takes_it_back(wine: Wine, expansion: str) -> None:
    delayed = expansion == "/v:on"
    wanted = [value for value in values(6) if wine_can(value, delayed=delayed)]
    assert len(wanted) > 180
    before = {f"V_{at}": value for at, value in enumerate(values(7)) if at % 3 == 0}
    gone = tuple(f"W_{at}" for at in range(20))
    base = {**before, **dict.fromkeys(gone[::2], "here"), "D_0": "mine"}
    environment = Environment(
        {f"V_{at}": value for at, value in enumerate(wanted)},
        {"PATH": FOLDERS, "V_P": FOLDERS, "LIB": FOLDERS},
        tuple(sorted(gone)),
        ";",
        {"D_0": "given", "D_1": "%x%^&"},
    )
    other = Environment({"V_1": "another profile"}, {}, ("V_2",), ";")
    folder = put(wine, f"env-{expansion[3:]}", {"env.bat": environment, "other.bat": other})
    steps = [
        *("dump before", "call env.bat", "dump once", "call env.bat", "dump twice"),
        *("echo on", "call other.bat", "call env.bat", "dump changed", "call other.bat off"),
        *("dump after", "call env.bat off", "dump again", "exit /b %ERRORLEVEL%"),
    ]
    drive(wine, folder, steps, expansion, **base, LIB="C:\\lib;", V_P='C:\\"p q";!x!;^&')
    first, once = told(folder, "before")[1], told(folder, "once")[1]
    assert {name: first.get(name) for name in base} == base
    ours = {n: v for n, v in once.items() if not n.startswith("_TORCHYARD_")}
    # empty elements of its own stay in a variable, and none is added
    assert (
        differing(
            ours,
            {**environment.build_child_environment(first), "LIB": ";".join([*FOLDERS, "C:\\lib;"])},
        )
        == {}
    )
    for name, expected in {"twice": once, "changed": once, "after": first, "again": first}.items():
        assert differing(told(folder, name)[1], expected) == {}, name


ODD = [
    "a b",
    "lr=0.1",
    "",
    "-x",
    "*",
    "a,b;c",
    "x&y|z>w<v^u",
    "x!y",
    "it's",
    "(x)",
    "C:\\dir\\b",
    "50%",
]


def test_run_bat_hands_arguments_environment_and_exit_code_on(wine: Wine) -> None:
    wanted = {f"V_{at}": v for at, v in enumerate(values(8)) if wine_can(v, delayed=False)}
    runtime = Environment({**wanted, "CODE": "7"}, {"PATH": FOLDERS}, ("PYTHONHOME",), ";")
    folder = put(wine, "run", {"run.bat": runtime})
    line = " ".join(f'"{argument}"' for argument in ODD).replace("%", "%%")
    steps = [
        "dump before",
        f"cmd /v:on /c run.bat {PYTHON} dump.py in.json {line}",
        "if not %ERRORLEVEL%==7 exit /b 1",
        "cmd /c run.bat 2>usage",
        "if not %ERRORLEVEL%==2 exit /b 1",
        *("dump after", "exit /b 0"),
    ]
    drive(wine, folder, steps, PYTHONHOME="")
    argv, inside = told(folder, "in")
    assert argv == ODD
    before, after = told(folder, "before")[1], told(folder, "after")[1]
    assert differing(inside, runtime.build_child_environment(before)) == {}
    assert before == after
    assert (folder / "usage").read_bytes().startswith(b"usage: run PROGRAM [ARGUMENTS]")
