"""The explanation of a failed stage: first real error, cause, suggested fix and log."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

import pytest

from tasks.core.errors import CommandFailedError, FetchError, TorchyardError
from tasks.core.model import Command, Host, InstalledToolkit, InstalledTorch, Interpreter, Stage
from tasks.diagnosis.diagnosis_text import fill_remedy, find_placeholders
from tasks.diagnosis.log_io import parse_log
from tasks.diagnosis.run_facts import RunFacts
from tasks.doctor import explain_failure_io
from tasks.lock.opened_profile_io import Profile
from tasks.runlog import memory_monitor_io
from tasks.system import shell
from tasks.system.files import write_atomic
from tasks.system.invocation import add_profile_argument
from tests.support.checkout import CARD, KNOWLEDGE, OnSystem, opened, write
from tests.support.rows import each_row

SECTIONS = "target|toolkit|source|build|runtime|validation|install"  # of the settings
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
    """Return the error of a command that prints these lines and exits with this code."""
    text = "\n".join(said)
    argv = (sys.executable, "-c", f"print({text!r}); raise SystemExit({code})")
    with pytest.raises(CommandFailedError) as caught:
        shell.run_command(Command(argv, shell.build_host_env(), "compile PyTorch", log=log))
    return caught.value


def explained(profile: Profile, error: TorchyardError, name: str = "compile") -> str:
    with memory_monitor_io.MEMORY_MONITOR.observe_memory() as seen:
        explain_failure_io.explain_error(stage_of(profile, name), error, profile, seen)
    return str(error)


def test_explanation_lists_error_cause_fix_and_log_in_order(
    tmp_path: Path, profile: Profile
) -> None:
    log = tmp_path / "compile.log"
    log.write_text("$ /bin/ninja\na.cu: error: of an older try\n", encoding="utf-8")
    error = failing(log, "[1/2] nvcc -c k.cu", "FAILED: k.o", ARCH, "ninja: build stopped: x.")
    lines = explained(profile, error).splitlines()
    assert lines[0] == f"{log}:6: compile PyTorch failed (exit 1): {ARCH}"
    assert lines[1].startswith("  cause: this CUDA toolkit does not support a requested arch")
    assert lines[2].startswith("  → ")
    assert lines[3:] == [f"  the whole log: {log}"]
    assert error.diagnosis is not None
    assert error.diagnosis["cause"] == "nvcc-arch-unsupported"
    assert error.diagnosis["first_error"]["log_line"] == 6


def test_run_facts_are_stored_beside_log(tmp_path: Path, profile: Profile) -> None:
    log = tmp_path / "compile.log"
    deps = Path(profile.layout.compute_manifest_path("deps"))
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
def test_every_stage_kind_explains_its_failed_command(
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
    deps = Path(subject.opened.layout.compute_manifest_path("deps"))
    write_atomic(deps, '{"cxx": {"path": "/a/g++", "version": "12.2"}}')
    for stage in kinds:
        log = tmp_path / f"{stage.kind}.log"
        error = failing(log, "error: could not write to 'a.so': No space left on device")
        with memory_monitor_io.MEMORY_MONITOR.observe_memory() as seen:
            explanation = explain_failure_io.explain_error(stage, error, subject.opened, seen)
        assert explanation is not None
        assert error.cause.startswith("a disk is full"), stage.name
        facts = memory_monitor_io.read_facts(log)
        assert facts is not None
        if stage.kind in {"compile", "wheel", "validate"}:
            assert facts.compiler == "/a/g++ 12.2"
        if stage.kind == "extensions":
            assert not facts.compiler


def test_handwritten_hint_is_kept(tmp_path: Path, profile: Profile) -> None:
    error = failing(tmp_path / "a.log", "a.s: fatal error: No space left on device")
    error.hint = "the disk is full (disk-full): free some room"
    said = explained(profile, error)
    assert said.count("disk-full") == 1
    assert "  → the disk is full (disk-full): free some room" in said


class Roomy(memory_monitor_io.ObservedMemory):
    """Observed memory facts that report enough free memory."""

    def collect_facts(self, log: Path) -> RunFacts:
        return RunFacts(size=log.stat().st_size, kills=0, lowest_mib=23_000, limit_mib=24_000)


def test_facts_override_handwritten_hint(tmp_path: Path, profile: Profile) -> None:
    error = failing(tmp_path / "a.log", "FAILED: a.o", "Killed")
    error.hint = "a.o needs more memory than there is (oom-killed): close other programs"
    explain_failure_io.explain_error(stage_of(profile, "compile"), error, profile, Roomy())
    assert error.cause.startswith("a user or a time limit interrupted")
    assert "memory" not in error.hint
    assert error.hint.startswith("run the same command again")


def test_error_caused_by_command_is_explained_from_its_log(
    tmp_path: Path, profile: Profile
) -> None:
    log = tmp_path / "source.log"
    cause = failing(log, "fatal: unable to access 'https://x.example/': Could not resolve host: x")
    error = FetchError("u cannot be fetched", location=cause.location, hint="check the network")
    error.__cause__ = cause
    lines = explained(profile, error, "source").splitlines()
    assert lines[0].endswith(": u cannot be fetched")
    assert lines[1].startswith("  cause: git could not reach its server")
    assert lines[2] == "  → check the network"


def test_unknown_cause_is_reported_with_log_location(tmp_path: Path, profile: Profile) -> None:
    error = failing(tmp_path / "a.log", "terminate called without an active exception: error: 7")
    lines = explained(profile, error).splitlines()
    log = tmp_path / "a.log"
    assert lines[1:] == [
        "  cause: unknown",
        f"  → read the lines around {log}:2",
        f"  the whole log: {log}",
    ]


@pytest.mark.parametrize("gutter", [("  408 |", "      |"), ("", "")])
def test_source_excerpt_from_compiler_is_shown(
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
    assert lines[4].startswith("  cause: ")


def test_commands_in_suggestion_name_profile(
    tmp_path: Path, profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = 'k.cu(9): error: identifier "uint32_t" is undefined'
    explanation = explained(profile, failing(tmp_path / "a.log", said), "extensions:rast")
    assert (
        "then run doit build profile=mine; build.auto_fix: true in config/profiles/mine.yaml"
        in explanation
    )
    monkeypatch.setenv("TORCHYARD_PROFILE", "mine")
    explanation = explained(profile, failing(tmp_path / "a.log", said), "extensions:rast")
    assert "then run doit build; build.auto_fix" in explanation


@each_row(
    ("todo", "expected"),
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
def test_doit_command_in_sentence_gets_profile(todo: str, expected: str) -> None:
    assert add_profile_argument(todo, "p") == expected


@pytest.mark.parametrize(
    "error",
    [
        TorchyardError("it is wrong", location="config/local.yaml", hint="mend it"),
        CommandFailedError("git failed", code=1),
        CommandFailedError("git failed", code=1, location="/no/such.log:3"),
    ],
)
def test_error_without_log_is_unchanged(profile: Profile, error: TorchyardError) -> None:
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
def test_error_names_user_file_instead_of_build_copy(
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
    explanation = explain_failure_io.explain_log(
        parse_log(log), KNOWLEDGE, None, profile, replace(stage, job=job)
    )
    file = folder / "k.cu"
    assert explanation.document["first_error"]["file"] == str(file)
    assert explanation.document["first_error"]["text"] == (
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
def test_untargeted_arch_is_located_in_extension_source(
    tmp_path: Path, profile: Profile, file: str, text: str, place: str | None
) -> None:
    stage = stage_of(profile, "extensions:rast")
    home = tmp_path / "rast"
    job = replace(stage.job, kind="path", location=str(home), subdirectory="python")
    for top in (home, Path(job.tree)):
        (top / "python").mkdir(parents=True)
        (top / file).write_text(text, "utf-8")
    error = failing(tmp_path / "a.log", ARCH.replace("120", "37"))
    explanation = explain_failure_io.explain_error(
        replace(stage, job=job), error, profile, memory_monitor_io.ObservedMemory()
    )
    assert explanation is not None
    assert error.cause.startswith("this CUDA toolkit does not support a requested arch")
    if place:
        assert error.hint.startswith(f"{NO_37}. {home / place} names it: {PATCH_IT}")
    else:
        assert error.hint.startswith(f"{NO_37}, but the source of rast in {home} names it: ")


def test_arch_from_targets_or_settings_is_not_searched_in_source(
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
    return explain_failure_io.build_profile_placeholders(
        profile, stage_of(profile, name), RunFacts(**facts)
    )


def failure(slug: str) -> Any:
    return next(one for one in KNOWLEDGE.failures if one.slug == slug and one.here)


def test_suggestion_names_job_count_of_failed_run(profile: Profile) -> None:
    said = fill_remedy(failure("oom-killed"), known(profile, "compile", jobs=2))
    assert said.startswith(
        "set build.jobs: 1 in config/profiles/mine.yaml: 2 jobs ran at once with "
    )


def test_suggestion_names_newest_installed_compiler_nvcc_accepts(
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
    assert said.startswith(f"sudo apt install gcc-{gcc} g++-{gcc},")
    assert f"supports GCC up to {gcc}." in said


def test_suggestion_names_crashed_compiler(profile: Profile) -> None:
    said = fill_remedy(failure("compiler-crash"), known(profile, "compile", compiler="/a/g++ 12.2"))
    assert "set build.env.CC and build.env.CXX in config/profiles/mine.yaml to a compiler" in said
    assert said.endswith("other than /a/g++ 12.2")


def test_suggestion_names_packages_of_this_system(profile: Profile, on_system: OnSystem) -> None:
    headers = failure("python-h-missing")
    on_system("ubuntu-24.04", "ubuntu", "debian")
    said = fill_remedy(headers, known(profile, "compile"))
    assert said.startswith("sudo apt install python3.12-dev")
    on_system("fedora")
    said = fill_remedy(headers, known(profile, "compile"))
    assert said.startswith("sudo dnf install python3.12-devel")
    on_system("nixos")
    assert fill_remedy(headers, known(profile, "compile")) == "\n".join(headers.remedy)


def test_suggestion_names_extension_gpu_and_tree(profile: Profile) -> None:
    words_here = known(profile, "extensions:rast")
    assert "for rast under extensions" in fill_remedy(failure("rasterizer-cstdint"), words_here)
    assert 'target.gpus: ["12.0"]' in fill_remedy(failure("no-kernel-image"), words_here)
    submodules = failure("missing-submodule-headers")
    assert fill_remedy(submodules, words_here).startswith(
        "set submodules: true for rast under extensions"
    )
    tree = known(profile, "compile")["tree"]
    said = fill_remedy(submodules, known(profile, "compile"))
    assert said.startswith(f"run git -C {tree} submodule update")


def test_suggestion_names_file_that_sets_the_key(profile: Profile) -> None:
    """config/local.yaml overrides the profile. A list there would replace the extensions."""
    origin = {"target.gpus": "config/local.yaml:3", "extensions": "config/profiles/mine.yaml:2"}
    there = replace(profile, loaded=replace(profile.loaded, origin=origin))
    assert "in config/local.yaml" in fill_remedy(
        failure("oom-killed"), known(there, "compile", jobs=2)
    )
    said = fill_remedy(failure("rasterizer-cstdint"), known(there, "extensions:rast"))
    assert "under extensions in config/profiles/mine.yaml, then" in said
    assert "build.auto_fix: true in config/local.yaml does" in said
    cell = replace(profile, layout=replace(profile.layout, profile="mine@torch2.15.0"))
    said = fill_remedy(failure("oom-killed"), known(cell, "compile", jobs=2))
    assert "in config/profiles/mine.yaml: 2 jobs" in said


def test_auto_fix_is_not_suggested_for_user_tree(yard: Path) -> None:
    """Auto-fix never changes a user's tree (test_auto_fix.py)."""
    mine = yard / "mine"
    mine.mkdir()
    (mine / "setup.py").touch()
    write(yard, f"target: {{gpus: ['12.0']}}\nextensions: [{{name: rast, path: {mine}}}]\n")
    subject = opened(yard, on=HOST)
    assert subject.opened is not None
    submodules = failure("missing-submodule-headers")
    said = fill_remedy(submodules, known(subject.opened, "extensions:rast"))
    assert said == f"run git -C {mine} submodule update --init --recursive, then run doit build"


