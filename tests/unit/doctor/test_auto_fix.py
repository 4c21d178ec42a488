"""`build.auto_fix` applies a safe fix once, logs it and records it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from tasks.core.errors import CommandFailedError, MissingCodeError, TorchyardError
from tasks.core.model import Command, Stage
from tasks.doctor import explain_failure_io
from tasks.doctor.auto_fix_io import run_with_auto_fix
from tasks.lock.opened_profile_io import Profile
from tasks.runlog import stage_record_io
from tasks.system import shell
from tasks.system.git import clones
from tasks.system.manifests import build_record_path
from tests.support.checkout import RELEASE, Heard, opened, write

EXTENSION = """target: {gpus: ['12.0']}
torch: {strategy: source}
build: {auto_fix: HEAL, jobs: 4}
extensions: [{name: rast, git: u, submodules: false, requires: [spam]}]
"""
CSTDINT = 'k.cu(9): error: identifier "uint32_t" is undefined'
SUBMODULE = "a.cpp:3:10: fatal error: glm/glm.hpp: No such file or directory"
MEMORY = "cc1plus: out of memory allocating 65536 bytes"
ISOLATED = "  File \"<string>\", line 1\nModuleNotFoundError: No module named 'torch'\nmetadata"


def profile_of(yard: Path, auto_fix: bool = True) -> Profile:
    write(yard, EXTENSION.replace("HEAL", str(auto_fix).lower()))
    subject = opened(yard)
    assert subject.opened is not None
    return subject.opened


def stage_of(profile: Profile, name: str = "extensions:rast") -> Stage:
    return next(one for one in profile.plan.stages if one.name == name)


class Action:
    """A stage action that prints output and fails until its job is fixed."""

    def __init__(self, log: Path, said: str, healthy: Callable[[Any], bool]) -> None:
        self.jobs: list[Any] = []
        self._log, self._said, self._healthy = log, said, healthy

    def __call__(self, job: Any) -> tuple[str]:
        self.jobs.append(job)
        if not self._healthy(job):
            argv = (sys.executable, "-c", f"print({self._said!r}); raise SystemExit(1)")
            shell.run_command(Command(argv, shell.build_host_env(), "build rast", log=self._log))
        return ("made",)


@pytest.mark.parametrize(
    ("said", "healthy", "expected"),
    [
        (CSTDINT, lambda job: "cstdint" in job.includes, "includes: [cstdint]"),
        (SUBMODULE, lambda job: job.submodules, "submodules: true"),
        (MEMORY, lambda job: job.jobs < 4, "build.jobs: "),
        (ISOLATED, lambda job: not job.isolated, "--no-build-isolation for spam"),
    ],
    ids=["forced-include", "submodules", "fewer-jobs", "no-build-isolation"],
)
def test_safe_fix_is_applied_once_and_logged(
    yard: Path, heard: Heard, said: str, healthy: Callable[[Any], bool], expected: str
) -> None:
    profile = profile_of(yard)
    action = Action(yard / "a.log", said, healthy)
    outputs, healed = run_with_auto_fix(stage_of(profile), action, profile)
    assert outputs == ("made",)
    assert healed.startswith(expected)
    assert len(action.jobs) == 2
    assert f"build.auto_fix runs the stage once more, with {healed}" in heard.text
    assert heard[-1] == f"extensions:rast succeeded with {healed}"


def test_wheel_without_code_for_target_suggests_another_wheel(yard: Path) -> None:
    write(yard, "target: {gpus: ['12.0']}\ntorch: {version: 2.15.9, index: /wheels}\n")
    profile = opened(yard).opened
    assert profile

    def refuse(_: Any) -> tuple[str]:
        raise MissingCodeError("torch-2.15.9.whl holds machine code for 9.0 and none for 12.0")

    with pytest.raises(MissingCodeError) as caught:
        run_with_auto_fix(stage_of(profile, "wheel"), refuse, profile)
    assert caught.value.hint.startswith(f'set torch.index: auto and torch.version: "{RELEASE}": ')


def test_fix_is_only_suggested_when_auto_fix_is_off(yard: Path) -> None:
    profile = profile_of(yard, auto_fix=False)
    action = Action(yard / "a.log", CSTDINT, lambda _: False)
    with pytest.raises(CommandFailedError) as caught:
        run_with_auto_fix(stage_of(profile), action, profile)
    assert len(action.jobs) == 1
    assert "includes: [cstdint] for rast" in caught.value.hint
    assert "build.auto_fix: true" in caught.value.hint


def test_failed_fix_is_not_tried_twice(yard: Path, heard: Heard) -> None:
    profile = profile_of(yard)
    action = Action(yard / "a.log", CSTDINT, lambda _: False)
    with pytest.raises(CommandFailedError) as caught:
        run_with_auto_fix(stage_of(profile), action, profile)
    assert len(action.jobs) == 2
    assert caught.value.cause.startswith("the source uses a type such as uint8_t, uint32_t")
    assert "failed again with includes: [cstdint]" in heard[-1]
    assert "build.auto_fix: true" not in caught.value.hint
    assert caught.value.hint.endswith("; build.auto_fix already tried includes: [cstdint]")


@pytest.mark.parametrize(
    ("said", "changed"),
    [
        (CSTDINT, {"includes": ("cstdint",)}),
        (SUBMODULE, {"submodules": True}),
        (SUBMODULE, {"kind": "path"}),
        (MEMORY, {"jobs": 1}),
        (ISOLATED, {"requires": ()}),
        ("a.cpp:7:3: error: expected ';'", {}),
    ],
)
def test_fix_already_in_settings_is_not_applied(
    yard: Path, said: str, changed: dict[str, Any]
) -> None:
    profile = profile_of(yard)
    stage = stage_of(profile)
    stage = replace(stage, job=replace(stage.job, **changed))
    action = Action(yard / "a.log", said, lambda _: False)
    with pytest.raises(CommandFailedError):
        run_with_auto_fix(stage, action, profile)
    assert len(action.jobs) == 1


def test_error_with_its_own_hint_is_not_fixed(yard: Path) -> None:
    profile = profile_of(yard)

    def run(_: Any) -> tuple[Any, ...]:
        try:
            Action(yard / "a.log", MEMORY, lambda _: False)(None)
        except CommandFailedError as error:
            error.hint = "a.o needs more memory than there is"
            raise
        return ()

    with pytest.raises(CommandFailedError) as caught:
        run_with_auto_fix(stage_of(profile), run, profile)
    assert caught.value.hint == "a.o needs more memory than there is"


def test_submodules_of_managed_tree_are_updated(
    yard: Path, heard: Heard, mocker: MockerFixture
) -> None:
    profile = profile_of(yard)
    update = mocker.patch.object(clones, "update_submodules", autospec=True)
    action = Action(yard / "a.log", SUBMODULE, lambda _: update.called)
    _, healed = run_with_auto_fix(stage_of(profile, "compile"), action, profile)
    assert healed == "git submodule sync and update"
    (tree,) = update.call_args.args
    assert tree == profile.layout.build / "src" / "pytorch"


def test_user_tree_is_never_changed(yard: Path) -> None:
    write(yard, EXTENSION.replace("HEAL", "true") + f"source: {{path: {yard / 'mine'}}}\n")
    profile = opened(yard).opened
    assert profile is not None
    action = Action(yard / "a.log", SUBMODULE, lambda _: False)
    with pytest.raises(CommandFailedError) as caught:
        run_with_auto_fix(stage_of(profile, "compile"), action, profile)
    assert len(action.jobs) == 1
    assert f"git -C {yard / 'mine'} submodule update" in caught.value.hint


def test_error_without_log_is_raised_unchanged(yard: Path) -> None:
    profile = profile_of(yard)

    def run(_: Any) -> tuple[Any, ...]:
        raise TorchyardError("no tree", location="source.path")

    with pytest.raises(TorchyardError, match="no tree"):
        run_with_auto_fix(stage_of(profile), run, profile)


def test_unreadable_log_does_not_hide_original_error(
    yard: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: Any) -> None:
        raise TorchyardError("the log cannot be read")

    monkeypatch.setattr(explain_failure_io, "explain_error", unreadable)
    profile = profile_of(yard)
    with pytest.raises(CommandFailedError, match="uint32_t"):
        run_with_auto_fix(
            stage_of(profile), Action(yard / "a.log", CSTDINT, lambda _: False), profile
        )


def test_bug_in_diagnosis_does_not_hide_original_error(
    yard: Path, monkeypatch: pytest.MonkeyPatch, heard: Heard
) -> None:
    def wrong(*_: Any) -> None:
        raise KeyError("first_error")

    monkeypatch.setattr(explain_failure_io, "explain_error", wrong)
    profile = profile_of(yard)
    with pytest.raises(CommandFailedError, match="uint32_t"):
        run_with_auto_fix(
            stage_of(profile), Action(yard / "a.log", CSTDINT, lambda _: False), profile
        )
    assert heard[-1] == (
        "the diagnosis of the failed stage extensions:rast crashed: KeyError: 'first_error'"
    )


def test_stage_record_names_applied_fix(yard: Path) -> None:
    stage = stage_of(profile_of(yard))
    stage_record_io.write_stage_record(stage, "first time", 1.0, "0", "includes: [cstdint]")
    record = json.loads(Path(build_record_path(stage.outputs[0])).read_text(encoding="utf-8"))
    assert record["auto_fix"] == "includes: [cstdint]"
