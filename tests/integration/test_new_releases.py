"""Releases that the knowledge does not have: planned, built, locked and labelled from an index."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tasks.core.model import Gpu
from tasks.system.hardware import host_probe
from tests.integration.conftest import installed
from tests.support import futureindex
from tests.support.futureindex import FutureIndex
from tests.support.newest import LATER_TORCH, NEWEST_RELEASE, NEWEST_TOOLKIT, NEXT_CUDA, NEXT_TORCH
from tests.support.yard import Yard

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="its wheels are for Linux"),
]
CUDA = NEWEST_RELEASE.pypi_cuda
# A patch of the newest known release, whose wheel has less code than that release
PATCH = f"{NEWEST_RELEASE.minor}.99"
NEW_CAPABILITY = f"{max(arch.major for arch in NEWEST_TOOLKIT.makes) + 1}.0"
NO_INDEX = {"UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple", "NO_PROXY": "127.0.0.1"}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three unknown releases of torch and an unknown CUDA toolkit."""
    folder = tmp_path_factory.mktemp("wheels")
    code = int(NEW_CAPABILITY.replace(".", ""))
    futureindex.torch_wheel(folder, NEXT_TORCH, CUDA, [90, 120])
    futureindex.torch_wheel(folder, PATCH, CUDA, [90])
    archs = ("9.0", "12.0", NEW_CAPABILITY)
    futureindex.torch_wheel(folder, LATER_TORCH, NEXT_CUDA, [90, code], extension_archs=archs)
    futureindex.toolkit_wheels(folder, NEXT_CUDA, archs, gcc=40, clang=50)
    return folder


@pytest.fixture
def index(wheels: Path) -> Iterator[FutureIndex]:
    with futureindex.serving(wheels) as served:
        yield served


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path / "checkout")


def explained(yard: Yard, env: Mapping[str, str], **settings: Any) -> tuple[int, str]:
    """The exit code and the text of explain, as one line."""
    yard.profile(**settings)
    code, out = yard.doit("explain", env=env)
    return code, " ".join(out.split())


READ_WHEEL = f"torch {NEXT_TORCH}: read from the wheel torch-{NEXT_TORCH}-"
READ_TOOLKIT = f"CUDA {NEXT_CUDA}: read from the packages of cuda-toolkit {NEXT_CUDA}.0"
PLANNED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a new release": (
        {"torch": {"version": NEXT_TORCH}},
        [f"PyPI's torch {NEXT_TORCH} (CUDA {CUDA}) holds sm_120 (read from the wheel)", READ_WHEEL],
    ),
    "the newest with code for the targets": (
        {"torch": {"version": "auto"}},
        [f"torch {NEXT_TORCH} (CUDA {CUDA}): from PyPI; torch.version is auto", READ_WHEEL],
    ),
    "a new release of a later major version": (
        {"target": {"gpus": ["9.0"]}, "torch": {"version": "auto"}},
        [f"torch {LATER_TORCH} (CUDA {NEXT_CUDA})", READ_TOOLKIT],
    ),
    "a patch whose wheel lacks the target": (
        {"torch": {"version": PATCH}},
        [f"source: no official wheel of torch {PATCH}", "12.0: its newest arch is 9.0"],
    ),
    "a new toolkit": (
        {"torch": {"version": NEXT_TORCH, "strategy": "source"}, "toolkit": {"version": NEXT_CUDA}},
        [f"CUDA {NEXT_CUDA} from Python packages", "supports GCC up to 40", READ_TOOLKIT],
    ),
    "a new GPU that a new wheel has code for": (
        {"target": {"gpus": [NEW_CAPABILITY]}},
        [f"torch {LATER_TORCH}", f"untested: {NEW_CAPABILITY} is newer than the known GPUs"],
    ),
    "a new GPU that only a new toolkit compiles for": (
        {"target": {"gpus": [NEW_CAPABILITY]}, "torch": {"version": NEXT_TORCH}},
        [f"source: no official wheel of torch {NEXT_TORCH}", READ_TOOLKIT],
    ),
}


@pytest.mark.parametrize("case", PLANNED)
def test_unknown_release_is_planned_from_what_its_files_say(
    yard: Yard, index: FutureIndex, case: str
) -> None:
    settings, expected = PLANNED[case]
    code, out = explained(yard, index.env, **{"target": {"gpus": ["12.0"]}, **settings})
    assert code == 0, out
    assert [text for text in expected if text not in out] == [], out


