"""torchvision, torchaudio and triton: fetched or built, for every torch and strategy."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.core.errors import SettingsError
from tasks.core.model import Host, InstalledToolkit, InstalledTorch, Stage
from tasks.knowledge.versions import parse_major_minor
from tasks.planning.resolve import resolve_settings
from tasks.settings.schema import parse_settings
from tasks.stages.companions import Companion, resolve_companions
from tests.support.checkout import pin_torch
from tests.support.newest import NEXT_TORCH
from tests.support.rows import each_row
from tests.unit.planning.test_decide import KNOWLEDGE, host
from tests.unit.test_plan import plan_of

RELEASES = tuple(KNOWLEDGE.releases.values())
ALIVE = tuple(found for found in RELEASES if found.torchaudio)
ENDED = tuple(found for found in RELEASES if not found.torchaudio)
CUDA_13 = {"toolkit": {"provider": "pypi", "version": "13.0"}}


def of(on: Host, *names: str, **requested: Any) -> tuple[Companion, ...]:
    settings = parse_settings(pin_torch({"companions": list(names), **requested}))
    return resolve_companions(settings, resolve_settings(settings, on, KNOWLEDGE), KNOWLEDGE)


def resolve_companion(on: Host, name: str, **settings: Any) -> Companion:
    (found,) = of(on, name, **settings)
    return found


def refused(on: Host, name: str, **settings: Any) -> str:
    with pytest.raises(SettingsError) as error:
        of(on, name, **settings)
    return str(error.value)


def prebuilt(patch: str) -> dict[str, Any]:
    """Return settings for an official wheel and a GPU that every release supports."""
    return {"torch": {"strategy": "prebuilt", "version": patch}, "target": {"gpus": ["8.0"]}}


def source(patch: str, **tree: Any) -> dict[str, Any]:
    """Return settings for a source build with a toolkit from PyPI."""
    torch = {"strategy": "source", "version": patch}
    return {"torch": torch, "target": {"gpus": ["8.0"]}, "source": tree, **CUDA_13}


def python_of(release: Any) -> str:
    return f"{release.python[1]}.0"


def there(version: str, cuda: str | None = "13.0", **more: Any) -> Host:
    return host(torch=InstalledTorch(version, cuda, "/s/torch"), **more)


@each_row("release", RELEASES, ids=lambda found: found.minor)
def test_official_torch_has_fetched_companions(release: Any) -> None:
    on = host(python=python_of(release))
    requested = prebuilt(release.patch)
    settings = parse_settings({"companions": ["torchvision"], **requested})
    index = resolve_settings(settings, on, KNOWLEDGE).index
    vision, triton = of(on, "torchvision", "triton", **requested)
    assert (vision.strategy, vision.requirement) == ("wheel", f"torchvision{release.torchvision}")
    assert vision.index == index
    assert triton.strategy == "with torch"
    assert release.triton in triton.why


@each_row("release", RELEASES, ids=lambda found: found.minor)
def test_built_torch_has_built_libraries_and_fetched_triton(release: Any) -> None:
    on = host(python=python_of(release))
    vision, triton = of(on, "torchvision", "triton", **source(release.patch))
    if parse_major_minor(release.minor) >= (2, 14):
        assert (vision.strategy, vision.requirement) == ("wheel", "torchvision==0.29.2")
        assert "stable ABI" in vision.why
        assert vision.why.endswith("; not verified with a torch that is not an official wheel")
    else:
        version = release.torchvision.removeprefix("==")
        assert (vision.strategy, vision.ref, vision.version) == ("git", f"v{version}", version)
    assert (triton.strategy, triton.requirement) == ("wheel", f"triton{release.triton}")
    assert (triton.index, triton.pinned) == ("", False)


@each_row("release", RELEASES, ids=lambda found: found.minor)
def test_existing_official_torch_has_fetched_companions(release: Any) -> None:
    digits = release.pypi_cuda.replace(".", "")
    on = there(f"{release.patch}+cu{digits}", release.pypi_cuda, python=python_of(release))
    settings = {"torch": {"strategy": "existing"}, "target": {"gpus": ["8.0"]}}
    vision, triton = of(on, "torchvision", "triton", **settings)
    assert (vision.strategy, vision.requirement) == ("wheel", f"torchvision{release.torchvision}")
    assert vision.index == ""
    assert triton.strategy == "with torch"


@each_row("release", ALIVE, ids=lambda found: found.minor)
def test_torchaudio_is_found_for_every_torch_that_has_one(release: Any) -> None:
    on = host(python=python_of(release))
    fetched = resolve_companion(on, "torchaudio", **prebuilt(release.patch))
    assert (fetched.strategy, fetched.requirement) == ("wheel", f"torchaudio{release.torchaudio}")
    built = resolve_companion(on, "torchaudio", **source(release.patch))
    assert (built.strategy, built.ref) == ("git", f"v{release.torchaudio.removeprefix('==')}")


@each_row("release", ENDED, ids=lambda found: found.minor)
@each_row("requested", [prebuilt, source])
def test_discontinued_torchaudio_is_refused_at_load(release: Any, requested: Any) -> None:
    message = refused(host(python=python_of(release)), "torchaudio", **requested(release.patch))
    assert message == (
        "companions: torchaudio 2.11.0 is the last release and supports torch 2.11, not torch "
        f'{release.patch}\n  → remove torchaudio from companions, or set torch.version: "2.11.0"'
    )


@pytest.mark.parametrize(
    ("torch", "vision", "audio", "triton"),
    [
        ("2.0.0", "==0.15.1", "==2.0.1", "==2.0.0"),
        ("2.1.1", "==0.16.1", "==2.1.1", "==2.1.0"),
        ("2.7.0", "==0.22.0", "==2.7.0", "==3.3.0"),
        ("2.9.0", "==0.24.0", "==2.9.0", "==3.5.0"),
    ],
)
def test_older_patch_release_has_its_own_companion_versions(
    torch: str, vision: str, audio: str, triton: str
) -> None:
    on = host(python="3.11.4")
    found = of(on, "torchvision", "torchaudio", **prebuilt(torch))
    settings = [f"torchvision{vision}", f"torchaudio{audio}"]
    assert [each.requirement for each in found] == settings
    assert resolve_companion(on, "triton", **source(torch)).requirement == f"triton{triton}"


@pytest.mark.parametrize(
    ("version", "cuda", "index"),
    [
        ("2.15.0+cu130", "13.0", "https://download.pytorch.org/whl/cu130"),
        ("2.15.0+cu132", "13.2", ""),
        ("2.7.1+cu128", "12.8", "https://download.pytorch.org/whl/cu128"),
        ("2.15.0+cpu", None, "https://download.pytorch.org/whl/cpu"),
    ],
)
def test_existing_official_torch_is_recognized_by_its_version(
    version: str, cuda: str | None, index: str
) -> None:
    found = resolve_companion(there(version, cuda), "torchvision", torch={"strategy": "existing"})
    assert (found.strategy, found.index) == ("wheel", index)


@pytest.mark.parametrize(
    "version",
    [
        "2.7.1",
        "2.7.1+cu128.sm120.g1a2b3c4",
        "2.6.0+debian",
        "2.7.0a0+79aa174.nv25.4",
        "2.7.1.post3",
    ],
)
def test_companion_of_unofficial_existing_torch_is_built(version: str) -> None:
    requested: dict[str, Any] = {"torch": {"strategy": "existing"}, "target": {"gpus": ["9.0"]}}
    found = resolve_companion(there(version), "torchvision", **requested, **CUDA_13)
    assert found.strategy == "git"
    assert found.why.startswith(("torch 2.", "which torchvision"))


def test_torch_without_known_companion_is_reported() -> None:
    on = there("1.13.1+cu117", "11.7", python="3.10.4")
    message = refused(on, "torchvision", torch={"strategy": "existing"}, target={"gpus": []})
    assert message.startswith(
        "companions: no version of torchvision is known for torch 1.13.1+cu117"
    )


@pytest.mark.parametrize(
    ("gpus", "cuda", "way"),
    [
        (["12.0"], "13.0", "wheel"),
        (["8.9", "12.1"], "13.2", "wheel"),
        (["11.0"], "13.0", "git"),
        (["9.0"], "12.6", "git"),
        ([], "13.0", "git"),
    ],
)
def test_stable_abi_wheel_is_used_if_it_has_code_for_every_gpu(
    gpus: list[str], cuda: str, way: str
) -> None:
    settings = {
        "torch": {"strategy": "source", "version": "2.15.0"},
        "target": {"gpus": gpus},
        "toolkit": {"provider": "path", "version": cuda, "path": "/cuda"},
    }
    on = host(toolkits=(InstalledToolkit("/cuda", f"{cuda}.1", asked=True),))
    assert resolve_companion(on, "torchvision", **settings).strategy == way


def test_unsupported_machine_type_builds_the_companion() -> None:
    requested = source("2.15.0")
    assert resolve_companion(host(machine="aarch64"), "torchvision", **requested).strategy == "git"
    assert resolve_companion(host(machine="x86_64"), "torchvision", **requested).strategy == "wheel"


@pytest.mark.parametrize(
    ("tree", "pinned"),
    [
        ({}, False),
        ({"ref": "v2.15.0"}, False),
        ({"ref": "v2.15.0-rc2"}, False),
        ({"ref": "main"}, True),
        ({"ref": "1a2b3c4d"}, True),
        ({"path": "/src/pytorch"}, True),
        ({"tarball": "/src/pytorch.tar.gz"}, True),
    ],
)
def test_untagged_source_tree_pins_its_own_triton(tree: dict[str, Any], pinned: bool) -> None:
    found = resolve_companion(host(), "triton", **source("2.15.0", **tree))
    assert found.pinned == pinned
    assert found.requirement == ("triton" if pinned else "triton~=3.9.0")


def test_torch_newer_than_the_facts_uses_triton_pinned_by_its_tree() -> None:
    vision, triton = of(host(), "torchvision", "triton", **source(f"{NEXT_TORCH}a0", ref="main"))
    assert (vision.strategy, vision.requirement) == ("wheel", "torchvision==0.29.2")
    assert (triton.pinned, triton.index) == (True, "https://download.pytorch.org/whl/nightly/")
    built = resolve_companion(
        host(machine="aarch64"), "torchvision", **source(f"{NEXT_TORCH}a0", ref="main")
    )
    assert (built.strategy, built.ref, built.version) == ("git", "main", "")


def test_alpha_of_a_published_release_counts_as_that_release() -> None:
    built = resolve_companion(
        host(machine="aarch64"), "torchvision", **source("2.9.0a0", path="/src/pytorch")
    )
    assert (built.strategy, built.ref) == ("git", "v0.24.1")


def test_windows_uses_third_party_triton_and_macos_has_none() -> None:
    windows = resolve_companion(host(system="windows"), "triton", **prebuilt("2.14.1"))
    assert (windows.strategy, windows.requirement) == ("wheel", "triton-windows==3.8.*")
    assert "not verified" in windows.why
    mac = host(system="macos", machine="arm64")
    message = refused(mac, "triton", torch={"strategy": "prebuilt"})
    assert (
        message == "companions: triton has no package for macos\n  → remove triton from companions"
    )


def test_cpu_torch_requires_no_triton() -> None:
    found = resolve_companion(host(), "triton", target={"gpus": []}, torch={"strategy": "prebuilt"})
    assert (found.strategy, found.requirement) == ("wheel", "triton~=3.9.0")


def test_custom_index_is_used_for_torch_and_companions() -> None:
    settings = {"torch": {"strategy": "prebuilt", "index": "/wheels"}}
    vision, triton = of(host(), "torchvision", "triton", **settings)
    assert (vision.index, triton.strategy) == ("/wheels", "wheel")


def stages(on: Host, *names: str, **settings: Any) -> dict[str, Stage]:
    plan = plan_of(on, companions=list(names), **settings)
    return {stage.name: stage for stage in plan.stages if stage.kind == "extensions"}


def test_each_companion_has_an_extension_stage_and_import_check() -> None:
    found = stages(host(), "torchvision", "triton", **source("2.13.0"))
    vision, triton = found["extensions:torchvision"], found["extensions:triton"]
    job = vision.job
    assert (job.kind, job.ref, job.optional) == ("git", "v0.28.0", False)
    assert job.location == "https://github.com/pytorch/vision.git"
    assert (job.env["FORCE_CUDA"], job.env["BUILD_VERSION"]) == ("1", "0.28.0")
    assert job.env["TORCHVISION_USE_NVJPEG"] == "0"
    assert job.imports == ("torchvision", "torchvision.ops")
    assert job.requires == ("packaging",)
    assert (triton.job.kind, triton.job.imports) == ("wheel", ("triton",))
    assert [path.stem for path in triton.inputs] == ["deps", "surface"]
    assert "fetch triton for this torch" in triton.doc


def test_torchaudio_uses_its_own_cuda_variables() -> None:
    requested = source("2.11.0")
    job = stages(host(), "torchaudio", **requested)["extensions:torchaudio"].job
    assert (job.env["USE_CUDA"], job.env["BUILD_VERSION"]) == ("1", "2.11.0")
    on_cpu = stages(host(), "torchaudio", **{**requested, "target": {"gpus": []}, "toolkit": {}})
    assert "USE_CUDA" not in on_cpu["extensions:torchaudio"].job.env


def test_pinned_triton_depends_on_the_source_stage() -> None:
    stage = stages(host(), "triton", **source("2.15.0", ref="main"))["extensions:triton"]
    assert [path.stem for path in stage.inputs] == ["deps", "surface", "source"]
    assert stage.job.pinned.stem == "source"


def test_companion_installed_with_torch_has_no_stage() -> None:
    assert stages(host(), "triton") == {}
    plan = plan_of(host(), companions=["triton"])
    assert (
        plan.absent["extensions"] == "this profile lists no extensions, and triton came with torch"
    )


def test_validate_checks_only_companions_that_have_a_stage() -> None:
    plan = plan_of(host(), companions=["torchvision", "triton"], extensions=["simple-knn"])
    assert list(plan.validate.job.extensions) == ["torchvision", "simple-knn"]


def test_built_companion_requires_compilers_and_git() -> None:
    requested: dict[str, Any] = {"torch": {"strategy": "existing"}, "target": {"gpus": ["9.0"]}}
    on = there("2.6.0", "13.0")
    settings = parse_settings({**requested, **CUDA_13, "companions": ["torchvision"]})
    assert resolve_settings(settings, on, KNOWLEDGE).needs_compiler
    deps = plan_of(on, **requested, **CUDA_13, companions=["torchvision"]).stages[0]
    assert deps.job.git_needed == "to fetch the extension torchvision"
    official = there("2.6.0+cu126", "12.6")
    requested["target"] = {"gpus": []}
    assert not resolve_settings(
        parse_settings({**requested, "companions": ["torchvision"]}), official, KNOWLEDGE
    ).needs_compiler


def test_duplicate_name_is_refused() -> None:
    mine = {"name": "torchvision", "path": "/src/vision"}
    with pytest.raises(SettingsError, match="torchvision is in companions and in extensions"):
        plan_of(host(), companions=["torchvision"], extensions=[mine])


def test_cpp_only_build_refuses_companions() -> None:
    settings = {"torch": {"strategy": "source"}, "build": {"backend": "cmake"}}
    with pytest.raises(SettingsError) as error:
        plan_of(host(), companions=["triton"], **settings)
    assert str(error.value).startswith("companions: backend cmake builds no torch for Python")
