"""`torchyard init` in a user's project: what it proposes, shows and writes."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.cli.commands import init, init_draft
from tasks.cli.commands.init_answers import (
    Answers,
    ExtensionEntry,
    format_project_yaml,
    gather_init_facts,
    parse_extensions,
)
from tasks.cli.session import open_profile
from tasks.core.errors import TorchyardError
from tasks.core.project import Project
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.settings.layers_io import load_settings, read_default_profile
from tasks.settings.schema import Settings
from tasks.stages.install.target_interpreter_io import InterpreterInfo
from tasks.system import interpreters, invocation
from tasks.system.hardware import host_probe
from tests.support.checkout import HOST, KNOWLEDGE, RELEASE, ROOT, Heard
from tests.support.systems import linux_only
from tests.support.user_projects import SPLATTING_FOLDERS, write_files, write_splatting_project

FOUND = [{"name": Path(folder).name, "path": folder} for folder in SPLATTING_FOLDERS]


@pytest.fixture
def subject(tmp_path: Path, yard: Path, monkeypatch: pytest.MonkeyPatch) -> SelectedProfile:
    """Return the default profile of a clone of gaussian-splatting, on a machine without a GPU."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_EXE", "MAMBA_ROOT_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.setattr(host_probe, "list_gpus", lambda **_: ())
    monkeypatch.setattr(host_probe, "_find_toolkits", lambda path, **_: iter(()))
    monkeypatch.setattr(interpreters, "find_interpreter", lambda asked: HOST.python)
    monkeypatch.setattr(invocation, "_current", [*invocation._current])
    write_files(yard, {"config/profiles/quickstart.yaml": "{}\n"})
    for check in (ROOT / "templates" / "checks").glob("*.py"):
        write_files(yard, {f"templates/checks/{check.name}": ""})
    root = write_splatting_project(tmp_path / "gaussian-splatting")
    project = Project.of_folder(root, yard, tmp_path / "cache")
    invocation.set_invocation(project, "quickstart")
    return SelectedProfile(project, "quickstart", None)