UNPUBLISHED = f"{NEXT_TORCH[:-1]}7"
REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a release that is not on the index": (
        {"torch": {"version": UNPUBLISHED}},
        [f"torch {UNPUBLISHED} is not on http", f'set torch.version: "{NEXT_TORCH}"'],
    ),
    "a wheel without code for the target": (
        {"torch": {"version": PATCH, "strategy": "prebuilt"}},
        ["12.0: its newest arch is 9.0", f'set torch.version: "{NEWEST_RELEASE.patch}"'],
    ),
    "a toolkit that is not on the index": (
        {"toolkit": {"version": "99.0"}, "torch": {"version": NEXT_TORCH, "strategy": "source"}},
        ["CUDA 99.0 is not on this machine and not on http", "set toolkit.version: auto"],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_index_lacks_is_refused_with_a_way_out(
    yard: Yard, index: FutureIndex, case: str
) -> None:
    settings, expected = REFUSED[case]
    code, out = explained(yard, index.env, **{"target": {"gpus": ["12.0"]}, **settings})
    assert code == 3, out
    assert [text for text in expected if text not in out] == [], out


def test_without_an_index_the_nearest_release_is_assumed_and_labelled(yard: Yard) -> None:
    version = {"version": NEXT_TORCH}
    code, out = explained(yard, NO_INDEX, target={"gpus": ["12.0"]}, torch=version)
    assert code == 0, out
    assert f"is expected to hold sm_120 (assumed to be as {NEWEST_RELEASE.patch})" in out
    assert f"assumed to be as {NEWEST_RELEASE.patch}, because the package index" in out
    assert "did not answer" in out


def test_wheel_without_a_list_of_archs_is_only_expected_to_have_the_code(
    yard: Yard, tmp_path: Path
) -> None:
    futureindex.torch_wheel(tmp_path / "wheels", NEXT_TORCH, NEXT_CUDA, [120], table=False)
    with futureindex.serving(tmp_path / "wheels") as index:
        code, out = explained(yard, index.env, target={"gpus": ["12.0"]})
    assert code == 0, out
    assert f"PyPI's torch {NEXT_TORCH} (CUDA {NEXT_CUDA}) is expected to hold sm_120" in out
    assert READ_WHEEL in out


def test_gpu_of_a_new_major_version_gets_ptx_of_the_newest_arch(yard: Yard) -> None:
    """The capability comes from the driver; no known toolkit compiles for it."""
    yard.profile(torch={"version": NEWEST_RELEASE.patch}, extensions=[])
    query = host_probe.HostQuery("auto", None)
    pin = yard.build / "host.json"
    pin.parent.mkdir(parents=True)
    host = host_probe.read_host(query, pin)
    gpu = Gpu("NVIDIA GeForce RTX 9090", NEW_CAPABILITY)
    host_probe.write_host_pin(pin, query, type(host)(**{**vars(host), "gpus": (gpu,)}))
    out = " ".join(yard.doit("explain", env=NO_INDEX)[1].split())
    assert f"holds code for {NEW_CAPABILITY}" in out
    assert "and PTX of the newest: NVIDIA GeForce RTX 9090 in this machine" in out
    assert f"untested: no known CUDA toolkit compiles for {NEW_CAPABILITY}; its driver" in out
    assert re.search(r"TORCH_CUDA_ARCH_LIST=\S+\+PTX", out)


def test_installed_toolkit_that_is_unknown_tells_what_it_compiles_for(
    yard: Yard, tmp_path: Path
) -> None:
    home = tmp_path / "cuda"
    futureindex.installed_toolkit(home, NEXT_CUDA, ["9.0", "12.0"], gcc=41, clang=51)
    settings: dict[str, Any] = {
        "torch": {"version": NEWEST_RELEASE.patch, "strategy": "source"},
        "toolkit": {"provider": "path", "path": str(home)},
    }
    code, out = explained(yard, NO_INDEX, target={"gpus": ["12.0"]}, **settings)
    assert code == 0, out
    assert f"CUDA {NEXT_CUDA}.7 at {home}" in out
    assert "supports GCC up to 41" in out
    assert f"CUDA {NEXT_CUDA}: read from {home}" in out
    code, out = explained(yard, NO_INDEX, target={"gpus": ["8.0"]}, **settings)
    assert code == 3
    assert f"CUDA {NEXT_CUDA}" in out


def test_only_commands_that_plan_a_build_ask_the_index(yard: Yard, index: FutureIndex) -> None:
    yard.profile(target={"gpus": ["12.0"]}, torch={"version": "auto"})
    for command in ("list", "settings", "history", "help"):
        yard.doit(command, env=index.env)
    assert index.asked == []
    yard.doit("explain", env=index.env)
    assert set(index.asked) == {"torch", "cuda-toolkit"}
    index.asked.clear()
    assert f"torch {NEXT_TORCH}" in yard.doit("explain", env=index.env)[1]
    assert NEXT_TORCH in yard.doit("settings", env=index.env)[1]
    assert index.asked == []


def test_doctor_warns_of_old_facts_if_the_index_has_newer_releases(
    yard: Yard, index: FutureIndex
) -> None:
    yard.profile(target={"gpus": []}, torch={"version": NEWEST_RELEASE.patch})
    file = yard.folder / "config" / "knowledge" / "read" / "pytorch.yaml"
    text = file.read_text(encoding="utf-8")
    assert "knowledge" not in _list_warnings(yard, index)
    file.write_text(re.sub(r"\d{4}-\d\d-\d\d", "2020-01-02", text, count=1), encoding="utf-8")
    warning = _list_warnings(yard, index)["knowledge"]
    assert "recorded on 2020-01-02" in warning
    assert f"has torch {LATER_TORCH}, CUDA {NEXT_CUDA}" in warning
    assert "git pull" in warning


def _list_warnings(yard: Yard, index: FutureIndex) -> dict[str, str]:
    _, out = yard.doit("doctor", env=index.env)
    _, *parts = re.split(r"^warning +([\w-]+)", out, flags=re.MULTILINE)
    texts = (" ".join(text.split()) for text in parts[1::2])
    return dict(zip(parts[::2], texts, strict=True))


@pytest.mark.long
def test_new_release_is_built_validated_and_locked(
    yard: Yard, wheels: Path, tmp_path: Path
) -> None:
    """The lock keeps the release that auto chose, when the index has a newer one."""
    yard.profile(target={"gpus": ["12.0"]}, validation={"only": ["import", "version", "archs"]})
    newer = f"{NEXT_TORCH[:-1]}5"
    (own := tmp_path / "wheels").mkdir()
    for wheel in wheels.glob(f"torch-{NEXT_TORCH}-*.whl"):
        (own / wheel.name).write_bytes(wheel.read_bytes())
    with futureindex.serving(own) as index:
        for command in ("build", "validate", "lock"):
            code, out = yard.doit(command, env=index.env)
            assert code == 0, out
        assert installed(yard, "import torch; print(torch.__version__)").startswith(NEXT_TORCH)
        lock = (yard.folder / "torchyard.lock").read_text(encoding="utf-8")
        assert f"release: {NEXT_TORCH}" in lock
        assert READ_WHEEL in lock
        code, out = yard.doit("report", env=index.env)
        assert code == 0, out
        page = next(yard.build.rglob("*.html")).read_text(encoding="utf-8")
        assert READ_WHEEL in page
        futureindex.torch_wheel(own, newer, CUDA, [120])
        store = yard.folder / "build" / ".facts.json"
        store.write_text(
            re.sub(r'"date":"\d{4}', '"date":"2020', store.read_text("utf-8")), "utf-8"
        )
        unlocked = {**index.env, "TORCHYARD__LOCK": "false"}
        assert f"torch {newer}" in " ".join(yard.doit("explain", env=unlocked)[1].split())
        code, out = yard.doit("validate", env=unlocked)
        assert (code, f"torch {NEXT_TORCH}" in out) == (0, True), "validate takes what was built"
        assert yard.doit("lock", "--check", env=unlocked)[0] == 0
        store.unlink()
        code, out = yard.doit("build", env=index.env)
        assert code == 0, out
        assert "Up to date" in out
        code, out = yard.doit("explain", env={**index.env, "TORCHYARD__LOCK": "false"})
        assert f"torch {newer}" in " ".join(out.split())
