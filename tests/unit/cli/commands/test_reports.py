"""settings and doctor on a miniature checkout; a listener captures their output."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pynvml
import pytest

from tasks.cli.commands import doctor, explain
from tasks.cli.commands import settings as settings_report
from tasks.cli.commands.doctor import format_check_table
from tasks.cli.session import open_session
from tasks.core.check_ids import ALL_CHECK_IDS, GATE_CHECK_IDS, CheckId
from tasks.core.errors import TorchyardError
from tasks.core.model import Gpu, Host, InstalledToolkit, Interpreter
from tasks.core.project import Project
from tasks.doctor.check_result import report_ok, report_warning
from tasks.doctor.host_facts import Disk, HostFacts, Memory, ProbeRequest, RequiredUrl, Tool
from tasks.knowledge.gpus import NvidiaDriver
from tasks.knowledge.resource_estimates import ALL_PLACES
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.system import files
from tasks.system.hardware import host_probe
from tests.support.checkout import HOST, RELEASE, Heard, broken, opened, write
from tests.support.surroundings import LINUX

COMPILES = "target: {gpus: ['12.0']}\nextensions: [{name: toy, path: toy}]\n"
GIT = "https://me:hunter2@git.example/a.git"


def test_settings_are_shown_with_their_origin(yard: Path, heard: Heard) -> None:
    settings_report.run(opened(yard))
    rows = {line.split()[0]: line for line in heard}
    assert rows["target.gpus"].endswith('["12.0"]   # config/profiles/mine.yaml:1')
    assert "# config/default.yaml:" in rows["torch.version"]


def test_settings_are_written_to_a_file(yard: Path, heard: Heard) -> None:
    settings_report.run(opened(yard), json=str(yard / "out.json"))
    found = json.loads((yard / "out.json").read_text(encoding="utf-8"))
    assert (found["profile"], found["problem"]) == ("mine", None)
    assert found["settings"]["target.gpus"] == {
        "value": ["12.0"],
        "from": "config/profiles/mine.yaml:1",
    }
    assert found["plan"]["torch"] == f"{RELEASE} (CUDA 13.2)"


SECRETS = f"""\
target: {{gpus: ['12.0']}}
torch: {{index: "https://me:hunter2@index.example/simple"}}
source: {{mirrors: {{"https://github.com/": "https://bot:hunter2@mirror.example/"}}}}
build: {{env: {{CC: clang}}}}
extensions: [{{name: a, git: "{GIT}", env: {{MODE: fast}}}}]
"""


def test_secrets_are_never_shown(yard: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    write(yard, SECRETS)
    stub_host_probe(monkeypatch)
    subject = opened(yard)
    settings_report.run(subject, json=str(yard / "settings.json"))
    doctor.run(subject, json=str(yard / "doctor.json"))
    result = heard.text
    for name in ("settings", "doctor"):
        result += (yard / f"{name}.json").read_text(encoding="utf-8")
    assert "hunter2" not in result
    assert '"clang"' in result
    assert '"https://***@mirror.example/"' in result
    assert '"MODE": "fast"' in result


def test_settings_of_broken_profile_report_the_error(yard: Path, heard: Heard) -> None:
    subject = broken(yard, "tagret: {}\n")
    with pytest.raises(TorchyardError) as error:
        settings_report.run(subject, json=str(yard / "out.json"))
    assert 'mine.yaml:1: tagret: unknown key; did you mean "target"?' in str(error.value)
    found = json.loads((yard / "out.json").read_text(encoding="utf-8"))
    assert (found["settings"], found["plan"]) == ({}, None)
    assert "tagret: unknown key" in found["problem"]


def test_settings_that_cannot_be_planned_are_still_shown(yard: Path, heard: Heard) -> None:
    write(yard, "target: {gpus: [RTX 5900]}\n")
    with pytest.raises(TorchyardError) as problem:
        opened(yard)
    subject = SelectedProfile(Project.of_checkout(yard), "mine", None, problem.value)
    with pytest.raises(TorchyardError, match='"RTX 5900" is not a known GPU'):
        settings_report.run(subject)
    assert any(line.startswith("target.gpus") and '["RTX 5900"]' in line for line in heard)


def stub_host_probe(monkeypatch: pytest.MonkeyPatch, **seen: Any) -> list[frozenset[CheckId]]:
    """Simulate a host; return the checks that were requested of it."""
    expected: list[frozenset[CheckId]] = []

    def look(asked: ProbeRequest, checks: frozenset[CheckId]) -> HostFacts:
        expected.append(checks)
        return replace(LINUX, host=asked.host, root=asked.project.root, **seen)

    monkeypatch.setattr(doctor, "read_host_facts", look)
    return expected


def test_doctor_reports_that_nothing_is_missing(
    yard: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = stub_host_probe(monkeypatch)
    write(yard, COMPILES)
    doctor.run(opened(yard), json=str(yard / "out.json"))
    passed = " ".join(" ".join(heard).split())
    assert "ok os, python, uv, git, compiler, toolkit, torch-checks, submodules," in passed
    assert passed.endswith("names, trust no problem would stop a build; no warnings")
    assert "14.2.0 at" not in heard.text
    doctor.run(opened(yard), verbose=True)
    assert "ok           compiler       14.2.0 at /usr/bin/g++" in heard
    assert heard[-1] == "no problem would stop a build; no warnings"
    found = json.loads((yard / "out.json").read_text(encoding="utf-8"))
    assert (found["profile"], found["problems"]) == ("mine", 0)
    assert {symptom["level"] for symptom in found["found"]} == {"ok"}
    keys = {"id", "level", "subject", "seen", "todo", "known"}
    assert all(set(symptom) == keys for symptom in found["found"])
    assert expected == [ALL_CHECK_IDS] * 2
    assert not (yard / "build").exists(), "it looks and changes nothing"


def test_doctor_reports_broken_profile_and_still_checks_the_host(
    yard: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    stub_host_probe(monkeypatch)
    with pytest.raises(TorchyardError) as error:
        doctor.run(broken(yard, "python: 3.10\n"))
    assert str(error.value) == "1 problem: settings\n  → follow the hint of each problem above"
    assert heard[0] == (
        "PROBLEM      settings       config/profiles/mine.yaml:1: python: 3.10 is a number in YAML"
    )
    assert heard[1].strip() == '→ quote it: "3.10"'
    assert any(line.startswith("ok           os, python, uv") for line in heard)
    assert any(line.startswith("not checked  known-bad") for line in heard)


def test_doctor_reports_missing_program_with_install_command(
    yard: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub_host_probe(monkeypatch, cxx=Tool(why="there is none", todo="apt install g++"), uv=Tool())
    write(yard, COMPILES)
    with pytest.raises(TorchyardError, match="1 problem: compiler") as error:
        doctor.run(opened(yard), json=str(yard / "out.json"))
    assert "follow the hint of each problem above" in str(error.value)
    at = heard.index("PROBLEM      compiler       there is none")
    assert heard[at + 1].strip() == "→ apt install g++"
    assert any(line.strip() == "→ pip install uv" for line in heard)
    assert json.loads((yard / "out.json").read_text(encoding="utf-8"))["problems"] == 1


def test_build_gate_lists_problems_with_hints(yard: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = (Disk(ALL_PLACES, "/home/me", 100),)
    expected = stub_host_probe(monkeypatch, cxx=Tool(), disks=small, uv=Tool())
    write(yard, COMPILES)
    with pytest.raises(TorchyardError) as error:
        doctor.check_before_build(opened(yard))
    assert str(error.value).splitlines() == [
        "2 problems: compiler, disk; nothing was built or changed",
        "  compiler: no C++ compiler is installed",
        "    → sudo apt install build-essential",
        "  disk: 100 MiB free for the build (/home/me); it needs at least 6.2 GiB",
        "    → free disk space, or move the project to a larger disk",
        "  → fix these problems, then check again: doit doctor",  # nothing works without a compiler
    ]
    assert expected == [GATE_CHECK_IDS]
    stub_host_probe(monkeypatch, disks=small, uv=Tool())
    with pytest.raises(TorchyardError, match=r"build anyway, set doctor.ignore: \[disk\]"):
        doctor.check_before_build(opened(yard))


def test_ignored_problems_are_counted_and_listed_but_do_not_block(
    yard: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = (Disk(ALL_PLACES, "/home/me", 100),)
    away = (RequiredUrl("gsplat", "https://git.example/gsplat.git", answers=False),)
    stub_host_probe(monkeypatch, cxx=Tool(), disks=small, reach=away)
    write(yard, f"{COMPILES}doctor: {{ignore: [disk, git-hosts]}}\n")
    with pytest.raises(TorchyardError) as error:
        doctor.check_before_build(opened(yard))
    assert str(error.value).startswith("1 problem: compiler; 1 ignored: disk; nothing")
    write(yard, f"{COMPILES}doctor: {{ignore: [disk, compiler, git-hosts, swap]}}\n")
    doctor.check_before_build(opened(yard))
    doctor.run(opened(yard), json=str(yard / "out.json"))
    assert any(line.startswith("ignored      disk") for line in heard)
    assert "stop there" not in heard.text
    assert heard[-1] == (
        "no problem would stop a build; no warnings; 3 ignored: compiler, disk, git-hosts"
    )
    found = json.loads((yard / "out.json").read_text(encoding="utf-8"))
    assert found["problems"] == 0
    assert {row["id"] for row in found["found"] if row["level"] == "ignored"} == {
        *("compiler", "disk", "git-hosts")
    }


def test_doctor_requires_no_compiler_if_nothing_is_compiled(
    yard: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub_host_probe(monkeypatch, cxx=Tool(why="there is none"), glibc="2.42")
    doctor.check_before_build(opened(yard))
    doctor.run(opened(yard), verbose=True)
    assert "ok           compiler       not needed: nothing is compiled" in heard


def test_changing_ignored_checks_causes_no_rebuild(yard: Path) -> None:
    def inputs() -> list[Any]:
        profile = opened(yard).opened
        assert profile
        return [stage.fingerprint for stage in profile.plan.stages]

    before = inputs()
    write(yard, "{target: {gpus: ['12.0']}, doctor: {ignore: [disk]}}\n")
    assert inputs() == before


@pytest.mark.parametrize("columns", [40, 80, 120, 200])
def test_table_fits_the_terminal_without_breaking_commands(
    yard: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    name = "an-extension-with-a-very-long-name"
    away = (RequiredUrl(name, f"https://git.example/{name}.git", answers=False),)
    stub_host_probe(monkeypatch, reach=away, cxx=Tool(), memory=Memory(8192, 8192, 4096, 0, 8))
    monkeypatch.setenv("COLUMNS", str(columns))
    write(yard, COMPILES)
    with pytest.raises(TorchyardError):
        doctor.run(opened(yard), verbose=True)
    text = "\n".join(heard)
    assert "sudo apt install build-essential" in text
    room = max(min(columns, 120), 58)
    for line in heard:
        whole = len(line[28:].split()) == 1 or "sudo" in line  # a path, a URL, a command
        assert len(line) <= room or whole
        assert line[26:28].strip() == ""


def test_suggested_commands_name_the_profile(yard: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Tool(str(yard / "build" / "mine" / "venv" / "bin" / "ninja"), "1.11.1")
    other = NvidiaDriver("595.71.05", "13.2", (Gpu("NVIDIA GeForce RTX 3090", "8.6"),))
    stub_host_probe(monkeypatch, ninja=old, nvidia=other)
    write(yard, "{}\n")
    found = doctor.run_host_checks(opened(yard, on=replace(HOST, pinned=True)))
    result = {symptom.id: symptom.todo.splitlines()[-1] for symptom in found if symptom.todo}
    assert result["ninja"] == "  doit clean deps profile=mine && doit deps profile=mine"
    assert result["cards"] == "  doit doctor --accept profile=mine"


def test_every_line_of_a_check_has_its_name() -> None:
    found = [
        report_warning("disk", "a", "b"),
        report_warning("disk", "c", "d"),
        report_ok("git", "e"),
        report_ok("git", "f"),
    ]
    lines = list(format_check_table(found, 80))
    assert [line[:20].split() for line in lines] == [
        ["warning", "disk"], [], ["warning", "disk"], [], ["ok", "git"], ["ok"],
    ]  # fmt: skip


def test_doctor_accept_pins_current_gpus(
    yard: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub_host_probe(monkeypatch)
    monkeypatch.setattr(host_probe, "list_gpus", lambda **_: ())
    subject = opened(yard)
    build = files.create_owned_folder(yard / "build" / "mine")
    requested = host_probe.HostQuery("auto", None)
    old = Host("linux", "x86_64", Interpreter("/p", "3.12.1"), HOST.gpus)
    host_probe.write_host_pin(build / "host.json", requested, old)
    doctor.run(subject, accept=True)
    assert heard[0].startswith("recorded the GPUs and toolkits of this machine: no GPU, ")
    assert heard[0].endswith("; the next doit build profile=mine uses these")
    assert host_probe.read_host(requested, build / "host.json").gpus == ()


def test_accept_repairs_profile_with_outdated_pinned_host_facts(
    yard: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub_host_probe(monkeypatch)
    monkeypatch.setattr(host_probe, "list_gpus", lambda **_: ())
    write(yard, "target: {gpus: ['9.0']}\n")
    build = files.create_owned_folder(yard / "build" / "mine")
    requested = host_probe.HostQuery("auto", None)
    kits = (InstalledToolkit("/old", "11.8.89"),)
    old = Host("linux", "x86_64", Interpreter("/p", "3.12.1"), HOST.gpus, kits)
    host_probe.write_host_pin(build / "host.json", requested, old)
    closed = SelectedProfile(
        Project.of_checkout(yard), "mine", None, TorchyardError("CUDA 12.4 is needed")
    )
    doctor.run(closed, accept=True)
    assert heard[0].startswith("recorded the GPUs and toolkits of this machine: no GPU, ")
    assert "run doit doctor" in heard[1]
    assert host_probe.read_host(requested, build / "host.json").toolkits != kits


@pytest.mark.parametrize("name", ["../mine", "nobody", "", "a/b", "x\0y"])
def test_reports_open_for_any_profile_name(yard: Path, name: str) -> None:
    found = open_session(Project.of_checkout(yard), name, {}, ["settings"])
    assert Path(found.doit_config["dep_file"]).parent == yard
    assert "\0" not in found.doit_config["dep_file"]
    assert {"settings", "doctor", "purge"} <= {task["basename"] for task in found.tasks()}
    with pytest.raises(TorchyardError, match="there is no profile"):
        open_session(Project.of_checkout(yard), name, {}, ["build"])


def test_opening_a_profile_writes_nothing(yard: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Any:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", none)
    before = sorted(yard.rglob("*"))
    assert list(open_session(Project.of_checkout(yard), "mine", {}, ["list"]).tasks())
    assert sorted(yard.rglob("*")) == before


@pytest.mark.parametrize("report", [doctor.check_before_build, explain.run])
def test_explain_refuses_what_build_refuses_and_suggests_alternatives(
    yard: Path,
    heard: Heard,
    monkeypatch: pytest.MonkeyPatch,
    report: Callable[[SelectedProfile], None],
) -> None:
    """Only the facts count here: the gate checks what this machine lacks."""
    monkeypatch.setattr(doctor, "GATE_CHECK_IDS", frozenset({"known-bad"}))
    torch = "torch: {strategy: source, version: '2.2.2'}\n"
    write(yard, f"target: {{gpus: ['9.0']}}\ntoolkit: {{version: '13.3'}}\n{torch}")
    with pytest.raises(TorchyardError) as refused:
        report(opened(yard))
    message = str(refused.value)
    assert "known-bad; nothing was built or changed" in message
    assert "PyTorch's sources up to 2.8 do not compile with CUDA 13" in message
    assert 'or set torch.version: "2.9.1": it builds with CUDA 13.3' in message
    assert "doctor.ignore: [known-bad]" in message
    assert not any("expected" in line for line in heard)
