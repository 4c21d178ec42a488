"""What a person is told where a stage fails: the first real error, the cause, the remedy for this
host and profile, and where the whole log is.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tasks.core.errors import CommandFailedError, FetchError, TorchyardError
from tasks.core.model import Command, Host, InstalledToolkit, InstalledTorch, Interpreter, Stage
from tasks.diagnosis.diagnosis_text import (
    fill_remedy,
    find_placeholders,
    remove_own_commands,
)
from tasks.diagnosis.log_io import parse_log
from tasks.diagnosis.run_facts import RunFacts
from tasks.doctor import explain_failure_io, host_hints_io
from tasks.lock.opened_profile_io import Profile
from tasks.runlog import memory_monitor_io
from tasks.system import shell
from tasks.system.files import write_atomic
from tasks.system.profile_hint import add_profile_argument
from tests.support.checkout import CARD, KNOWLEDGE, OnSystem, opened, write
from tests.support.rows import each_row

ARCH = "nvcc fatal   : Unsupported gpu architecture 'compute_120'"
HOST = Host(
    "linux",
    "x86_64",
    Interpreter("/usr/bin/python3", "3.12.4"),
    (CARD,),
    (InstalledToolkit("/opt/cuda", "13.0.88"),),
)


@pytest.fixture
def profile(yard: Path) -> Profile:
    write(
        yard,
        "target: {gpus: ['12.0']}\ntorch: {strategy: source}\n"
        "extensions: [{name: rast, git: u, submodules: false}]\n",
    )
    subject = opened(yard, on=HOST)
    assert subject.opened is not None
    return subject.opened


def stage_of(profile: Profile, name: str) -> Stage:
    return next(one for one in profile.plan.stages if one.name == name)


def failing(log: Path, *said: str, code: int = 1) -> CommandFailedError:
    """What a command that prints this and ends so raises."""
    text = "\n".join(said)
    argv = (sys.executable, "-c", f"print({text!r}); raise SystemExit({code})")
    with pytest.raises(CommandFailedError) as caught:
        shell.run_command(Command(argv, shell.build_host_env(), "compile PyTorch", log=log))
    return caught.value


def explained(profile: Profile, error: TorchyardError, name: str = "compile") -> str:
    with memory_monitor_io.MEMORY_MONITOR.observe_memory() as seen:
        explain_failure_io.explain_error(stage_of(profile, name), error, profile, seen)
    return str(error)


def test_error_cause_remedy_and_log_are_said_in_this_order(
    tmp_path: Path, profile: Profile
) -> None:
    log = tmp_path / "compile.log"
    log.write_text("$ /bin/ninja\na.cu: error: of an older try\n", encoding="utf-8")
    error = failing(log, "[1/2] nvcc -c k.cu", "FAILED: k.o", ARCH, "ninja: build stopped: x.")
    lines = explained(profile, error).splitlines()
    assert lines[0] == f"{log}:6: compile PyTorch failed (exit 1): {ARCH}"
    assert lines[1].startswith("  cause: this CUDA toolkit does not support")
    assert lines[1].endswith("(nvcc-arch-unsupported)")
    assert lines[2].startswith("  → ")
    assert lines[3:] == [f"  the whole log: {log}"]
    assert error.diagnosis is not None
    assert error.diagnosis["cause"] == "nvcc-arch-unsupported"
    assert error.diagnosis["first_error"]["log_line"] == 6


def test_the_facts_of_the_run_are_kept_beside_the_log(tmp_path: Path, profile: Profile) -> None:
    log = tmp_path / "compile.log"
    deps = Path(stage_of(profile, "compile").job.deps)
    write_atomic(deps, '{"cxx": {"path": "/a/g++", "version": "12.2"}}')
    explained(profile, failing(log, ARCH, code=3))
    facts = memory_monitor_io.read_facts(log)
    assert facts is not None
    assert (facts.code, facts.compiler) == (3, "/a/g++ 12.2")
    assert facts.begun == 0


@pytest.mark.parametrize(
    ("strategy", "stages"),
    [
        (
            "source",
            ["deps", "source", "env", "compile", "wheel", "extensions:rast", "install", "validate"],
        ),
        ("prebuilt", ["deps", "env", "wheel", "extensions:rast", "install", "validate"]),
        ("existing", ["deps", "env", "wheel", "extensions:rast", "validate"]),
    ],
)
def test_every_stage_kind_gets_the_cause_of_its_failed_command(
    yard: Path, tmp_path: Path, strategy: str, stages: list[str]
) -> None:
    into = "" if strategy == "existing" else f"install: {{into: {tmp_path}/python}}\n"
    write(
        yard,
        f"target: {{gpus: ['12.0']}}\ntorch: {{strategy: {strategy}}}\n{into}"
        "extensions: [{name: rast, git: u, env: {CXX: /my/g++}}]\n",
    )
    installed = InstalledTorch("2.15.0+cu132", "13.2", "/venv/torch")
    python = replace(HOST.python, torch=installed if strategy == "existing" else None)
    subject = opened(yard, on=replace(HOST, python=python))
    assert subject.opened is not None
    plan = subject.opened.plan
    kinds = [*plan.stages, plan.validate] if plan.validate else [*plan.stages]
    assert [stage.name for stage in kinds] == stages
    write_atomic(Path(kinds[-1].job.deps), '{"cxx": {"path": "/a/g++", "version": "12.2"}}')
    for stage in kinds:
        log = tmp_path / f"{stage.kind}.log"
        error = failing(log, "error: could not write to 'a.so': No space left on device")
        with memory_monitor_io.MEMORY_MONITOR.observe_memory() as seen:
            told = explain_failure_io.explain_error(stage, error, subject.opened, seen)
        assert told is not None
        assert error.cause.endswith("(disk-full)"), stage.name
        facts = memory_monitor_io.read_facts(log)
        assert facts is not None
        if stage.kind in {"compile", "wheel", "validate"}:
            assert facts.compiler == "/a/g++ 12.2"
        if stage.kind == "extensions":
            assert not facts.compiler


def test_what_somebody_wrote_by_hand_stays(tmp_path: Path, profile: Profile) -> None:
    error = failing(tmp_path / "a.log", "a.s: fatal error: No space left on device")
    error.hint = "the disk is full (disk-full): free some room"
    said = explained(profile, error)
    assert said.count("disk-full") == 1
    assert "  → the disk is full (disk-full): free some room" in said


class Roomy(memory_monitor_io.ObservedMemory):
    """One that saw memory enough."""

    def collect_facts(self, log: Path) -> RunFacts:
        return RunFacts(size=log.stat().st_size, kills=0, lowest_mib=23_000, limit_mib=24_000)


def test_what_was_written_by_hand_gives_way_to_what_the_facts_say(
    tmp_path: Path, profile: Profile
) -> None:
    error = failing(tmp_path / "a.log", "FAILED: a.o", "Killed")
    error.hint = "a.o needs more memory than there is (oom-killed): close other programs"
    explain_failure_io.explain_error(stage_of(profile, "compile"), error, profile, Roomy())
    assert error.cause.endswith("(interrupted)")
    assert "memory" not in error.hint
    assert error.hint.startswith("the same command goes on")


def test_an_error_that_came_of_a_command_is_told_by_its_log(
    tmp_path: Path, profile: Profile
) -> None:
    log = tmp_path / "source.log"
    cause = failing(log, "fatal: unable to access 'https://x.example/': Could not resolve host: x")
    error = FetchError("u cannot be fetched", location=cause.location, hint="check the network")
    error.__cause__ = cause
    lines = explained(profile, error, "source").splitlines()
    assert lines[0].endswith(": u cannot be fetched")
    assert lines[1].endswith("(network-git)")
    assert lines[2] == "  → check the network"


def test_what_is_not_known_says_so_and_where_to_read_on(tmp_path: Path, profile: Profile) -> None:
    error = failing(tmp_path / "a.log", "a.cpp:7:3: error: expected ';' before '}' token")
    lines = explained(profile, error).splitlines()
    log = tmp_path / "a.log"
    assert lines[1:] == [
        "  cause: unknown",
        f"  → read the lines around {log}:2",
        f"  the whole log: {log}",
    ]


@pytest.mark.parametrize("gutter", [("  408 |", "      |"), ("", "")])
def test_what_the_compiler_showed_of_the_source_is_shown(
    tmp_path: Path, profile: Profile, gutter: tuple[str, str]
) -> None:
    code = ["       { return __x < __y; }", "                ~~~~^~~~~"]
    shown = [f"{before}{line}" for before, line in zip(gutter, code, strict=True)]
    error = failing(
        tmp_path / "a.log",
        "[1/2] Building CXX object text.cpp.o",
        "FAILED: text.cpp.o",
        "/usr/include/c++/12/bits/stl_map.h:529:32:   required from 'operator[]'",
        "/src/text.cpp:10:37:   required from here",
        "/usr/include/c++/12/bits/stl_function.h:408:20: error: no match for 'operator<'",
        *shown,
        "/usr/include/c++/12/bits/stl_iterator.h:451:5: note: candidate",
    )
    lines = explained(profile, error).splitlines()
    assert lines[1] == "    /src/text.cpp:10:37:   required from here"
    assert lines[2:4] == [f"    |{line}" for line in code]
    assert lines[4] == "  cause: unknown"


def test_our_commands_in_a_remedy_are_for_this_profile(
    tmp_path: Path, profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = 'k.cu(9): error: identifier "uint32_t" is undefined'
    told = explained(profile, failing(tmp_path / "a.log", said), "extensions:rast")
    assert "then doit build profile=mine; build.auto_fix: true in config/profiles/mine.yaml" in told
    monkeypatch.setenv("TORCHYARD_PROFILE", "mine")
    told = explained(profile, failing(tmp_path / "a.log", said), "extensions:rast")
    assert "then doit build; build.auto_fix" in told


@each_row(
    ("todo", "told"),
    [
        ("doit doctor --accept", "doit doctor --accept profile=p"),
        (
            "doit clean extensions and doit build",
            "doit clean extensions profile=p and doit build profile=p",
        ),
        ("doit clean, then go on", "doit clean profile=p, then go on"),
        ("name it: doit diagnose --log FILE", "name it: doit diagnose --log FILE profile=p"),
        ("doit publish --dest FOLDER, or so", "doit publish --dest FOLDER profile=p, or so"),
        ("see doit matrix", "see doit matrix profile=p"),
        ("doit build profile=q", "doit build profile=q"),
        ("doit clean extensions profile=q", "doit clean extensions profile=q"),
        ("doit doctor --accept profile=q", "doit doctor --accept profile=q"),
        ("doit is told; doit builds", "doit is told; doit builds"),
    ],
)
def test_a_command_of_ours_is_known_in_a_sentence(todo: str, told: str) -> None:
    assert add_profile_argument(todo, "p") == told


@pytest.mark.parametrize(
    "error",
    [
        TorchyardError("it is wrong", location="config/local.yaml", hint="mend it"),
        CommandFailedError("git failed", code=1),
        CommandFailedError("git failed", code=1, location="/no/such.log:3"),
    ],
)
def test_what_has_no_log_stays_as_it_is(profile: Profile, error: TorchyardError) -> None:
    before = str(error)
    assert explained(profile, error) == before
    assert error.diagnosis is None


@pytest.mark.parametrize(
    ("changes", "whose"),
    [
        ({"kind": "path"}, "{home}"),
        ({"kind": "git"}, "{work}/clone"),
        ({"kind": "sdist"}, "{work}/tree"),
        ({"kind": "path", "patches": ("a.patch",)}, "{work}/tree"),
    ],
    ids=["path", "git", "sdist", "patched"],
)
def test_an_error_names_the_file_that_a_person_mends_and_not_the_copy_that_is_built(
    tmp_path: Path, profile: Profile, changes: dict[str, Any], whose: str
) -> None:
    stage = stage_of(profile, "extensions:rast")
    home = tmp_path / "my rast"
    job = replace(stage.job, location=str(home), **changes)
    folder = PurePath(whose.format(work=job.work, home=home))
    for place in {home, Path(job.clone), Path(job.tree)}:
        place.mkdir(parents=True, exist_ok=True)
        (place / "k.cu").write_text("", encoding="utf-8")
    (Path(job.tree) / "gen.cu").write_text("", encoding="utf-8")
    log = tmp_path / "rast.log"
    failing(log, "FAILED: k.o", f"{job.tree / 'k.cu'}(9): error: {job.tree / 'gen.cu'} has no ';'")
    told = explain_failure_io.explain_log(
        parse_log(log), KNOWLEDGE, None, profile, replace(stage, job=job)
    )
    file = folder / "k.cu"
    assert told.document["first_error"]["file"] == str(file)
    assert told.document["first_error"]["text"] == (
        f"{file}(9): error: {job.tree / 'gen.cu'} has no ';'"
    )


POINTNET2 = """from setuptools import setup
setup(python_requires=">=3.7")  # arch
os.environ["TORCH_CUDA_ARCH_LIST"] = "5.0;6.0"
# TORCH_CUDA_ARCH_LIST = "3.7"
os.environ["TORCH_CUDA_ARCH_LIST"] = "3.7+PTX;5.0;6.0;6.1;6.2;7.0;7.5"
"""
GENCODE = "nvcc = ['-O3',\n    '-gencode', 'arch=compute_37,code=sm_37']\n"
NO_37 = "sm_37 is not a target of this profile (12.0)"
PATCH_IT = "remove it with a patch: set patches: [FILE.patch] of extension rast in config"


@pytest.mark.parametrize(
    ("file", "text", "place"),
    [
        ("setup.py", POINTNET2, "setup.py:5"),
        ("python/setup.py", GENCODE, "python/setup.py:2"),
        ("python/flags.py", GENCODE, "python/flags.py:2"),
        (
            "CMakeLists.txt",
            "project(a)\nset(CMAKE_CUDA_ARCHITECTURES\n  37 50)\n",
            "CMakeLists.txt:3",
        ),
        ("setup.py", "version = '3.7'\n", None),
    ],
)
def test_an_arch_that_is_no_target_is_found_in_the_source_of_the_extension(
    tmp_path: Path, profile: Profile, file: str, text: str, place: str | None
) -> None:
    stage = stage_of(profile, "extensions:rast")
    home = tmp_path / "rast"
    job = replace(stage.job, kind="path", location=str(home), subdirectory="python")
    for top in (home, Path(job.tree)):
        (top / "python").mkdir(parents=True)
        (top / file).write_text(text, "utf-8")
    error = failing(tmp_path / "a.log", ARCH.replace("120", "37"))
    told = explain_failure_io.explain_error(
        replace(stage, job=job), error, profile, memory_monitor_io.ObservedMemory()
    )
    assert told is not None
    assert error.cause.endswith("(nvcc-arch-unsupported)")
    if place:
        assert error.hint.startswith(f"{NO_37}. {home / place} names it: {PATCH_IT}")
    else:
        assert error.hint.startswith(f"{NO_37}, but the source of rast in {home} names it: ")


def test_an_arch_of_a_target_or_of_the_settings_is_not_looked_for_in_the_source(
    tmp_path: Path, profile: Profile
) -> None:
    stage = stage_of(profile, "extensions:rast")
    (Path(stage.job.tree)).mkdir(parents=True)
    (Path(stage.job.tree) / "setup.py").write_text(f"{GENCODE}# sm_120\n'sm_120'\n", "utf-8")
    error = failing(tmp_path / "a.log", ARCH)
    explain_failure_io.explain_error(stage, error, profile, memory_monitor_io.ObservedMemory())
    assert "target.gpus" in error.hint
    for change, key in (
        ({"env": {"TORCH_CUDA_ARCH_LIST": "3.7;12.0"}}, "env.TORCH_CUDA_ARCH_LIST"),
        ({"nvcc": ("-gencode=arch=compute_37,code=sm_37",)}, "nvcc"),
    ):
        error = failing(tmp_path / "a.log", ARCH.replace("120", "37"))
        changed = replace(stage, job=replace(stage.job, **change))
        explain_failure_io.explain_error(
            changed, error, profile, memory_monitor_io.ObservedMemory()
        )
        assert error.hint.startswith(f"{NO_37}: remove it from {key} of extension rast in")


def known(profile: Profile, name: str, **facts: Any) -> dict[str, str]:
    return host_hints_io.build_profile_placeholders(
        profile, stage_of(profile, name), RunFacts(**facts)
    )


def failure(slug: str) -> Any:
    return next(one for one in KNOWLEDGE.failures if one.slug == slug and one.here)


def test_a_remedy_names_the_jobs_that_there_were(profile: Profile) -> None:
    said = fill_remedy(failure("oom-killed"), known(profile, "compile", jobs=2))
    assert said.startswith("build.jobs: 1 in config/profiles/mine.yaml (it ran 2 at once with ")


def test_a_remedy_names_the_newest_compiler_here_that_this_nvcc_takes(
    profile: Profile, monkeypatch: pytest.MonkeyPatch, on_system: OnSystem
) -> None:
    on_system("ubuntu-26.04", "ubuntu", "debian")
    there = {"gcc-99": "/bin/gcc-99", "g++-99": "/bin/g++-99", "gcc-12": "/a/gcc-12"}
    monkeypatch.setattr("shutil.which", {**there, "g++-12": "/a/g++-12"}.get)
    said = fill_remedy(failure("unsupported-gnu-version"), known(profile, "compile"))
    assert "build.env.CUDAHOSTCXX: /a/g++-12 in config/profiles/mine.yaml" in said
    monkeypatch.setattr("shutil.which", {}.get)
    said = fill_remedy(failure("unsupported-gnu-version"), known(profile, "compile"))
    gcc = KNOWLEDGE.toolkits[profile.choice.toolkit.version].gcc_max
    assert f"takes GCC up to {gcc}: sudo apt install gcc-{gcc} g++-{gcc}," in said


def test_a_remedy_names_the_compiler_that_crashed(profile: Profile) -> None:
    said = fill_remedy(failure("compiler-crash"), known(profile, "compile", compiler="/a/g++ 12.2"))
    assert "another compiler than /a/g++ 12.2: build.env.CC and build.env.CXX in" in said


def test_a_remedy_names_packages_as_this_system_does(profile: Profile, on_system: OnSystem) -> None:
    headers = failure("python-h-missing")
    on_system("ubuntu-24.04", "ubuntu", "debian")
    said = fill_remedy(headers, known(profile, "compile"))
    assert said.startswith("sudo apt install python3.12-dev")
    on_system("fedora")
    said = fill_remedy(headers, known(profile, "compile"))
    assert said.startswith("sudo dnf install python3.12-devel")
    on_system("nixos")
    assert fill_remedy(headers, known(profile, "compile")) == headers.remedy


def test_a_remedy_names_extension_card_and_tree(profile: Profile) -> None:
    words_here = known(profile, "extensions:rast")
    assert "with rast among extensions" in fill_remedy(failure("rasterizer-cstdint"), words_here)
    assert 'target.gpus: ["12.0"]' in fill_remedy(failure("no-kernel-image"), words_here)
    submodules = failure("missing-submodule-headers")
    assert fill_remedy(submodules, words_here).startswith(
        "submodules: true with rast among extensions"
    )
    tree = known(profile, "compile")["tree"]
    said = fill_remedy(submodules, known(profile, "compile"))
    assert said.startswith(f"git -C {tree} submodule update")


def test_a_remedy_names_the_file_in_which_a_setting_counts(profile: Profile) -> None:
    """config/local.yaml goes before the profile; a list of extensions in another file would take
    the place of the one that there is.
    """
    origin = {"target.gpus": "config/local.yaml:3", "extensions": "config/profiles/mine.yaml:2"}
    there = replace(profile, loaded=replace(profile.loaded, origin=origin))
    assert "in config/local.yaml" in fill_remedy(
        failure("oom-killed"), known(there, "compile", jobs=2)
    )
    said = fill_remedy(failure("rasterizer-cstdint"), known(there, "extensions:rast"))
    assert "among extensions of config/profiles/mine.yaml, then" in said
    assert "build.auto_fix: true in config/local.yaml does" in said
    cell = replace(profile, layout=replace(profile.layout, profile="mine@torch2.15.0"))
    said = fill_remedy(failure("oom-killed"), known(cell, "compile", jobs=2))
    assert "in config/profiles/mine.yaml (" in said


def test_build_heal_is_not_offered_for_a_tree_of_a_person(yard: Path) -> None:
    """It does nothing there (test_healing.py)."""
    mine = yard / "mine"
    mine.mkdir()
    (mine / "setup.py").touch()
    write(yard, f"target: {{gpus: ['12.0']}}\nextensions: [{{name: rast, path: {mine}}}]\n")
    subject = opened(yard, on=HOST)
    assert subject.opened is not None
    submodules = failure("missing-submodule-headers")
    said = fill_remedy(submodules, known(subject.opened, "extensions:rast"))
    assert said == f"git -C {mine} submodule update --init --recursive, then doit build"


def test_every_word_of_a_remedy_is_one_that_a_host_may_know(profile: Profile) -> None:
    full = {*known(profile, "extensions:rast", jobs=8), *known(profile, "compile", jobs=8)}
    full |= {"home", "cc", "cxx", "toolkit_for_archs", "free", "compiler", "own_tree"}  # if there
    full |= {f"install:{name}" for name in KNOWLEDGE.package_managers.names}
    for one in KNOWLEDGE.failures:
        for text in one.here:
            assert find_placeholders(text) <= full, (one.slug, find_placeholders(text) - full)


@each_row("one", KNOWLEDGE.failures, ids=lambda one: str(one.slug))
def test_the_remedy_for_any_other_log_names_no_command_of_torchyard(one: Any) -> None:
    remedy = remove_own_commands(one.remedy)
    assert remedy
    assert "doit" not in remedy
    assert "this machine" not in one.remedy + one.cause


def test_a_toolkit_that_is_here_is_named(profile: Profile) -> None:
    asked = replace(profile.choice.toolkit, version="13.0")
    there = replace(profile, choice=replace(profile.choice, toolkit=asked))
    said = fill_remedy(failure("cuda-home-unset"), known(there, "compile"))
    assert said.startswith("toolkit.path: /opt/cuda in config/profiles/mine.yaml")
    old = replace(profile.choice.toolkit, version="12.4")
    without = replace(profile, choice=replace(profile.choice, toolkit=old))
    said = fill_remedy(failure("nvcc-arch-unsupported"), known(without, "compile"))
    assert said.startswith('toolkit.version: "12.8" in config/profiles/mine.yaml')


def test_a_stage_without_a_room_of_compilers_has_no_jobs(profile: Profile) -> None:
    bare = cast(Stage, SimpleNamespace(job=SimpleNamespace(), room="deps", name="deps"))
    assert explain_failure_io._read_job_count(bare) is None
