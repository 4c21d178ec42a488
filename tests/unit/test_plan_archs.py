"""No plan has an arch that nvcc, or a reader of its arch list, would refuse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath

from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.core.errors import SettingsError
from tasks.core.model import InstalledToolkit, Layout, Plan
from tasks.core.project import Project
from tasks.core.resolution import Resolution
from tasks.knowledge.arch_lists import parse_torch_archs
from tasks.knowledge.cuda_toolkits import require_toolkit
from tasks.planning.profile_plan import make_plan
from tasks.settings.schema import parse_settings
from tasks.stages.env.model import ArchLists, EnvJob
from tests.support.checkout import HOST, KNOWLEDGE
from tests.support.rows import each_row

LAYOUT = Layout(Project.of_checkout(PurePosixPath("/yard")), "p", PurePosixPath("/yard/wheelhouse"))
PATCHES = [release.patch for release in KNOWLEDGE.releases.values()]
MADE = sorted({arch for kit in KNOWLEDGE.toolkits.values() for arch in kit.makes})
NAMES = [gpu.name for gpu in KNOWLEDGE.gpus]
EVERYTHING = replace(
    HOST,
    toolkits=tuple(InstalledToolkit(f"/cuda-{cuda}", f"{cuda}.1") for cuda in KNOWLEDGE.toolkits),
)
EXTENSION = {"name": "toy", "path": "toy"}


def planned(
    torch: dict[str, str],
    cuda: str,
    target: dict[str, object],
    *,
    extended: bool,
    machine: str = HOST.machine,
) -> tuple[Resolution, Plan]:
    settings = {
        "torch": torch,
        "target": target,
        "toolkit": {"version": cuda},
        "extensions": [EXTENSION] * extended,
    }
    return make_plan(
        parse_settings(settings), replace(EVERYTHING, machine=machine), KNOWLEDGE, LAYOUT
    )


def archs_of(plan: Plan) -> ArchLists:
    (job,) = (stage.job for stage in plan.stages if isinstance(stage.job, EnvJob))
    return job.arch_lists


@settings(deadline=None)
@given(
    st.fixed_dictionaries(
        {
            "version": st.sampled_from(PATCHES),
            "strategy": st.sampled_from(["auto", "source", "prebuilt"]),
        }
    ),
    st.sampled_from(["auto", *KNOWLEDGE.toolkits]),
    st.lists(st.sampled_from([*NAMES, *map(str, MADE)]), min_size=1, max_size=2),
    st.booleans(),
    st.booleans(),
)
def test_plan_has_only_archs_supported_by_toolkit_and_torch(
    torch: dict[str, str], cuda: str, gpus: list[str], ptx: bool, extended: bool
) -> None:
    try:
        choice, plan = planned(torch, cuda, {"gpus": gpus, "ptx": ptx}, extended=extended)
    except SettingsError as refused:
        error = refused
    else:
        require_made(choice, archs_of(plan), ptx=ptx, extended=extended)
        return
    assert error.location
    assert error.hint


def require_made(choice: Resolution, lists: ArchLists, *, ptx: bool, extended: bool) -> None:
    """Require that nvcc supports all archs and lists reach all targets, with PTX if needed."""
    if choice.toolkit.provider == "none":
        assert (choice.strategy, extended) == ("prebuilt", False), "nothing is compiled"
        return
    assert require_toolkit(KNOWLEDGE, choice.toolkit.version, choice.targets)
    read = []
    if choice.strategy == "source":
        read.append(parse_torch_archs(KNOWLEDGE, choice.torch, lists.torch, cmake=True))
    if extended:
        read.append(parse_torch_archs(KNOWLEDGE, choice.torch, lists.extensions))
    for held in read:
        assert held.cubins == set(choice.targets)
        assert bool(held.ptx) is ptx


@each_row("name", NAMES)
def test_every_gpu_has_a_plan_with_its_newest_toolkit(name: str) -> None:
    (card,) = (gpu for gpu in KNOWLEDGE.gpus if gpu.name == name)
    able = [cuda for cuda, kit in KNOWLEDGE.toolkits.items() if card.arch in kit.makes]
    machine = card.machine or HOST.machine
    choice, plan = planned(
        {"strategy": "source"}, able[-1], {"gpus": [name]}, extended=False, machine=machine
    )
    assert choice.targets == (card.arch,)
    assert archs_of(plan).torch == str(card.arch)
