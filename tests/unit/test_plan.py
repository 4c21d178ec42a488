"""The plan: the stages of each strategy, what causes a rerun, and equality on all systems."""

from __future__ import annotations

import json
import shutil
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any

import pytest

from tasks.core.canonical_json import convert_to_json, format_canonical_json
from tasks.core.errors import SettingsError
from tasks.core.model import Host, Plan, Stage, System
from tasks.core.project import Project
from tasks.core.resolution import Resolution
from tasks.planning.profile_plan import STAGE_KINDS, build_layout, make_plan
from tasks.settings.layers_io import list_profiles, load_settings
from tasks.settings.schema import Settings, parse_settings
from tests.support.checkout import RELEASE, pin_torch
from tests.unit.planning.test_decide import CUDA_124, H200, KNOWLEDGE, existing, host

CONFIG = Path(__file__).parents[2] / "config"
ROOTS: dict[System, PurePath] = {
    "linux": PurePosixPath("/yard"),
    "windows": PureWindowsPath("C:\\ty"),
    "macos": PurePosixPath("/Users/me/yard"),
}
INSTALL = {"install": "install.into is not set"}
SMOKE = {"name": "smoke", "path": "templates/smoke"}
PROJECT = Project.of_checkout(CONFIG.parent)
SHIPPED = [name for name in list_profiles(PROJECT) if not name.startswith("local-")]


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Settings]:
    """Load every profile as shipped, without local.yaml."""
    config = tmp_path_factory.mktemp("yard") / "config"
    (config / "profiles").mkdir(parents=True)
    for name in ("default", *(f"profiles/{name}" for name in SHIPPED)):
        shutil.copy(CONFIG / f"{name}.yaml", config / f"{name}.yaml")
    project = Project.of_checkout(config.parent)
    return {name: load_settings(project, name, {}).settings for name in SHIPPED}


def planned(on: Host, settings: Settings, profile: str = "p") -> tuple[Resolution, Plan]:
    layout = build_layout(Project.of_checkout(ROOTS[on.system]), profile, settings)
    return make_plan(settings, on, KNOWLEDGE, layout)


def plan_of(on: Host, **settings: Any) -> Plan:
    return planned(on, parse_settings(pin_torch(settings)))[1]


def names(plan: Plan) -> list[str]:
    return [stage.name for stage in plan.stages]


def every_stage(plan: Plan) -> tuple[Stage, ...]:
    return (*plan.stages, plan.validate)


def test_prebuilt_has_no_source_and_no_compile() -> None:
    plan = plan_of(host(), extensions=[SMOKE])
    assert names(plan) == ["deps", "env", "wheel", "extensions:smoke"]
    torch = dict.fromkeys(("source", "compile"), "strategy prebuilt builds no torch")
    assert plan.absent == {**torch, **INSTALL}


def test_source_has_every_stage() -> None:
    plan = plan_of(host(), torch={"strategy": "source"}, extensions=[SMOKE])
    assert names(plan) == ["deps", "source", "env", "compile", "wheel", "extensions:smoke"]
    assert plan.absent == INSTALL


def test_existing_installs_no_torch_and_creates_no_venv() -> None:
    plan = plan_of(existing("2.11.0+cu130", "13.0"), torch={"strategy": "existing"})
    assert names(plan) == ["deps", "env", "wheel"]
    assert plan.absent["compile"] == "strategy existing builds no torch"
    deps, _, wheel = plan.stages
    assert deps.extra_outputs == (
        PurePosixPath("/yard/build/p/overlay"),
        PurePosixPath("/yard/build/p/cuda/bin/nvcc"),
    )
    assert type(wheel.job).__name__ == "ExistingJob"


def test_plan_without_extensions_states_it() -> None:
    plan = plan_of(host())
    assert plan.absent["extensions"] == "this profile lists no extensions"


def test_partial_build_ends_at_compile() -> None:
    plan = plan_of(host(), build={"target": "c10"}, extensions=[SMOKE])
    assert names(plan) == ["deps", "source", "env", "compile"]
    reason = "build.target c10 builds a part of PyTorch, which has no wheel"
    assert plan.absent == dict.fromkeys(("wheel", "extensions", "install", "validate"), reason)


