"""Tests of known extensions: facts, overrides by the user, and refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks.core.errors import SettingsError
from tasks.core.model import Stage, System
from tasks.knowledge.extension_facts import ExtensionFact
from tasks.stages.extensions.extension_code_io import Project
from tasks.stages.extensions.known_extensions import apply_known_facts
from tasks.stages.extensions.model import ExtensionJob
from tests.support.checkout import RELEASE, ROOT
from tests.support.rows import each_row
from tests.unit.planning.test_decide import KNOWLEDGE, host
from tests.unit.test_plan import plan_of

TORCH_213 = {"version": "2.13.0"}


def stages(*extensions: Any, system: System = "linux", **config: Any) -> dict[str, Stage]:
    plan = plan_of(host(system=system), extensions=list(extensions), **config)
    return {stage.job.name: stage for stage in plan.stages if stage.kind == "extensions"}


def job(*extensions: Any, **config: Any) -> ExtensionJob:
    (stage,) = stages(*extensions, **config).values()
    assert isinstance(stage.job, ExtensionJob)
    return stage.job


def read_error(*extensions: Any, **config: Any) -> str:
    with pytest.raises(SettingsError) as error:
        stages(*extensions, **config)
    return str(error.value)


def test_known_extension_needs_only_its_name() -> None:
    found = job("simple-knn")
    fact = KNOWLEDGE.extensions["simple-knn"]
    assert (found.kind, found.location, found.ref) == ("git", fact.git, "master")
    assert (found.submodules, found.includes) == (False, ("cfloat",))
    assert found.imports == ("simple_knn._C",)
    assert job({"name": "simple-knn"}) == found


def test_extension_name_is_normalized() -> None:
    assert job("Simple_KNN").location == job("simple-knn").location


@each_row("fact", KNOWLEDGE.extensions.values(), ids=lambda fact: fact.name)
def test_every_known_extension_resolves(fact: ExtensionFact) -> None:
    beside = fact.after
    found = stages(fact.name, *beside, torch=TORCH_213)[fact.name].job
    assert found.location == (fact.git or fact.sdist)
    assert found.requires == fact.requires
    assert found.imports == fact.imports


def test_explicit_key_overrides_known_facts() -> None:
    mine = {"name": "simple-knn", "ref": "v2", "imports": ["simple_knn"], "submodules": True}
    found = job(mine)
    assert (found.ref, found.imports, found.submodules) == ("v2", ("simple_knn",), True)
    assert found.location == KNOWLEDGE.extensions["simple-knn"].git
    assert found.includes == ("cfloat",)


def test_other_source_keeps_build_requirements() -> None:
    mirror = job({"name": "simple-knn", "git": "https://mirror.org/simple-knn.git"})
    assert (mirror.location, mirror.ref) == ("https://mirror.org/simple-knn.git", "HEAD")
    assert (mirror.imports, mirror.includes) == (("simple_knn._C",), ("cfloat",))


def test_user_variables_override_known_ones() -> None:
    given = {"name": "flash-attn", "env": {"NVCC_THREADS": "2", "X": "1"}}
    env = job(given, torch=TORCH_213).env
    assert env["FLASH_ATTENTION_FORCE_BUILD"] == "TRUE"
    assert (env["NVCC_THREADS"], env["X"]) == ("2", "1")


@pytest.mark.parametrize(("gpus", "forced"), [(["12.0"], "1"), ([], None)])
def test_cuda_is_forced_for_gpu_targets(gpus: list[str], forced: str | None) -> None:
    for name in ("torch-scatter", "torch-cluster", "torch-spline-conv"):
        assert job(name, target={"gpus": gpus}).env.get("FORCE_CUDA") == forced


@pytest.mark.parametrize(
    ("gpus", "taken"),
    [
        (["12.0"], "120"),
        (["8.9"], "80"),
        (["8.6", "8.9", "9.0"], "80;90"),
        (["12.1"], "120"),
        (["10.3", "12.0"], "100;120"),
    ],
)
def test_setup_py_arch_variable_is_set(gpus: list[str], taken: str) -> None:
    config: dict[str, Any] = {"torch": {**TORCH_213, "strategy": "source"}}
    assert job("flash-attn", target={"gpus": gpus}, **config).env["FLASH_ATTN_CUDA_ARCHS"] == taken
    plain = ";".join(gpu.replace(".", "") for gpu in gpus)
    assert job("fused-ssim", target={"gpus": gpus}, **config).env["CUDA_ARCHITECTURES"] == plain


def test_gpu_unsupported_by_setup_py_is_refused_at_load() -> None:
    assert read_error("flash-attn", target={"gpus": ["7.5"]}, torch=TORCH_213) == (
        "extensions (flash-attn): its setup.py compiles only for 8.0, 9.0, 10.0, 12.0, "
        "not for 7.5\n"
        "  → remove the extension, or remove 7.5 from target.gpus"
    )


def test_nvcc_standard_is_raised_only_if_torch_needs_it() -> None:
    assert job("gsplat").nvcc == ("-std=c++20",)
    assert job("gsplat", torch=TORCH_213).nvcc == ()
    assert job("gsplat", target={"gpus": []}).nvcc == ()


def test_known_broken_extension_is_refused_with_hint() -> None:
    message = read_error("flash-attn")
    assert message.startswith(
        f"extensions (flash-attn): flash-attn does not build with torch {RELEASE}: "
    )
    assert "C++17" in message
    assert "→ set git: https://github.com/Dao-AILab/flash-attention.git and ref: main" in message
    assert job("flash-attn", torch=TORCH_213).location == "flash-attn==2.8.3.post2"


@pytest.mark.parametrize(
    "override",
    [
        {"git": "https://github.com/Dao-AILab/flash-attention.git", "ref": "main"},
        {"path": "/home/me/flash-attention"},
        {"patches": ["cxx20.patch"]},
    ],
)
def test_other_source_or_patch_lifts_known_failure(override: dict[str, Any]) -> None:
    found = job({"name": "flash-attn", **override})
    assert found.env["FLASH_ATTENTION_FORCE_BUILD"] == "TRUE"
    assert (found.own_jobs, found.compiler_mib) == (True, 5300)


def test_known_failure_can_be_limited_to_windows() -> None:
    assert "MSVC" in read_error("flash-attn", system="windows", torch=TORCH_213)
    assert job("flash-attn", torch=TORCH_213)


def test_possible_failure_is_warning() -> None:
    plan = plan_of(host(), extensions=["pytorch3d"])
    assert len(plan.warnings) == 1
    assert plan.warnings[0].startswith(
        f"pytorch3d may not build with torch {RELEASE}: its setup.py"
    )
    assert plan_of(host(), extensions=["pytorch3d"], torch=TORCH_213).warnings == ()


def test_unknown_extension_suggests_closest_name() -> None:
    message = read_error("simpel-knn")
    assert message.startswith(
        'extensions: unknown extension "simpel-knn"; did you mean "simple-knn"?\n'
        "  → set its git, path or sdist, or choose one of: diff-gaussian-rasterization, "
    )


@pytest.mark.parametrize(
    ("sdist", "expected"),
    [
        ("simple-knn==2.0.1", "simple-knn on the package index is a package of another"),
        ("Simple_KNN==2.0.1", "simple-knn on the package index is a package of another"),
        ("simple.knn==2.0.1", "simple-knn on the package index is a package of another"),
        ("fused-ssim==1", "fused-ssim is not on the package index"),
        ("diff_gauss==1", "diff-gauss is not on the package index"),
        ("diff-gaussian-rasterization==0.1", "diff-gaussian-rasterization is not on the package"),
        ("tinycudann==1.7", "tiny-cuda-nn is not on the package index"),
    ],
)
def test_package_of_other_project_is_refused(sdist: str, expected: str) -> None:
    message = read_error({"name": "mine", "sdist": sdist, "imports": ["mine"]})
    assert message.startswith(f"extensions (mine).sdist: {expected}")
    assert "→ set git: https://" in message


def test_release_of_known_extension_is_accepted() -> None:
    assert job({"name": "mine", "sdist": "gsplat==1.5.2"}).location == "gsplat==1.5.2"


def test_requirement_on_package_of_other_project_is_refused() -> None:
    message = read_error({"name": "mine", "path": "mine", "requires": ["fused-ssim>=0.1"]})
    assert message.startswith("extensions (mine).requires: fused-ssim is not on the package index")


def test_two_extensions_with_same_module_are_refused() -> None:
    message = read_error("diff-gaussian-rasterization", "diff-gaussian-rasterization-dr-aa")
    assert "both install the module diff_gaussian_rasterization" in message


def test_known_smoke_check_is_default() -> None:
    mine = {"name": "diff-gaussian-rasterization", "smoke": {"script": "mine.py", "gpu": False}}
    config = plan_of(host(), extensions=["simple-knn", mine]).validate.job.smokes
    found = {name: (smoke.script.name, smoke.gpu) for name, smoke in config.items()}
    assert found == {
        "simple-knn": ("check_simple_knn.py", True),
        "diff-gaussian-rasterization": ("mine.py", False),
    }
    assert config["simple-knn"].script.parent.name == "checks"


def test_every_known_check_file_exists() -> None:
    named = [fact.check for fact in KNOWLEDGE.extensions.values() if fact.check]
    assert named
    assert [name for name in named if not (ROOT / "templates" / "checks" / name).is_file()] == []


def test_facts_of_one_extension_do_not_rebuild_others() -> None:
    mine = {"name": "mine", "path": "mine"}
    assert "nvcc" not in stages(mine)["mine"].fingerprint
    assert stages(mine)["mine"].fingerprint == stages(mine, "gsplat")["mine"].fingerprint


def test_new_fact_rebuilds_extension() -> None:
    known, plain = stages("gsplat")["gsplat"], stages("gsplat", torch=TORCH_213)["gsplat"]
    assert known.fingerprint["nvcc"] == ["-std=c++20"]
    assert "nvcc" not in plain.fingerprint
    assert replace(known.job, nvcc=()) != known.job


def test_key_of_other_source_kind_is_refused() -> None:
    message = read_error({"name": "gsplat", "ref": "v1.5.0"})
    assert "ref does not apply to gsplat==" in message
    assert "remove ref, or set git" in message
    assert "sha256 does not apply to https://" in read_error(
        {"name": "fused-ssim", "sha256": "0" * 64}
    )


@pytest.mark.parametrize(
    ("source", "known"),
    [
        ({"git": "https://github.com/rahul-goel/fused-ssim"}, "fused-ssim"),
        ({"git": "git@github.com:Rahul-Goel/fused-ssim.git", "ref": "0663946"}, "fused-ssim"),
        (
            {
                "git": "https://github.com/graphdeco-inria/diff-gaussian-rasterization",
                "ref": "dr_aa",
            },
            "diff-gaussian-rasterization-dr-aa",
        ),
        ({"sdist": "torch_cluster==1.6.2"}, "torch-cluster"),
        ({"git": "https://github.com/me/ssim"}, ""),
    ],
)
def test_known_source_is_recognized_under_any_name(source: dict[str, str], known: str) -> None:
    assert job({"name": "mine", **source}).known == known


def test_gpu_target_forces_cuda_regardless_of_present_gpus() -> None:
    """Otherwise adding or removing a GPU would rebuild everything."""
    mine = {"name": "mine", "path": "."}
    assert job(mine).env == {"FORCE_CUDA": "1"}
    assert job({**mine, "env": {"FORCE_CUDA": "0"}}).env == {"FORCE_CUDA": "0"}
    assert job({**mine, "cuda": "none"}).env == {}
    assert job(mine, target={"gpus": []}).env == {}


def recognized_as(job: ExtensionJob, folder: Path, setup: str) -> ExtensionJob:
    """Return the job after its source in `folder` was recognized."""
    (folder / "setup.py").write_text(setup, encoding="utf-8")
    project = Project(folder, folder / "setup.py")
    return apply_known_facts(job, project.name, project.variables, KNOWLEDGE)


def test_fetched_source_is_recognized_by_name_and_variables(
    tmp_path: Path,
) -> None:
    mine = job({"name": "mine", "path": "."})
    setup = "library = 'Simple_KNN'\nsetuptools.setup(name=library)"
    found = recognized_as(mine, tmp_path, setup)
    assert (found.known, found.includes) == ("simple-knn", ("cfloat",))
    found = recognized_as(mine, tmp_path, "setup(name='tinycudann')")
    assert found.requires == ("setuptools<82",)
    assert found.env["TCNN_CUDA_ARCHITECTURES"] == "120"
    found = recognized_as(mine, tmp_path, "a = os.environ.get('CUDA_ARCHITECTURES')")
    assert (found.known, found.env["CUDA_ARCHITECTURES"]) == ("", "120")
    own = replace(mine, env={"CUDA_ARCHITECTURES": "89;120"})
    assert recognized_as(own, tmp_path, "a = os.environ['CUDA_ARCHITECTURES']") == own
    assert recognized_as(mine, tmp_path, "os.environ['CUDA_ARCHITECTURES'] = ''") == mine


@pytest.mark.parametrize(
    ("file", "text", "name"),
    [
        ("pyproject.toml", '[project]\nname = "of-toml"', "of-toml"),
        ("setup.cfg", "[metadata]\nname = of-cfg", "of-cfg"),
        ("setup.py", "Extension(name='_C')\nsetup(name='of-setup')", "of-setup"),
        ("setup.py", "setup(name=f())", ""),
        ("setup.py", "print 'not python 3'", ""),
        ("PKG-INFO", "Metadata-Version: 2.1\nName: of-info\n", "of-info"),
        ("pyproject.toml", "= broken", ""),
    ],
)
def test_project_name_is_read_without_running_setup(
    tmp_path: Path, file: str, text: str, name: str
) -> None:
    (tmp_path / file).write_text(text, encoding="utf-8")
    assert Project(tmp_path, tmp_path / "setup.py").name == name


def test_no_check_hides_the_module_that_it_imports() -> None:
    """Python looks for modules in the folder of the script first."""
    checks = ROOT / "templates" / "checks"
    modules = {name.replace("-", "_") for name in KNOWLEDGE.extensions}
    assert not modules & {path.stem for path in checks.glob("*.py")}
