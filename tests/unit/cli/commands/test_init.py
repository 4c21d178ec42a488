"""`doit init`: its questions and defaults, what it writes, and what it leaves unchanged."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.cli.commands import init, init_draft
from tasks.cli.commands.init_answers import (
    SPLATTING_EXTENSIONS,
    Answers,
    apply_install_target,
    format_local_yaml,
    gather_init_facts,
    parse_extensions,
    parse_gpus,
    parse_strategy,
)
from tasks.core.errors import TorchyardError
from tasks.core.model import Gpu
from tasks.core.project import Project
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.settings.layers_io import load_settings
from tasks.stages.install import target_interpreter_io
from tasks.stages.install.target_interpreter_io import InterpreterInfo
from tasks.system import interpreters
from tasks.system.hardware import host_probe
from tests.support.checkout import CARD, HOST, KNOWLEDGE, RELEASE, Heard, write
from tests.support.systems import linux_only, needs_links

SECRETS = """\
# MY_PASSWORD=s3comment
build:
  env:
    HF_TOKEN: "s3quoted and more"
    MAX_JOBS: 4
    "API_KEY": >-
      s3folded

      s3again
    OTHER: seen
    TOKENS:
    - s3listed
publish: {dest: "https://me:s3url@index.example/", env: {A: b, X_SECRET: s3flow}}
"""
NEW = Gpu("NVIDIA GeForce RTX 7090", "12.0")


@pytest.fixture
def subject(yard: Path, monkeypatch: pytest.MonkeyPatch) -> SelectedProfile:
    """Return a profile that leaves all four questions open, on a machine without a GPU."""
    write(yard, "{}\n")
    for name in list(os.environ):
        if name.startswith("TORCHYARD__") or name in {"VIRTUAL_ENV", "CONDA_PREFIX"}:
            monkeypatch.delenv(name)
    monkeypatch.setattr(host_probe, "list_gpus", lambda **_: ())
    monkeypatch.setattr(host_probe, "_find_toolkits", lambda path, **_: iter(()))
    monkeypatch.setattr(interpreters, "find_interpreter", lambda asked: HOST.python)
    return SelectedProfile(Project.of_checkout(yard), "mine", None)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Simulate a terminal where a user types these answers."""

    def typed(text: str) -> None:
        monkeypatch.setattr(init, "is_interactive", lambda: True)
        monkeypatch.setattr(init, "is_interactive", lambda: True)
        monkeypatch.setattr("sys.stdin", io.StringIO(text))

    return typed


def written(yard: Path) -> dict[str, object]:
    text = (yard / "config" / "local.yaml").read_text(encoding="utf-8")
    assert text.startswith("# yaml-language-server: $schema=schema.json\n")
    found: dict[str, object] = yaml.safe_load(text) or {}
    return found


def test_init_without_terminal_uses_defaults_and_asks_nothing(
    subject: SelectedProfile, heard: Heard
) -> None:
    init.run(subject)
    assert written(subject.root) == {"target": {"gpus": ["RTX 5090"]}}
    assert "?" not in heard.text
    assert " ".join(heard.text.split()).startswith(
        "no question is asked because there is no terminal; defaults are used for --card, --way, "
        "--extensions, --into wrote"
    )
    assert "wrote config/local.yaml, which overrides every profile" in heard
    assert heard[-1] == "next: doit build profile=mine"


def test_init_shows_resulting_plan(subject: SelectedProfile, heard: Heard) -> None:
    init.run(subject, card="RTX 4090", way="source")
    assert "strategy     source: requested in torch.strategy" in heard
    assert "archs        8.9 (sm_89): target.gpus is RTX 4090" in heard