def test_every_stage_is_planned_or_listed_as_absent(shipped: dict[str, Settings]) -> None:
    on = host(toolkits=(CUDA_124,))
    for settings in shipped.values():
        plan = planned(on, settings)[1]
        rooms = {stage.kind for stage in every_stage(plan)}
        assert rooms | set(plan.absent) == set(STAGE_KINDS)


def test_extensions_require_torch_for_python() -> None:
    with pytest.raises(SettingsError) as found:
        plan_of(
            host(),
            torch={"strategy": "source"},
            build={"backend": "cmake"},
            extensions=[SMOKE],
        )
    assert str(found.value) == (
        "extensions: backend cmake builds no torch for Python, which smoke needs\n"
        "  → remove the extensions, or choose another build.backend"
    )


@pytest.mark.parametrize(
    ("requested", "instead"),
    [
        ({"strategy": "source"}, "built here"),
        ({"strategy": "auto"}, "built here"),  # no official wheel has custom flags
        ({"strategy": "existing"}, "the one of the Python in python"),
    ],
)
def test_local_version_requires_a_source_build(requested: dict[str, str], instead: str) -> None:
    on = existing("2.15.0", "13.0")
    settings: dict[str, Any] = {"torch": requested, "build": {"flags": {"USE_NCCL": False}}}
    assert plan_of(on, **settings)
    settings["torch"] = {**requested, "local": "cu124.sm90"}
    with pytest.raises(SettingsError, match=rf"^torch.local: .* this torch is {instead}\n"):
        plan_of(on, **settings)


def test_headline_states_what_why_and_where() -> None:
    assert plan_of(host()).headline == (
        ("profile", "p"),
        ("strategy", f"prebuilt: PyPI's torch {RELEASE} (CUDA 13.2) holds sm_120"),
        ("target", "12.0 (sm_120): no NVIDIA GPU found, RTX 5090 assumed"),
        ("torch", f"{RELEASE} (CUDA 13.2)"),
        ("toolkit", "CUDA 13.2 from Python packages"),
        ("into", "/yard/build/p, wheels in /yard/wheelhouse"),
    )


def test_headline_of_cpu_build_has_no_toolkit() -> None:
    result = dict(plan_of(host(), target={"gpus": []}).headline)
    assert result["target"] == "CPU: target.gpus is empty"
    assert result["torch"] == f"{RELEASE} (CPU)"
    assert result["toolkit"] == "none: a CPU build needs none"


@pytest.mark.parametrize("system", ["linux", "windows", "macos"])
@pytest.mark.parametrize("name", ["quickstart", "cpu", "libtorch-debug", "debian-trixie-cpu"])
def test_profiles_without_system_toolkit_plan_on_every_system(
    shipped: dict[str, Settings], name: str, system: System
) -> None:
    machine = "arm64" if system == "macos" else "x86_64"
    choice, plan = planned(host(system=system, machine=machine), shipped[name], name)
    assert choice.system == system
    assert_within(plan, ROOTS[system])


@pytest.mark.parametrize("system", ["linux", "windows"])
@pytest.mark.parametrize(
    "name", ["rtx5090", "rtx5090-source", "windows-rtx5090", "cuda124-torch25"]
)
def test_cuda_profiles_plan_on_linux_and_windows(
    shipped: dict[str, Settings], name: str, system: System
) -> None:
    choice, plan = planned(host(system=system, toolkits=(CUDA_124,)), shipped[name], name)
    expected = "8.9" if name == "cuda124-torch25" else "12.0"
    assert [str(arch) for arch in choice.targets] == [expected]
    assert_within(plan, ROOTS[system])


@pytest.mark.parametrize(
    "name", ["rtx5090", "rtx5090-source", "windows-rtx5090", "cuda124-torch25"]
)
def test_cuda_profiles_are_refused_on_macos(shipped: dict[str, Settings], name: str) -> None:
    with pytest.raises(SettingsError, match="macOS has no CUDA builds") as caught:
        planned(host(system="macos", machine="arm64"), shipped[name], name)
    assert (caught.value.location, caught.value.hint) == ("target.gpus", "set target.gpus: []")


def assert_within(plan: Plan, root: PurePath) -> None:
    """Require that every manifest is a path of that system in the profile's directory."""
    for stage in every_stage(plan):
        for path in (*stage.outputs, *stage.extra_outputs, *stage.inputs):
            assert type(path) is type(root)
            assert path.is_relative_to(root / "build")


