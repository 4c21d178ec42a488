"""What a plan takes from torchyard.lock, and what it reports about the rest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs

from tasks.core.model import Host, Interpreter, Plan
from tasks.core.project import Project
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.lock.lock_file import LockedInputs, LockSection, pin_plan
from tasks.planning.profile_plan import build_layout, make_plan
from tasks.settings.schema import parse_settings
from tests.support.checkout import RELEASE, pin_torch

ROOT = Path(__file__).parents[3]
HOST = Host("linux", "x86_64", Interpreter("/usr/bin/python3", "3.12.4"))
KNOWLEDGE = load_knowledge(ROOT / "config" / "knowledge")
DIGEST, COMMIT = "a" * 64, "1" * 40
GIT = "https://git.example/toy"
ASKED: dict[str, Any] = {
    "target": {"gpus": []},
    "torch": {"strategy": "prebuilt"},
    "extensions": [
        {"name": "toy", "git": GIT, "ref": "main"},
        {"name": "packed", "sdist": "packed==1.0"},
    ],
}
TOOLS = {f"{name}==99.0": (DIGEST,) for name in ("ninja", "pip", "wheel", "build", "numpy")}
HELD = LockSection(
    python="3.12",
    platform="linux x86_64",
    strategy="prebuilt",
    release=RELEASE,
    torch=LockedInputs(
        wheel=f"torch-{RELEASE}-py3-none-any.whl", sha256=DIGEST, packages={"a==1": (DIGEST,)}
    ),
    extensions={
        "toy": LockedInputs(git=GIT, ref="main", commit=COMMIT, packages={"b==1": (DIGEST,)}),
        "packed": LockedInputs(sdist="packed==1.0", sha256=DIGEST, requires={"c==1": (DIGEST,)}),
    },
    packages={**TOOLS, "setuptools==81.0": (DIGEST,), "cmake==3.31.6": (DIGEST,)},
)


def plans(held: LockSection = HELD, host: Host = HOST, **asked: Any) -> tuple[Plan, Plan]:
    """Return the plan without the lock and with it."""
    settings = parse_settings(pin_torch({**ASKED, **asked}))
    layout = build_layout(Project.of_checkout(Path("/yard")), "mine", settings)
    choice, plan = make_plan(settings, host, KNOWLEDGE, layout)
    return plan, pin_plan(plan, held, choice)


def job(plan: Plan, name: str) -> Any:
    return next(stage.job for stage in plan.stages if stage.name == name)


def list_warnings(**more: Any) -> list[str]:
    _, plan = plans(**more)
    return [
        line.removeprefix("torchyard.lock: ").partition(": resolved")[0] for line in plan.warnings
    ]


def test_lock_pins_every_part_and_changes_no_fingerprint() -> None:
    bare, plan = plans()
    assert plan.warnings == bare.warnings == ()
    assert [stage.fingerprint for stage in plan.stages] == [
        stage.fingerprint for stage in bare.stages
    ]
    assert job(plan, "deps").locked == HELD.packages
    wheel = job(plan, "wheel")
    assert (wheel.locked_sha256, wheel.locked) == (DIGEST, {"a==1": (DIGEST,)})
    toy, packed = job(plan, "extensions:toy"), job(plan, "extensions:packed")
    assert (toy.ref, toy.commit, toy.locked) == ("main", COMMIT, {"b==1": (DIGEST,)})
    assert (packed.locked_sha256, packed.locked_requires) == (DIGEST, {"c==1": (DIGEST,)})


def test_different_torch_is_reported_and_rest_is_pinned() -> None:
    older = structs.replace(HELD, release="2.14.1")
    assert list_warnings(held=older) == [
        f"torch prebuilt 2.14.1 is locked, but prebuilt {RELEASE} is required"
    ]
    _, plan = plans(held=older)
    assert job(plan, "wheel").locked_sha256 == ""
    assert job(plan, "extensions:toy").commit == COMMIT


def test_rebuild_with_other_local_version_is_different_torch() -> None:
    made = structs.replace(HELD.torch, wheel=f"torch-{RELEASE}+cu132.sm90-py3-none-any.whl")
    held = structs.replace(HELD, torch=made)
    for local in (None, "cu132.sm90"):  # null accepts any local version, also the locked one
        torch = {"strategy": "prebuilt", "local": local}
        assert not list_warnings(held=held, torch=torch)
    torch = {"strategy": "prebuilt", "local": "cu132.sm120"}
    locked, required = (f"{RELEASE}+cu132.{arch}" for arch in ("sm90", "sm120"))
    assert list_warnings(held=held, torch=torch) == [
        f"torch prebuilt {locked} is locked, but prebuilt {required} is required"
    ]
    _, plan = plans(held=held, torch=torch)
    assert (job(plan, "wheel").locked_sha256, job(plan, "wheel").locked) == ("", {})
    assert job(plan, "extensions:toy").commit == COMMIT


def test_invalid_wheel_name_counts_as_different_torch() -> None:
    made = structs.replace(HELD.torch, wheel="torch.whl")
    assert list_warnings(held=structs.replace(HELD, torch=made)) == [
        f"torch prebuilt torch.whl is locked, but prebuilt {RELEASE} is required"
    ]


def test_other_python_or_platform_pins_nothing() -> None:
    host = replace(HOST, python=Interpreter("/usr/bin/python3", "3.11.2"))
    there, here = (f"Python 3.{minor} on linux x86_64" for minor in (12, 11))
    assert list_warnings(host=host) == [f"this profile is locked for {there}, but this is {here}"]
    _, plan = plans(host=host)
    assert job(plan, "extensions:toy").commit == ""


def test_unlocked_and_unneeded_extensions_are_reported() -> None:
    extensions = [
        {"name": "toy", "git": GIT, "ref": "v2"},
        {"name": "new", "sdist": "new==1.0"},
    ]
    assert list_warnings(extensions=extensions) == [
        f"{GIT} at main is locked for toy, but {GIT} at v2 is required",
        "new is not locked",
        "packed is locked, but not in the settings",
    ]


def test_incompatible_tools_are_resolved_again_together() -> None:
    old = structs.replace(HELD, packages={**HELD.packages, "cmake==3.0": (DIGEST,)})
    del old.packages["cmake==3.31.6"]
    (line,) = list_warnings(held=old)
    assert line.startswith("cmake 3.0 is locked, but cmake")
    _, plan = plans(held=old)
    assert job(plan, "deps").locked == {}


def test_source_tree_is_pinned_to_commit() -> None:
    git = "https://github.com/pytorch/pytorch.git"
    made = LockedInputs(git=git, ref=f"v{RELEASE}", commit=COMMIT)
    held = structs.replace(HELD, strategy="source", torch=made)
    asked = {"torch": {"strategy": "source"}, "extensions": ASKED["extensions"]}
    _, plan = plans(held=held, **asked)
    assert job(plan, "source").checkout_ref == COMMIT
    assert list_warnings(held=held, **asked, source={"ref": "main"}) == [
        f"{git} at v{RELEASE} is locked for PyTorch's tree, but {git} at main is required"
    ]
