"""settings and doctor on a checkout in miniature; what they say is caught by a listener."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pynvml
import pytest

from tasks.effects import compilers, files, git, probe
from tasks.errors import BuildError, MissingToolError
from tasks.model import Host, Interpreter
from tasks.reports import doctor, symptoms
from tasks.reports import settings as settings_report
from tasks.reports.subject import Subject
from tasks.stages.deps.job import Program
from tasks.yard import open_yard
from tests.checkout import HOST, Heard, broken, opened, write

GIT = "https://me:hunter2@git.example/a.git"


def test_settings_are_shown_with_where_they_are_from(yard: Path, heard: Heard) -> None:
    settings_report.run(opened(yard))
    rows = {line.split()[0]: line for line in heard}
    assert rows["target.gpus"].endswith('["12.0"]   # config/profiles/mine.yaml:1')
    assert "# config/default.yaml:" in rows["torch.version"]


def test_settings_go_to_a_file_too(yard: Path, heard: Heard) -> None:
    settings_report.run(opened(yard), json=str(yard / "out.json"))
    found = json.loads((yard / "out.json").read_text(encoding="utf-8"))
    assert (found["profile"], found["problem"]) == ("mine", None)
    assert found["settings"]["target.gpus"] == {
        "value": ["12.0"],
        "from": "config/profiles/mine.yaml:1",
    }
    assert found["plan"]["torch"] == "2.15.0 (CUDA 13.2)"


SECRETS = f"""\
target: {{gpus: ['12.0']}}
torch: {{index: "https://me:hunter2@index.example/simple"}}
source: {{mirrors: {{"https://github.com/": "https://bot:hunter2@mirror.example/"}}}}
build: {{env: {{CC: clang}}}}
extensions: [{{name: a, git: "{GIT}", env: {{MODE: fast}}}}]
"""


def test_secrets_are_shown_nowhere(
    yard: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(yard, SECRETS)
    look_nowhere(monkeypatch)
    subject = opened(yard)
    settings_report.run(subject, json=str(yard / "settings.json"))
    doctor.run(subject, json=str(yard / "doctor.json"))
    said = heard.text
    for name in ("settings", "doctor"):
        said += (yard / f"{name}.json").read_text(encoding="utf-8")
    assert "hunter2" not in said
    assert '"clang"' in said
    assert '"https://***@mirror.example/"' in said
    assert '"MODE": "fast"' in said


def test_settings_of_a_broken_profile_tell_what_is_wrong(yard: Path, heard: Heard) -> None:
    subject = broken(yard, "tagret: {}\n")
    with pytest.raises(BuildError) as told:
        settings_report.run(subject, json=str(yard / "out.json"))
    assert 'mine.yaml:1: tagret: unknown key; did you mean "target"?' in str(told.value)
    found = json.loads((yard / "out.json").read_text(encoding="utf-8"))
    assert (found["settings"], found["plan"]) == ({}, None)
    assert "tagret: unknown key" in found["problem"]


def test_settings_that_cannot_be_planned_are_shown_all_the_same(yard: Path, heard: Heard) -> None:
    write(yard, "target: {gpus: [RTX 5900]}\n")
    with pytest.raises(BuildError) as problem:
        opened(yard)
    subject = Subject(yard, "mine", None, problem.value)
    with pytest.raises(BuildError, match='"RTX 5900" is not a known GPU'):
        settings_report.run(subject)
    assert any(line.startswith("target.gpus") and '["RTX 5900"]' in line for line in heard)


def look_nowhere(monkeypatch: pytest.MonkeyPatch, *, gxx: str = "13.3.0") -> None:
    """A machine with a compiler, git, no card and no network."""
    tool = Program("/usr/bin/g++", gxx)
    monkeypatch.setattr(compilers, "find", lambda *_: (tool, tool))
    monkeypatch.setattr(compilers, "program", lambda name: Program(f"/usr/bin/{name}", "2.45"))
    monkeypatch.setattr(probe, "cards", tuple)
    monkeypatch.setattr(probe, "driver", str)
    monkeypatch.setattr(git, "reachable", lambda _: True)
    monkeypatch.setattr(symptoms, "_NEEDED_GIB", {})
    monkeypatch.setattr("tasks.reports.symptoms.shutil.disk_usage", lambda _: Disk())


class Disk:
    """A disk with much room."""

    free = 500 * 2**30


def test_doctor_tells_that_all_is_there(
    yard: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_nowhere(monkeypatch)
    doctor.run(opened(yard), json=str(yard / "out.json"))
    assert "ok       compiler     /usr/bin/g++ 13.3.0" in heard
    assert any("no NVIDIA card" in line for line in heard)
    found = json.loads((yard / "out.json").read_text(encoding="utf-8"))["found"]
    assert {symptom["level"] for symptom in found} == {"ok", "note"}
    assert not (yard / "build").exists(), "it looks and changes nothing"


def test_doctor_tells_of_a_broken_profile_and_of_the_machine(
    yard: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_nowhere(monkeypatch)
    with pytest.raises(BuildError) as told:
        doctor.run(broken(yard, "python: 3.10\n"))
    assert str(told.value) == "1 to be mended: settings\n  → each has its remedy above"
    assert heard[0] == (
        "PROBLEM  settings     config/profiles/mine.yaml:1: python: 3.10 is a number to YAML"
    )
    assert heard[1].strip() == '→ quote it: "3.10"'
    assert any(line.startswith("ok       python") for line in heard)


def test_doctor_names_what_is_missing_with_the_command(
    yard: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise MissingToolError("there is no C++ compiler here", todo="apt install build-essential")

    look_nowhere(monkeypatch)
    monkeypatch.setattr(compilers, "find", none)
    with pytest.raises(BuildError, match="1 to be mended: compiler"):
        doctor.run(opened(yard))
    assert "PROBLEM  compiler     there is no C++ compiler here" in heard
    assert any(line.strip() == "→ apt install build-essential" for line in heard)


@pytest.mark.parametrize(
    ("optional", "level", "way"),
    [(True, "note", "it is optional and will be left out"),
     (False, "problem", "the build will stop there")],
)  # fmt: skip
def test_doctor_tells_of_a_host_that_does_not_answer(
    yard: Path, monkeypatch: pytest.MonkeyPatch, optional: bool, level: str, way: str
) -> None:
    look_nowhere(monkeypatch)
    monkeypatch.setattr(git, "reachable", lambda _: False)
    flag = str(optional).lower()
    write(yard, f"extensions: [{{name: a, git: 'https://a.example/a', optional: {flag}}}]\n")
    profile = opened(yard).opened
    assert profile
    (found,) = [item for item in symptoms.of_profile(profile) if item.subject == "a"]
    assert found.level == level
    assert found.text == f"the host of https://a.example/a does not answer; {way}"


@pytest.mark.parametrize(("driver", "level"), [("575.51", "problem"), ("580.65", "ok")])
def test_doctor_knows_how_old_a_driver_may_be(
    yard: Path, monkeypatch: pytest.MonkeyPatch, driver: str, level: str
) -> None:
    look_nowhere(monkeypatch)
    monkeypatch.setattr(probe, "driver", lambda: driver)
    profile = opened(yard).opened
    assert profile
    (found,) = [item for item in symptoms.of_profile(profile) if item.subject == "driver"]
    assert found.level == level


def test_doctor_accepts_the_cards_that_are_here_now(
    yard: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_nowhere(monkeypatch)
    subject = opened(yard)
    build = files.own(yard / "build" / "mine")
    asked = probe.Asked("auto", None)
    old = Host("linux", "x86_64", Interpreter("/p", "3.12.1"), HOST.gpus)
    probe.pin(build / "host.json", asked, old)
    doctor.run(subject, accept=True)
    assert heard[0] == "accepted: no card; the next doit build goes by that"
    assert probe.host(asked, build / "host.json").gpus == ()


@pytest.mark.parametrize("name", ["../mine", "nobody", "", "a/b", "x\0y"])
def test_reports_open_whatever_the_profile_is_called(yard: Path, name: str) -> None:
    found = open_yard(yard, name, {}, ["settings"])
    assert Path(found.doit_config["dep_file"]).parent == yard
    assert "\0" not in found.doit_config["dep_file"]
    assert {"settings", "doctor", "purge"} <= {task["basename"] for task in found.tasks()}
    with pytest.raises(BuildError, match="there is no profile"):
        open_yard(yard, name, {}, ["build"])


def test_opening_a_profile_writes_nothing(yard: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Any:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", none)
    before = sorted(yard.rglob("*"))
    assert list(open_yard(yard, "mine", {}, ["list"]).tasks())
    assert sorted(yard.rglob("*")) == before
