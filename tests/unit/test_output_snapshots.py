"""What the main commands print at 80 columns, held as text files: a change of wording is a diff.

The host, the paths, the clock and the terminal are fixed, so that each machine prints the same.
After an intended change, `TORCHYARD_TEST_UPDATE=1 pytest tests/unit/test_output_snapshots.py`
writes the files of output_snapshots/ again.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import SimpleNamespace

import pytest

from tasks.cli.commands import diagnose, doctor, explain, report
from tasks.cli.help_text import TaskRow, render_overview, render_page, render_task_list
from tasks.cli.running.doit_tasks import generate_stage_tasks
from tasks.cli.running.execute import Session
from tasks.cli.session import generate_command_tasks
from tasks.core.build_activity import BuildActivity, SlowOutput
from tasks.core.errors import TorchyardError
from tasks.core.model import ValidationResult
from tasks.core.ninja_progress import Progress
from tasks.core.project import Project
from tasks.doctor import folder_facts_io
from tasks.doctor.host_facts import HostFacts
from tasks.lock.opened_profile_io import Profile, SelectedProfile
from tasks.planning.profile_plan import build_layout, make_plan
from tasks.settings.layers_io import load_settings
from tasks.stages.validate.check_results import build_validation, format_validation
from tasks.system import screen
from tasks.system.console import Console
from tasks.system.hardware import capacity
from tests.support import runrecords
from tests.support.checkout import KNOWLEDGE, RELEASE, ROOT, Heard, write
from tests.support.situations import SITUATIONS
from tests.support.surroundings import LINUX
from tests.support.systems import posix_only
from tests.support.terminal import Terminal

pytestmark = posix_only

COLUMNS = 80
SNAPSHOTS = Path(__file__).with_name("output_snapshots")
PLACE = PurePosixPath("/nowhere/torchyard")  # in messages; as long on every machine
PREBUILT = "target: {gpus: ['12.0']}\nextensions: [simple-knn]\n"
SOURCE = (
    "target: {gpus: ['12.0']}\ntorch: {strategy: source, version: '2.9.1'}\n"
    "toolkit: {version: '13.0'}\nextensions: [simple-knn]\n"
    "install: {into: /opt/env/bin/python}\n"
)
# What changes when releases are added to the knowledge, and as long a text in its place
CHANGING = {KNOWLEDGE.date: "YYYY-MM-DD", RELEASE: "2.15.0"}
LOG = """\
[811/6042] Building CUDA object caffe2/CMakeFiles/torch_cuda.dir/Sort.cu.o
FAILED: caffe2/CMakeFiles/torch_cuda.dir/Sort.cu.o
/usr/local/cuda/bin/nvcc -c Sort.cu -o Sort.cu.o
nvcc fatal   : Unsupported gpu architecture 'compute_120'
ninja: build stopped: subcommand failed.
"""


@dataclass(frozen=True)
class Stand:
    """What an output is made with: a checkout in miniature, what was printed, and a clock."""

    yard: Path
    heard: Heard
    patch: pytest.MonkeyPatch
    now: list[float]

    def select(self, text: str, facts: HostFacts = LINUX) -> SelectedProfile:
        """Open a profile of this text for the host of `facts`, in a folder that does not exist."""
        write(self.yard, text)
        loaded = load_settings(Project.of_checkout(self.yard), "mine", {})
        layout = build_layout(Project.of_checkout(PLACE), "mine", loaded.settings)
        choice, plan = make_plan(loaded.settings, facts.host, KNOWLEDGE, layout)
        profile = Profile(loaded, layout, facts.host, KNOWLEDGE, choice, plan)
        self.patch.setattr(doctor, "read_host_facts", lambda *_: facts)
        self.patch.setattr(folder_facts_io, "list_disks", lambda *_: facts.disks)
        return SelectedProfile(Project.of_checkout(Path(PLACE)), "mine", profile)

    def run(self, command: Callable[[], None]) -> str:
        """Return what a command prints, and its error as doit shows it."""
        try:
            command()
        except TorchyardError as error:
            self.heard.append(f"error: {error}")
        return self.heard.text


def print_build(stand: Stand, failure: str = "") -> str:
    """A build as the console shows it, with a fixed duration for each stage."""
    profile = stand.select(SOURCE).require_profile()
    out = Terminal()
    console = Console(profile.plan, out)
    console.profile = "mine"
    console.print_header()
    for stage in profile.plan.stages:
        console.begin_stage(stage, "first time")
        stand.now[0] += 75
        if stage.kind == "compile":
            console.print_warning("this machine has little memory for 16 jobs")
            slowest = (SlowOutput("Sort.cu", 61.0),)
            at_work = BuildActivity(jobs=16, slowest=slowest)
            console.show_progress("Sort.cu", Progress(812, 6042, 5400.0, at_work))
            lines = "\n".join(out.rows[-3:])
            if failure:
                console.report_failure(stage.name, failure)
                break
            stand.heard.append(f"[while it compiles]\n{lines}\n[after it]")
        console.end_stage(stage, "first time", "changed")
    console.print_summary()
    return "\n".join([*stand.heard, *out.rows])


def print_failed_build(stand: Stand) -> str:
    failure = TorchyardError(
        "ninja stopped: 1 of 6,042 outputs could not be made",
        location="build/mine/logs/compile.log",
        hint="doit diagnose profile=mine",
    )
    return print_build(stand, str(failure))


def print_doctor(name: str) -> Callable[[Stand], str]:
    def print_it(stand: Stand) -> str:
        subject = stand.select(SOURCE, SITUATIONS[name].s)
        return stand.run(lambda: doctor.run(subject))

    return print_it


def print_refusal(stand: Stand) -> str:
    subject = stand.select(SOURCE, SITUATIONS["no compiler"].s)
    return stand.run(lambda: doctor.check_before_build(subject))


def print_explain(text: str) -> Callable[[Stand], str]:
    return lambda stand: stand.run(lambda: explain.run(stand.select(text)))


def print_diagnose(stand: Stand) -> str:
    Path("compile.log").write_text(LOG, encoding="utf-8")
    subject = SelectedProfile(Project.of_checkout(ROOT), "mine", None)
    return stand.run(lambda: diagnose.run(subject, log="compile.log"))


def print_validate(stand: Stand) -> str:
    checks = (
        ValidationResult("import", "passed", "torch 2.9.1"),
        ValidationResult("cuda", "passed", "13.0"),
        ValidationResult(
            "machine_code",
            "failed",
            "libtorch_cuda.so has no machine code for sm_120",
            "build it again: doit build profile=mine",
        ),
        ValidationResult("device", "not run", "no GPU"),
        ValidationResult("matmul", "not run", "no GPU"),
    )
    changed = "the build does not match the current settings (compile: build.type changed); run: "
    validation = build_validation("2.9.1", checks, (f"{changed}doit build profile=mine",))
    return format_validation(validation, COLUMNS)


def print_list(stand: Stand) -> str:
    subject = stand.select(SOURCE)
    profile = subject.require_profile()
    session = Session(profile.plan, profile.layout, Console(profile.plan), lambda: None)
    rows = [
        TaskRow(":".join(filter(None, (task["basename"], task.get("name")))), task["doc"])
        for task in (*generate_stage_tasks(session), *generate_command_tasks(subject))
    ]
    return "\n".join(render_task_list(rows, COLUMNS))


def print_report_of_a_run(stand: Stand) -> str:
    shutil.copytree(ROOT / "templates", stand.yard / "templates")
    told = runrecords.events(runrecords.edges(40), failed=True)
    runrecords.written(stand.yard / "build" / "trial" / "records" / "runs", told)
    report.run(SelectedProfile(Project.of_checkout(stand.yard), "trial", None))
    return (stand.yard / "build" / "trial" / "report" / "report.md").read_text(encoding="utf-8")


OUTPUTS: dict[str, Callable[[Stand], str]] = {
    "build": print_build,
    "build_failed": print_failed_build,
    "build_refused": print_refusal,
    "diagnose": print_diagnose,
    "doctor": print_doctor("a workstation that builds torch"),
    "doctor_no_compiler": print_doctor("no compiler"),
    "explain_prebuilt": print_explain(PREBUILT),
    "explain_source": print_explain(SOURCE),
    "help": lambda _: "\n".join(render_overview(COLUMNS, "quickstart")),
    "help_build": lambda _: "\n".join(render_page("build", "", COLUMNS, "mine") or ()),
    "list": print_list,
    "report": print_report_of_a_run,
    "validate": print_validate,
}


@pytest.fixture
def stand(yard: Path, heard: Heard, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> Stand:
    now = [1000.0]
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(yard)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(screen, "_REDRAW_INTERVAL", 3600.0)  # only what a test draws
    monkeypatch.setattr(capacity, "count_usable_cores", lambda: 16)
    monkeypatch.setattr(explain, "os", SimpleNamespace(environ={}))
    return Stand(yard, heard, monkeypatch, now)


@pytest.mark.parametrize("name", OUTPUTS)
def test_an_output_is_as_its_snapshot(name: str, stand: Stand) -> None:
    output = OUTPUTS[name](stand)
    for changing, fixed in CHANGING.items():
        output = output.replace(changing, fixed)
    lines = output.replace(str(stand.yard), "CHECKOUT").splitlines()
    text = "".join(f"{line.rstrip()}\n" for line in lines)
    path = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("TORCHYARD_TEST_UPDATE"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    assert text == path.read_text(encoding="utf-8"), "TORCHYARD_TEST_UPDATE=1 writes it again"


def test_each_snapshot_has_its_output() -> None:
    assert {path.stem for path in SNAPSHOTS.iterdir()} == set(OUTPUTS)
