"""Tests of variables that scripts cannot hold, and of the reasons for all others."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.core.deps_model import CompilerCache, CudaHome, DepsManifest
from tasks.core.errors import SettingsError
from tasks.settings.schema import Settings, parse_settings
from tasks.stages.env.environment_variables import (
    SET_REASONS,
    resolve_environments,
    resolve_runtime_environment,
)
from tasks.stages.env.plan import plan
from tests.support.checkout import KNOWLEDGE
from tests.support.rows import each_row
from tests.unit.planning.test_decide import host
from tests.unit.stages.env.test_env_resolve import LAYOUT, NONE, PINS, choice, deps, job
from tests.unit.test_plan import planned, shipped

__all__ = ["shipped"]


def read_error(system: str, section: str, variables: dict[str, str]) -> SettingsError:
    config = parse_settings({section: {"env": variables}})
    with pytest.raises(SettingsError) as caught:
        plan(config, LAYOUT, choice(system=system), KNOWLEDGE)
    return caught.value


@each_row("section", ["build", "runtime"])
@each_row(
    ("system", "name", "value", "what"),
    [
        ("linux", "V_A", "a\0b", "NUL"),
        ("windows", "V_A", "a\0b", "NUL"),
        ("linux", "V_A", "\udc80", "half a character"),
        ("linux", "Vä", "1", "'Vä' is not a valid name of a variable in a POSIX shell"),
        ("linux", "UID", "1", "reserves the variable UID"),
        ("linux", "options", "1", "reserves the variable options"),
        ("linux", "_torchyard_name", "1", "the environment scripts reserve variable names"),
        ("windows", "_TORCHYARD_PAGE", "1", "the environment scripts reserve variable names"),
        (
            "windows",
            "V_A",
            "a\nb",
            "a batch file cannot contain the value 'a\\nb': it has more",
        ),
        ("windows", "V_A", "x" * 9000, "more than 8191 characters"),
        ("windows", "V_A", "!" * 5000, "more than 8191 characters"),
    ],
)
def test_variable_unsupported_by_scripts_is_refused_with_key(
    section: str, system: str, name: str, value: str, what: str
) -> None:
    error = read_error(system, section, {name: value})
    assert error.location == f"{section}.env.{name}"
    assert what in error.message
    assert error.hint


def test_names_equal_on_windows_are_refused_there() -> None:
    error = read_error("windows", "build", {"Lib": "a", "LIB": "b"})
    assert (error.location, error.message) == (
        "build.env.LIB",
        "Lib and LIB are the same variable on Windows",
    )
    config = parse_settings({"runtime": {"env": {"Lib": "a", "LIB": "b"}}})
    assert plan(config, LAYOUT, choice(), KNOWLEDGE).job.runtime == {"Lib": "a", "LIB": "b"}


def test_names_are_uppercase_on_windows() -> None:
    config = parse_settings({"runtime": {"env": {"Device": "auto"}}})
    found = plan(config, LAYOUT, choice(system="windows"), KNOWLEDGE)
    assert found.job.runtime == {"DEVICE": "auto"}


def test_multiline_value_is_accepted_without_cmd() -> None:
    config = parse_settings({"runtime": {"env": {"V_A": "a\nb" * 9000}}})
    plan(config, LAYOUT, choice(), KNOWLEDGE)


def test_empty_value_unsets_variable_on_windows() -> None:
    env_job = job(system="windows", variables={"V_A": "", "V_B": "b"}, flags={})
    full, _ = resolve_environments(env_job, deps(cc=NONE, cxx=NONE))
    assert "V_A" not in full.set
    assert "V_A" in full.unset
    assert full.why["V_A"] == "set by build.env"
    assert resolve_environments(job(variables={"V_A": ""}), deps())[0].set["V_A"] == ""


def manifest_on(system: str) -> DepsManifest:
    """Return the manifest of deps on that system."""
    if system != "windows":
        return deps()
    toolkit = CudaHome(r"C:\y\build\p\cuda", "13.2.86", PINS)
    return deps(toolkit=toolkit, scripts=r"C:\y\build\p\venv\Scripts", cc=NONE, cxx=NONE)


@pytest.mark.parametrize("system", ["linux", "windows"])
@pytest.mark.parametrize("kind", ["", "ccache", "sccache"])
def test_every_variable_of_every_profile_has_reason(
    shipped: dict[str, Settings], system: Any, kind: Any
) -> None:
    tried = 0
    for name, settings in shipped.items():
        try:
            _, plan = planned(host(system=system), settings, name)
        except SettingsError:
            continue  # needs a toolkit that this host lacks, or another system
        env_job = next(stage.job for stage in plan.stages if stage.name == "env")
        full, extension = resolve_environments(
            env_job, manifest_on(system), CompilerCache(kind, "/usr/bin/ccache")
        )
        for environment in (full, resolve_runtime_environment(env_job, manifest_on(system))):
            assert [name for name in environment.names if not environment.why.get(name)] == []
        assert extension.why == {}
        tried += 1
    assert tried >= 4


def test_reasons_are_short_ascii_lines() -> None:
    assert [
        why for why in SET_REASONS.values() if len(why) > 80 or not why.isascii() or "\n" in why
    ] == []
