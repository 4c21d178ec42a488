"""Environments with hostile names and values, many of them tried in one process of a real shell.

What the shell then holds is told by env(1), which shares no code with what writes the scripts; the
shell that tries them is given its variables in a way of its own.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

import pytest
from hypothesis import strategies as st

from tasks.stages.env.model import ArchLists, Environment, EnvJob
from tasks.stages.env.run import render_script

TEMPLATES = Path(__file__).parents[2] / "templates"
_WANTED = {
    "bash": ("--norc", "--noprofile"),
    "dash": (),
    "zsh": ("-f",),
    "busybox": ("sh",),
}
SHELLS = {
    name: (path, *options) for name, options in _WANTED.items() if (path := shutil.which(name))
}
EVERY_SHELL = [pytest.param(name, marks=pytest.mark.needs(name)) for name in _WANTED]
_ENV = shutil.which("env") or "/usr/bin/env"
# What shells set by themselves, and the locale that they are tried in
OF_THE_SHELL = {"_", "PWD", "OLDPWD", "SHLVL", "HOME", "LOGNAME", "LC_ALL"}
HOSTILE = [
    *("$(touch pwned)", "`touch pwned`", "${HOME}", "%PATH%", "!x!", "it's", '"', "\\", "a\\"),
    *("a\nb\n", " ", "", "*", "~", "#", ";", "|", "&& touch pwned", "ünï🜨", "-n", "''", "\t"),
    *("\r", "{}", "{{ x }}", "\u2019; touch pwned; \u2018", "a' b", "\\'", "x=y", "--", "$'a'"),
    *("\x7f", "\x81\x88", "!!", "^a^b", "=ls", "a[$(touch pwned)]", "(x)", "<(touch pwned)"),
]
JOB = EnvJob(
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
    runtime={},
    caching="auto",
    cache_size="auto",
    venv=PurePath("venv"),
    deps=PurePath("deps.json"),
    cache=PurePath("cache.json"),
    source=None,
    scripts=(),
    wrappers=(),
    templates=TEMPLATES,
    log=PurePath("env.log"),
)

text = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12),
)
folder = st.one_of(
    st.sampled_from([item for item in HOSTILE if item and ":" not in item]),
    st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0:"), min_size=1, max_size=6
    ),
)
# few of them, so that what is set, unset and there before are often the same
name = st.sampled_from(["V_A", "V_b", "V__", "name", "kept", "item", "n", "MAX_JOBS", "IFS_", "i"])
variables = st.dictionaries(name, text, max_size=3)
paths = st.one_of(
    st.sampled_from(["", ":", "/usr/bin::/bin:", "/usr/bin:/bin", "::", "/a:~:*:/a"]),
    st.lists(folder, max_size=3).map(":".join),
)


@dataclass(frozen=True)
class Case:
    """An environment, what a shell has exported before, and what it holds for itself."""

    environment: Environment
    exported: Mapping[str, str]
    unexported: Mapping[str, str]


def _case(
    *,
    values: dict[str, str],
    prepend: dict[str, tuple[str, ...]],
    gone: set[str],
    mild: dict[str, str],
    before: dict[str, str],
    held: dict[str, str],
    path_like: dict[str, str],
) -> Case:
    environment = Environment(values, prepend, tuple(sorted(gone - values.keys())), ":", mild)
    exported = {**before, **path_like}
    return Case(environment, exported, {k: v for k, v in held.items() if k not in exported})


cases = st.builds(
    _case,
    values=variables,
    prepend=st.dictionaries(
        st.sampled_from(["PATH", "LD_LIBRARY_PATH"]),
        st.lists(folder, min_size=1, max_size=3).map(tuple),
        max_size=2,
    ),
    gone=st.sets(name, max_size=3),
    mild=variables,
    before=variables,
    held=variables,
    path_like=st.dictionaries(st.sampled_from(["PATH", "LD_LIBRARY_PATH"]), paths, max_size=2),
)


def script(environment: Environment, path: Path) -> Path:
    """The script env.* of an environment, at `path`; nothing is waited for to reach the disk."""
    text = render_script(JOB, path.with_name(f"env{path.suffix}"), environment)
    path.write_text(text, encoding="utf-8", newline="")
    return path


def require_all(
    shell: Sequence[str], place: Path, tried: Sequence[Case], locale: str = "C"
) -> None:
    """Sources each script, some twice, and takes it back, under set -eu, in one process.

    Raises `AssertionError` with the first case that went another way.
    """
    for number, one in enumerate(tried):
        script(one.environment, place / f"{number}.sh")
    (place / "out").mkdir()
    driver = place / "driver"
    driver.write_text("".join(_try(*pair) for pair in enumerate(tried)), encoding="utf-8")
    files = {item.name for item in place.iterdir()}
    done = subprocess.run(
        [*shell, driver],
        env={"LC_ALL": locale},
        cwd=place,
        capture_output=True,
        check=False,
        timeout=600,
    )
    _same(shell, (done.stdout, done.stderr[:600]), (b"", b""))
    for number, one in enumerate(tried):
        _require(place / "out", number, one)
    _same(shell, {item.name for item in place.iterdir()}, files)


def _try(number: int, one: Case) -> str:
    held = "".join(f"{n}={_quoted(v)}; " for n, v in one.unexported.items())
    given = "".join(f"export {n}={_quoted(v)}; " for n, v in one.exported.items())
    shown = "".join(f'"${{{n}-gone}}" ' for n in one.unexported)
    source, out = f". ./{number}.sh", f"> out/{number}"
    steps = [
        # every other one twice: what it leaves is compared with the same
        f"{source}\n" * (1 + number % 2) + f"{_ENV} -0 {out}.in",
        f"torchyard_deactivate; {_ENV} -0 {out}.back",
        f"printf '%s\\0' {shown}{out}.held" if shown else ":",
    ]
    return f"(unset -v PATH LD_LIBRARY_PATH; {held}{given}\nset -eu\n" + "\n".join(steps) + "\n)\n"


def _quoted(value: str) -> str:
    """Otherwise than the scripts have it; shlex leaves out quotes that zsh needs."""
    return "'" + value.replace("'", "'\"'\"'") + "'"


def _require(out: Path, number: int, one: Case) -> None:
    _same(
        one,
        environment_of(out / f"{number}.in"),
        seen(one.environment.build_child_environment(one.exported)),
    )
    _same(one, environment_of(out / f"{number}.back"), seen(one.exported))
    if one.unexported:
        held = (out / f"{number}.held").read_bytes().split(b"\0")[:-1]
        _same(one, [item.decode() for item in held], list(one.unexported.values()))


def _same(about: object, got: object, wanted: object) -> None:
    """Says the difference, and not all that it was found among."""
    if got != wanted:
        raise AssertionError(f"{got!r}\nis not\n{wanted!r}\nin {about!r}")


def environment_of(told: Path) -> dict[str, str]:
    """What `env -0` told, but for what the shell sets by itself."""
    pairs = (item.decode().partition("=") for item in told.read_bytes().split(b"\0") if item)
    return seen({key: value for key, _, value in pairs})


def seen(variables: Mapping[str, str]) -> dict[str, str]:
    """Without what the shell sets by itself."""
    return {key: value for key, value in variables.items() if key not in OF_THE_SHELL}