def test_every_placeholder_in_suggestions_can_be_filled(profile: Profile) -> None:
    full = {*known(profile, "extensions:rast", jobs=8), *known(profile, "compile", jobs=8)}
    full |= {
        "home",
        "cc",
        "cxx",
        "toolkit_for_archs",
        "free",
        "compiler",
        "own_tree",
    }  # known only on some hosts
    full |= {f"install:{name}" for name in KNOWLEDGE.package_managers.names}
    for one in KNOWLEDGE.failures:
        for text in one.here:
            assert find_placeholders(text) <= full, (one.slug, find_placeholders(text) - full)


@each_row("one", KNOWLEDGE.failures, ids=lambda one: str(one.slug))
def test_generic_fix_contains_no_torchyard_command(one: Any) -> None:
    remedy = "\n".join(one.remedy)
    own = re.search(rf"doit |torchyard|docs/|(?<![\w.])(?:{SECTIONS})\.[a-z_]+:? |PROFILE", remedy)
    assert own is None, own
    assert "this machine" not in remedy + one.cause
    assert all(step[0].islower() and not step.endswith(".") for step in one.remedy)


@each_row("one", KNOWLEDGE.failures, ids=lambda one: str(one.slug))
def test_own_remedy_without_placeholders_is_the_last(one: Any) -> None:
    assert all(find_placeholders(text) for text in one.here[:-1])


def test_suggestion_names_installed_toolkit(profile: Profile) -> None:
    asked = replace(profile.choice.toolkit, version="13.0")
    there = replace(profile, choice=replace(profile.choice, toolkit=asked))
    said = fill_remedy(failure("cuda-home-unset"), known(there, "compile"))
    assert said.startswith("set toolkit.path: /opt/cuda in config/profiles/mine.yaml")
    old = replace(profile.choice.toolkit, version="12.4")
    without = replace(profile, choice=replace(profile.choice, toolkit=old))
    said = fill_remedy(failure("nvcc-arch-unsupported"), known(without, "compile"))
    assert said.startswith('set toolkit.version: "12.8" in config/profiles/mine.yaml')


def test_stage_without_compilers_has_no_job_count(tmp_path: Path, profile: Profile) -> None:
    log = tmp_path / "deps.log"
    explained(profile, failing(log, "fatal error: no such package"), "deps")
    facts = memory_monitor_io.read_facts(log)
    assert facts is not None
    assert facts.jobs is None