def test_every_question_has_an_option(
    subject: SelectedProfile, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = create_interpreter(monkeypatch, subject.root)
    init.run(subject, "RTX 5060 Ti, 8.9", "prebuilt", "3dgs, gsplat", python)
    assert written(subject.root) == {
        "target": {"gpus": ["RTX 5060 Ti", "8.9"]},
        "torch": {"strategy": "prebuilt"},
        "install": {"into": python},
        "extensions": [*SPLATTING_EXTENSIONS, "gsplat"],
    }


def create_interpreter(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    release: str = "3.12.9",
    has: tuple[str, ...] = (),
) -> str:
    """Create an interpreter of that release with these packages."""
    site = folder / "theirs" / "site-packages"
    for name in has:
        (site / name).mkdir(parents=True)
        (site / name / "__init__.py").touch()
    python = folder / "theirs" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    found = InterpreterInfo(
        "cpython", release, "usual", str(python.parent.parent), sites=(str(site),)
    )
    monkeypatch.setattr(
        "tasks.cli.commands.init_answers.inspect_interpreter", lambda path, key: found
    )
    monkeypatch.setattr(init_draft, "check_install", lambda *given: None)
    return str(python)


def test_python_of_install_target_is_used_for_build(
    subject: SelectedProfile, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = create_interpreter(monkeypatch, subject.root, "3.13.1")
    init.run(subject, into=python)
    found = written(subject.root)
    assert (found["python"], found["install"]) == (python, {"into": python})


def test_companions_installed_in_target_environment_are_added(
    subject: SelectedProfile, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = create_interpreter(monkeypatch, subject.root, has=("torch", "torchvision", "numpy"))
    init.run(subject, into=python)
    assert written(subject.root)["companions"] == ["torchvision"]
    assert f"also selected: torchvision (found in {python};" in " ".join(heard.text.split())


def test_companion_that_cannot_be_planned_is_reported_and_omitted(
    subject: SelectedProfile, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = "torch: {strategy: prebuilt, version: '2.15.0'}\n"
    write(subject.root, profile)
    python = create_interpreter(monkeypatch, subject.root, has=("torchvision", "torchaudio"))
    init.run(subject, into=python)
    assert written(subject.root)["companions"] == ["torchvision"]
    assert "has torchaudio, which may not work with the new torch: torchaudio" in heard.text


@pytest.mark.parametrize("own", ["[torchaudio]", "[]"])
def test_companions_of_the_profile_are_not_overridden(
    subject: SelectedProfile, heard: Heard, monkeypatch: pytest.MonkeyPatch, own: str
) -> None:
    write(subject.root, f"torch: {{version: '2.9.1'}}\ncompanions: {own}\n")
    init.run(subject, into=create_interpreter(monkeypatch, subject.root, has=("torchvision",)))
    assert "companions" not in written(subject.root)


@pytest.mark.parametrize("own", [["triton"], []])
def test_companions_in_replaced_file_are_kept(
    subject: SelectedProfile, heard: Heard, monkeypatch: pytest.MonkeyPatch, own: list[str]
) -> None:
    text = f"companions: [{', '.join(own)}]\n"
    (subject.root / "config" / "local.yaml").write_text(text, encoding="utf-8")
    python = create_interpreter(monkeypatch, subject.root, has=("torchvision",))
    init.run(subject, into=python, force=True)
    assert written(subject.root)["companions"] == own


def test_existing_torch_keeps_its_companions(
    subject: SelectedProfile, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = create_interpreter(monkeypatch, subject.root, has=("torchvision",))
    got = apply_install_target(Answers(strategy="existing"), python, gather_init_facts(subject))
    assert (got.python, got.companions) == (python, None)


def test_environment_directory_selects_its_python(
    subject: SelectedProfile, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = create_interpreter(monkeypatch, subject.root)
    monkeypatch.setattr(
        "tasks.cli.commands.init_answers.find_python_in", lambda folder: Path(python)
    )
    init.run(subject, into=str(Path(python).parents[1]))
    assert written(subject.root)["install"] == {"into": python}


def test_strategy_existing_sets_the_interpreter_that_has_torch() -> None:
    text = format_local_yaml(Answers(strategy="existing", python="/conda/bin/python"))
    assert yaml.safe_load(text) == {
        "python": "/conda/bin/python",
        "torch": {"strategy": "existing"},
    }


@pytest.mark.parametrize(
    ("option", "text", "what", "todo"),
    [
        ("card", "RTX 5900", "not a known GPU", 'did you mean "RTX 5090" (12.0)'),
        ("card", "RTX 509O", "not a known GPU", 'did you mean "RTX 5090" (12.0)'),
        ("card", "RTX 5090,cpu", '"cpu" cannot be combined', "only cpu means a build without CUDA"),
        ("card", "auto,8.9", '"auto" cannot be combined', "only auto means the GPUs of this"),
        ("card", " , ", "no GPU is named", "cpu for a CPU build"),
        ("way", "prebuild", 'did you mean "prebuilt"', "choose one of"),
        ("extensions", "simpleknn2", 'did you mean "simple-knn"', "knowledge.md"),
        ("extensions", "./nowhere", "there is no folder", "correct the path"),
        ("into", "/nowhere/python", "does not exist", "an installed Python"),
    ],
)
def test_invalid_answer_is_reported_with_its_option_and_not_written(  # noqa: PLR0917
    subject: SelectedProfile, heard: Heard, option: str, text: str, what: str, todo: str
) -> None:
    given: dict[str, Any] = {option: text}
    with pytest.raises(TorchyardError) as error:
        init.run(subject, **given)
    assert error.value.location == f"--{option}"
    assert what in error.value.message
    assert todo in error.value.hint
    assert not (subject.root / "config" / "local.yaml").exists()


def test_settings_that_cannot_be_planned_are_not_written(
    subject: SelectedProfile, heard: Heard
) -> None:
    with pytest.raises(TorchyardError, match="has no torch") as error:
        init.run(subject, way="existing")
    assert "config/local.yaml was not written" in error.value.hint
    assert not (subject.root / "config" / "local.yaml").exists()


def test_existing_file_is_kept_and_diff_is_shown(subject: SelectedProfile, heard: Heard) -> None:
    path = subject.root / "config" / "local.yaml"
    path.write_text("notify: {bell: false}\n", encoding="utf-8")
    with pytest.raises(TorchyardError, match="already exists") as error:
        init.run(subject)
    assert "doit init --force" in error.value.hint
    assert path.read_text(encoding="utf-8") == "notify: {bell: false}\n"
    assert "-notify: {bell: false}" in heard


def test_force_keeps_a_backup_each_time(subject: SelectedProfile, heard: Heard) -> None:
    config = subject.root / "config"
    for number, text in enumerate(("notify: {bell: false}\n", "lock: false\n")):
        (config / "local.yaml").write_text(text, encoding="utf-8")
        init.run(subject, force=True)
        kept = config / ("local.yaml.bak" if number == 0 else "local.yaml.bak2")
        assert kept.read_text(encoding="utf-8") == text


def test_backup_has_same_bytes_and_same_permissions(subject: SelectedProfile, heard: Heard) -> None:
    config = subject.root / "config"
    before = b"\xef\xbb\xbfbuild:\r\n  env: {HF_TOKEN: s3same}\r\n"
    (config / "local.yaml").write_bytes(before)
    (config / "local.yaml").chmod(0o600)
    mode = (config / "local.yaml").stat().st_mode
    init.run(subject, force=True)
    assert (config / "local.yaml.bak").read_bytes() == before
    for name in ("local.yaml", "local.yaml.bak"):
        assert (config / name).stat().st_mode == mode


@pytest.mark.parametrize("force", [True, False])
def test_diff_shows_no_secrets(subject: SelectedProfile, heard: Heard, force: bool) -> None:
    path = subject.root / "config" / "local.yaml"
    path.write_text(SECRETS, encoding="utf-8")
    with contextlib.nullcontext() if force else pytest.raises(TorchyardError):
        init.run(subject, force=force)
    assert "s3" not in heard.text
    assert {"-    HF_TOKEN: ***", "-    MAX_JOBS: 4", "-    OTHER: seen"} <= set(heard)
    assert '-    "API_KEY": ***' in heard
    assert "-# MY_PASSWORD=***" in heard


@needs_links
def test_symlink_is_kept_and_its_target_is_written(subject: SelectedProfile, heard: Heard) -> None:
    path, own = subject.root / "config" / "local.yaml", subject.root / "mine.yaml"
    own.write_text("lock: false\n", encoding="utf-8")
    path.symlink_to(own)
    init.run(subject, force=True)
    assert path.is_symlink()
    assert own.read_text(encoding="utf-8") == path.read_text(encoding="utf-8")
    assert written(subject.root)
    kept = path.with_name("local.yaml.bak")
    assert not kept.is_symlink()
    assert kept.read_text(encoding="utf-8") == "lock: false\n"


def test_same_answers_leave_file_unchanged(subject: SelectedProfile, heard: Heard) -> None:
    init.run(subject)
    init.run(subject)
    assert "config/local.yaml already has these settings" in heard
    assert [path.name for path in (subject.root / "config").glob("local*")] == ["local.yaml"]


def test_broken_local_yaml_can_be_replaced(subject: SelectedProfile, heard: Heard) -> None:
    (subject.root / "config" / "local.yaml").write_text("tagret: {}\n", encoding="utf-8")
    init.run(subject, force=True)
    assert written(subject.root) == {"target": {"gpus": ["RTX 5090"]}}


def test_init_works_with_broken_profile(subject: SelectedProfile, heard: Heard) -> None:
    write(subject.root, "tagret: {}\n")
    with pytest.raises(TorchyardError, match="tagret: unknown key"):
        init.run(subject, card="12.0")
    assert written(subject.root) == {"target": {"gpus": ["12.0"]}}


def test_init_asks_four_questions_and_return_accepts_default(
    subject: SelectedProfile, heard: Heard, answers: Callable[[str], None]
) -> None:
    answers("\n\n\n\n")
    init.run(subject)
    result = " ".join(heard.text.split())
    assert "overrides every profile" in result
    assert "you do not need this: doit build profile=rtx5090" in result
    assert "a new environment in build/mine" in result
    requested = [line for line in heard if line[:1].isdigit()]
    assert [line[0] for line in requested] == ["1", "2", "3", "4"]
    assert all(line.endswith("?") for line in requested)
    assert written(subject.root) == {"target": {"gpus": ["RTX 5090"]}}


def test_given_options_are_not_asked(
    subject: SelectedProfile, heard: Heard, answers: Callable[[str], None]
) -> None:
    answers("3dgs\n\n")
    init.run(subject, card="cpu", way="auto")
    assert [line[0] for line in heard if line[:1].isdigit()] == ["3", "4"]
    assert written(subject.root)["extensions"] == list(SPLATTING_EXTENSIONS)


def test_typo_is_reported_and_question_is_repeated(
    subject: SelectedProfile, heard: Heard, answers: Callable[[str], None]
) -> None:
    answers("RTX 5900\n4090\nsource\ngsplat\n\n")
    init.run(subject)
    assert '   "RTX 5900" is not a known GPU' in heard
    assert '   → did you mean "RTX 5090" (12.0)?' in heard
    assert written(subject.root) == {
        "target": {"gpus": ["4090"]},
        "torch": {"strategy": "source"},
        "extensions": ["gsplat"],
    }


def test_end_of_input_writes_nothing(
    subject: SelectedProfile, heard: Heard, answers: Callable[[str], None]
) -> None:
    answers("\n\n")
    with pytest.raises(TorchyardError, match="ended before the last answer"):
        init.run(subject)
    assert not (subject.root / "config" / "local.yaml").exists()


def test_no_question_is_asked_if_file_may_not_be_replaced(
    subject: SelectedProfile, heard: Heard, answers: Callable[[str], None]
) -> None:
    (subject.root / "config" / "local.yaml").write_text("lock: false\n", encoding="utf-8")
    answers("\n\n\n\n")
    with pytest.raises(TorchyardError, match="no question was asked"):
        init.run(subject)
    assert not heard


def test_detected_gpus_are_default_by_name_or_capability(
    subject: SelectedProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_probe, "list_gpus", lambda **_: (CARD, CARD, NEW))
    assert gather_init_facts(subject).default_gpus == ("RTX 5090", "12.0")


def test_gpus_of_profile_are_kept_by_default(subject: SelectedProfile, heard: Heard) -> None:
    write(subject.root, "target: {gpus: ['8.9']}\n")
    init.run(subject)
    assert written(subject.root) == {}


@linux_only  # other platforms get another wheel
def test_strategy_question_shows_default_and_reason(
    subject: SelectedProfile, heard: Heard, answers: Callable[[str], None]
) -> None:
    answers("\n\n\n\n")
    init.run(subject)
    result = " ".join(heard.text.split())
    assert f"auto chosen by the planner; now prebuilt: PyPI's torch {RELEASE}" in result
    assert "existing the torch that your own Python already has" in result


def test_every_example_gpu_is_known(subject: SelectedProfile) -> None:
    assert gather_init_facts(subject).list_recent_gpus()[0] == "RTX 5090 (12.0)"


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("none", ()),
        ("3DGS", SPLATTING_EXTENSIONS),
        ("simple_knn, Simple-KNN", ("simple-knn",)),
        ("https://example.org/a/my.ext.git", ({"name": "my.ext", "git": "https://example.org/a/my.ext.git"},)),
        ("git@example.org:me/ext.git", ({"name": "ext", "git": "git@example.org:me/ext.git"},)),
    ],
)  # fmt: skip
def test_extension_answers_are_names_directories_and_urls(
    text: str, listed: tuple[object, ...], yard: Path
) -> None:
    assert parse_extensions(text, KNOWLEDGE, yard) == listed


def test_extension_name_is_that_of_its_directory(yard: Path) -> None:
    (yard / "my ext").mkdir()
    assert parse_extensions("my ext", KNOWLEDGE, yard) == ({"name": "my-ext", "path": "my ext"},)


def test_gpus_and_strategies_are_parsed_in_common_spellings() -> None:
    assert parse_gpus(" rtx5090 ,12.0", KNOWLEDGE) == ("rtx5090", "12.0")
    assert parse_gpus("CPU", KNOWLEDGE) == ()
    assert parse_gpus("auto", KNOWLEDGE) == "auto"
    assert parse_strategy(" Source ") == "source"


@pytest.mark.parametrize("text", ["no", "3.12", "C:\\venv\\python.exe", 'a "b"', "a: b", "~", "#x"])
def test_written_settings_are_read_back(text: str, yard: Path) -> None:
    found = format_local_yaml(Answers(gpus=("8.9",), into=text))
    assert yaml.safe_load(found)["install"]["into"] == text
    loaded = load_settings(Project.of_checkout(yard), "mine", {}, found)
    assert loaded.settings.target.gpus == ("8.9",)


def test_directory_without_interpreter_is_refused(subject: SelectedProfile, heard: Heard) -> None:
    (subject.root / "empty").mkdir()
    with pytest.raises(TorchyardError, match="is a folder"):
        init.run(subject, into="empty")
    assert target_interpreter_io.find_python_in(subject.root / "empty") is None