def test_windows_plan_has_windows_paths_and_scripts(shipped: dict[str, Settings]) -> None:
    _, plan = planned(host(system="windows"), shipped["windows-rtx5090"], "w")
    stages = {stage.name: stage for stage in plan.stages}
    smoke = stages["extensions:smoke"]
    assert str(smoke.outputs[0]) == r"C:\ty\build\w\extensions\smoke.json"
    assert smoke.job.location == r"C:\ty\templates\smoke"
    scripts = ("env.bat", "env.ps1", "run.bat", "run.ps1")
    assert [str(path) for path in stages["env"].extra_outputs] == [
        rf"C:\ty\build\w\{n}" for n in scripts
    ]
    assert str(stages["wheel"].job.wheelhouse) == r"C:\ty\wheelhouse"
    assert dict(plan.headline)["into"] == r"C:\ty\build\w, wheels in C:\ty\wheelhouse"


@pytest.mark.parametrize("name", SHIPPED)
def test_fingerprints_are_json_and_reproducible(shipped: dict[str, Settings], name: str) -> None:
    on = host(toolkits=(CUDA_124,))
    first, second = (planned(on, shipped[name])[1] for _ in range(2))
    assert first == second
    for stage in every_stage(first):
        assert json.loads(format_canonical_json(stage.fingerprint)) == convert_to_json(
            stage.fingerprint
        )
        assert stage.fingerprint["recipe"]


def inputs(**settings: Any) -> dict[str, Any]:
    base = {
        "target": {"gpus": ["12.0"]},
        "torch": {"strategy": "source"},
        "extensions": [SMOKE, {"name": "far", "git": "https://a.org/far.git", "optional": True}],
    }
    plan = plan_of(host(), **{**base, **settings})
    return {stage.name: convert_to_json(stage.fingerprint) for stage in every_stage(plan)}


def changed(**settings: Any) -> set[str]:
    before, after = inputs(), inputs(**settings)
    return {name for name in before if before[name] != after[name]}


def test_settings_without_effect_on_outputs_cause_no_rerun() -> None:
    assert changed(build={"jobs": 3}) == set()
    assert changed(source={"mirrors": {"https://a.org/": "https://b.org/"}}) == set()
    assert changed(validation={"timeout": 5}) == set()
    required = [SMOKE, {"name": "far", "git": "https://a.org/far.git"}]
    assert changed(extensions=required) == set()


def test_logs_and_job_counts_are_not_in_the_fingerprint() -> None:
    assert ".log" not in format_canonical_json(inputs(build={"jobs": 98765}))
    assert "98765" not in format_canonical_json(inputs(build={"jobs": 98765}))


def test_settings_that_change_outputs_rerun_affected_stages() -> None:
    assert changed(build={"flags": {"USE_NCCL": False}}) == {"env", "compile"}
    assert changed(source={"ref": "main"}) == {"source"}
    assert "compile" in changed(target={"gpus": ["12.0", "9.0"]})
    assert changed(wheel={"local_version": "mine"}) == {"wheel"}
    renamed = [{**SMOKE, "includes": ["cfloat"]}, inputs_far()]
    assert changed(extensions=renamed) == {"extensions:smoke"}


def inputs_far() -> dict[str, Any]:
    return {"name": "far", "git": "https://a.org/far.git", "optional": True}


def test_gpu_and_driver_changes_cause_no_rerun_with_named_targets() -> None:
    settings = parse_settings({"target": {"gpus": ["12.0"]}})
    assert planned(host(), settings)[1] == planned(host(H200), settings)[1]


def test_source_build_names_its_source_tree() -> None:
    settings = {"torch": {"strategy": "source"}, "target": {"gpus": []}}
    git = {"git": "https://example.org/t.git", "ref": "v1", "patches": ["a.patch", "b.patch"]}
    result = dict(plan_of(host(), **settings, source=git).headline)
    assert result["source"] == "https://example.org/t.git at v1, with 2 patches"
    result = dict(plan_of(host(), **settings, source={"path": "/src/pytorch"}).headline)
    assert result["source"] == "/src/pytorch"
    assert "source" not in dict(plan_of(host(), target={"gpus": []}).headline)