@pytest.fixture
def environment(subject: SelectedProfile, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create the project's .venv, with a torchvision."""
    folder = subject.root / ".venv"
    site = folder / "site-packages"
    python = "Scripts/python.exe" if sys.platform == "win32" else "bin/python"
    files = {"pyvenv.cfg": "version = 3.12.9\n", python: ""}
    write_files(folder, {**files, "site-packages/torchvision/__init__.py": ""})
    info = InterpreterInfo("cpython", "3.12.9", "usual", str(folder), sites=(str(site),))
    target = "tasks.cli.commands.init_answers.inspect_interpreter"
    monkeypatch.setattr(target, lambda path, key: info)
    monkeypatch.setattr(init_draft, "check_install", lambda *given: None)
    return folder / python


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Simulate a terminal where a user types these answers."""
    monkeypatch.setattr(init, "is_interactive", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def read_written(subject: SelectedProfile) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((subject.root / "torchyard.yaml").read_text("utf-8"))
    return found


def test_findings_are_proposed_shown_and_written(subject: SelectedProfile, heard: Heard) -> None:
    init.run(subject)
    assert read_written(subject) == {
        "target": {"gpus": ["RTX 5090"]},
        "companions": ["torchvision"],
        "extensions": FOUND,
    }
    shown, result = [*heard], " ".join(heard.text.split())
    assert shown[0].startswith("found submodules/diff-gaussian-rasterization: CUDA extension")
    assert "torch 1.12.1, which is not used: torch 1.12.1 is older than 2.0" in result
    assert "environment.yml names torchaudio, which may not work with the new torch" in result
    assert shown.index("torchyard.yaml:") < shown.index("wrote torchyard.yaml")
    assert "   - {name: simple-knn, path: submodules/simple-knn}" in "\n".join(shown)
    fetch = "git submodule update --init --recursive"
    assert shown[-2:] == [
        "commit torchyard.yaml; .torchyard has a .gitignore of its own",
        f"next: {fetch} && torchyard build",  # glm is missing
    ]


def test_known_facts_apply_to_proposed_extensions(subject: SelectedProfile, heard: Heard) -> None:
    init.run(subject)
    assert read_default_profile(subject.project) == "default"
    opened = open_profile(subject.project, "default", {}, KNOWLEDGE)
    jobs = {stage.name: stage.job for stage in opened.plan.stages if stage.kind == "extensions"}
    knn = jobs["extensions:simple-knn"]
    assert (knn.kind, knn.imports, knn.includes) == ("path", ("simple_knn._C",), ("cfloat",))


def test_environment_of_project_is_proposed_with_its_companions(
    subject: SelectedProfile, heard: Heard, environment: Path
) -> None:
    init.run(subject)
    written = read_written(subject)
    python = environment.relative_to(subject.root).as_posix()
    assert (written["install"], written["companions"]) == ({"into": python}, ["torchvision"])
    assert f"found {python}: environment in this project, Python 3.12.9" in heard
    init.run(subject, into="own", force=True)
    assert "install" not in read_written(subject)


def test_failure_with_proposed_environment_writes_nothing(
    subject: SelectedProfile, heard: Heard, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(settings: Settings, *_: object) -> None:
        if settings.install.into:
            raise TorchyardError("this environment is too old", hint="create another one")

    monkeypatch.setattr(init_draft, "check_install", refuse)
    with pytest.raises(TorchyardError, match="too old") as error:
        init.run(subject)
    assert "doit init --into own" in error.value.hint
    assert not (subject.root / "torchyard.yaml").exists()


def test_python_outside_of_project_is_written_for_this_machine(
    subject: SelectedProfile, heard: Heard, environment: Path
) -> None:
    outside = write_files(Path.home(), {"envs/gs/bin/python": ""}) / "envs/gs/bin/python"
    init.run(subject, into=str(outside))
    assert read_written(subject)["install"] == {"into": "~/envs/gs/bin/python"}
    assert "install.into: a path of this machine. Move it to torchyard.local.yaml" in " ".join(
        heard.text.split()
    )


def test_enter_accepts_every_finding(
    subject: SelectedProfile, heard: Heard, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, "\n\n\n\n\n")
    init.run(subject)
    assert [line[0] for line in heard if line[:1].isdigit()] == ["1", "2", "3", "4"]
    assert read_written(subject)["extensions"] == FOUND
    assert "install" in read_written(subject)


@pytest.mark.parametrize("word", ["n", "No"])
def test_declined_file_is_not_written(
    subject: SelectedProfile, heard: Heard, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    answer(monkeypatch, f"\n\nfound, gsplat\n\n{word}\n")
    init.run(subject)
    assert heard[-1] == "nothing was written"
    assert "     - gsplat" in heard
    assert not (subject.root / "torchyard.yaml").exists()


def test_dry_run_writes_nothing_beside_an_existing_file(
    subject: SelectedProfile, heard: Heard
) -> None:
    write_files(subject.root, {"torchyard.yaml": "lock: false\n"})
    init.run(subject, dry_run=True)
    assert read_written(subject) == {"lock": False}
    assert "   companions: [torchvision]" in heard
    assert heard[-1] == "nothing was written"


def test_existing_file_is_replaced_only_with_force(subject: SelectedProfile, heard: Heard) -> None:
    text = "profile: small\nprofiles: {small: {target: {gpus: ['8.6']}}}\ncompanions: []\n"
    write_files(subject.root, {"torchyard.yaml": text})
    small = SelectedProfile(subject.project, "small", None)
    with pytest.raises(TorchyardError, match="already exists"):
        init.run(small)
    init.run(small, force=True)
    assert (subject.root / "torchyard.yaml.bak").read_text(encoding="utf-8") == text
    assert read_written(subject)["companions"] == []
    assert "the old file is now torchyard.yaml.bak" in heard


@linux_only  # other platforms get another wheel
@pytest.mark.parametrize(
    ("requirement", "version", "message"),
    [
        (f"torch=={RELEASE}", RELEASE, ""),
        ("torch==2.4.0", None, "requirements.txt requires torch 2.4.0, which is not used: no"),
        ("torch<2.5", None, f"requirements.txt requires torch <2.5; torch {RELEASE} is used"),
        ("torch>=2", None, ""),
    ],
)
def test_required_torch_is_used_if_it_has_code_for_the_gpus(
    subject: SelectedProfile, heard: Heard, requirement: str, version: str | None, message: str
) -> None:
    (subject.root / "environment.yml").unlink()
    write_files(subject.root, {"requirements.txt": requirement})
    init.run(subject)
    assert read_written(subject).get("torch", {}).get("version") == version
    result = " ".join(heard.text.split())
    assert message in result
    assert message or "requirements.txt requires" not in result


def test_built_in_profile_becomes_the_default(subject: SelectedProfile, heard: Heard) -> None:
    init.run(SelectedProfile(subject.project, "mine", None))
    assert read_written(subject)["profile"] == "mine"
    assert "target" not in read_written(subject)  # the profile has GPUs
    assert read_default_profile(subject.project) == "mine"


def test_project_without_extensions_gets_only_torch(
    subject: SelectedProfile, heard: Heard, tmp_path: Path
) -> None:
    (tmp_path / "plain").mkdir()
    project = Project.of_folder(tmp_path / "plain", subject.project.code, tmp_path / "cache")
    plain = SelectedProfile(project, "quickstart", None)
    init.run(plain)
    assert read_written(plain) == {"target": {"gpus": ["RTX 5090"]}}
    assert heard[0] == "no setup.py of a CUDA extension"
    assert heard[-1] == "next: torchyard build"


def test_written_project_file_is_read_back(subject: SelectedProfile) -> None:
    facts = gather_init_facts(subject)
    extensions = parse_extensions("found, 3dgs", KNOWLEDGE, subject.root, facts.extensions)
    assert len(extensions) == 3  # known names do not occur twice
    entry: ExtensionEntry = {
        "name": "a",
        "path": ".",
        "subdirectory": "b/c",
        "imports": ("a._C", "no"),
    }
    text = format_project_yaml(Answers(("8.9",), extensions=(entry,), torch_version="2.9.1"))
    settings = load_settings(subject.project, "default", {}, text).settings
    (found,) = settings.extensions
    assert (found.path, found.subdirectory, found.imports) == (".", "b/c", ("a._C", "no"))
    assert settings.torch.version == "2.9.1"
