from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec import structs

from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch
from tasks.knowledge.cuda_toolkits import (
    can_compile_arch,
    find_driver_floor,
    find_toolkit,
    is_known_to_fail,
    list_capable_toolkits,
    list_published_toolkits,
    list_toolkit_packages,
    require_toolkit,
)
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.knowledge.torch_releases import find_release
from tests.support.newest import LATER_CUDA, NEWEST_TOOLKIT, NEXT_CUDA
from tests.support.rows import each_row

KNOWLEDGE = load_knowledge(Path(__file__).parents[3] / "config" / "knowledge")


@each_row(
    ("cuda", "arch", "can"),
    [
        ("12.6", "12.0", False),
        ("12.8", "12.0", True),
        ("12.8.93", "12.0a", True),
        ("12.8", "12.0f", False),
        ("12.9", "12.0f", True),
        ("12.8", "12.1", False),
        ("12.9", "12.1", True),
        ("12.9", "10.1", True),
        ("13.0", "10.1", False),
        ("13.0", "11.0", True),
        ("13.0", "7.0", False),
        ("12.9", "7.0", True),
        ("13.3", "10.7", False),
        ("13.4", "10.7", True),
        ("11.8", "9.0a", False),
        ("12.0", "9.0a", True),
        ("11.8", "3.5", True),
        ("12.0", "3.5", False),
    ],
)
def test_toolkit_supports_the_archs_ptxas_lists(cuda: str, arch: str, can: bool) -> None:
    assert can_compile_arch(KNOWLEDGE, cuda, Arch.parse_capability(arch)) is can


def test_toolkits_for_several_archs_support_all_of_them() -> None:
    assert list_capable_toolkits(KNOWLEDGE, [Arch(7, 0), Arch(12, 0)]) == ("12.8", "12.9")
    assert list_capable_toolkits(KNOWLEDGE, [Arch(12, 0)])[0] == "12.8"
    assert list_capable_toolkits(KNOWLEDGE, [Arch(7, 0), Arch(11, 0)]) == ()
    assert "12.7" not in list_capable_toolkits(KNOWLEDGE, [])


@pytest.mark.parametrize(
    ("cuda", "arch", "what"),
    [
        ("12.4", "12.0", "CUDA 12.4 cannot compile for 12.0 (sm_120); 12.8 is the first that can"),
        ("13.0", "7.0", "CUDA 13.0 dropped 7.0 (sm_70); 12.9 is the last that supports it"),
        (
            "13.5",
            "13.3",
            "CUDA 13.5 cannot compile for 13.3 (sm_133), nor can any other known toolkit",
        ),
    ],
)
def test_refusal_names_a_toolkit_that_works(cuda: str, arch: str, what: str) -> None:
    with pytest.raises(KnowledgeError) as caught:
        require_toolkit(KNOWLEDGE, cuda, [Arch.parse_capability(arch)])
    assert caught.value.message == what


@each_row("cuda", list(KNOWLEDGE.toolkits))
def test_toolkit_refuses_unsupported_archs(cuda: str) -> None:
    for arch in sorted({arch for kit in KNOWLEDGE.toolkits.values() for arch in kit.makes}):
        if arch in KNOWLEDGE.toolkits[cuda].makes:
            assert require_toolkit(KNOWLEDGE, cuda, [arch]).cuda == cuda
        else:
            with pytest.raises(KnowledgeError, match=re.escape(arch.sm)):
                require_toolkit(KNOWLEDGE, cuda, [arch])


def test_refusal_suggests_a_toolkit_for_all_archs() -> None:
    with pytest.raises(KnowledgeError) as caught:
        require_toolkit(KNOWLEDGE, "13.2", [Arch(12, 0), Arch(7, 0)])
    assert caught.value.hint == "use CUDA 12.8 to 12.9 for 7.0, 12.0"


@pytest.mark.parametrize(
    ("torch", "archs", "cudas"),
    [
        ("2.15", "12.0", ("13.2", "13.0", "13.4")),
        ("2.15", "7.0", ("12.6",)),
        ("2.15", "7.0 12.0", ()),
        ("2.9", "12.0", ("12.8", "13.0")),
        ("2.6", "9.0", ("12.4", "11.8", "12.6")),
        ("2.6", "12.0", ()),
    ],
)
def test_release_builds_with_cuda_it_is_published_with(
    torch: str, archs: str, cudas: tuple[str, ...]
) -> None:
    expected = [Arch.parse_capability(arch) for arch in archs.split()]
    found = find_release(KNOWLEDGE, torch)
    assert list_published_toolkits(KNOWLEDGE, found, expected, "linux") == cudas


@each_row("torch", KNOWLEDGE.releases)
def test_no_release_both_builds_and_fails_with_a_toolkit(torch: str) -> None:
    found = find_release(KNOWLEDGE, torch)
    for arch in KNOWLEDGE.toolkits["12.9"].makes | NEWEST_TOOLKIT.makes:
        for cuda in list_published_toolkits(KNOWLEDGE, found, [arch], "linux"):
            assert arch in KNOWLEDGE.toolkits[cuda].makes
            assert not is_known_to_fail(KNOWLEDGE, found.patch, cuda, [arch], "linux")


def test_cuda_13_does_not_build_torch_2_6() -> None:
    assert is_known_to_fail(KNOWLEDGE, "2.6.0", "13.0", [Arch(9, 0)], "linux")
    assert not is_known_to_fail(KNOWLEDGE, "2.6.0", "12.4", [Arch(9, 0)], "linux")


def test_toolkit_that_supports_archs_is_returned() -> None:
    assert require_toolkit(KNOWLEDGE, "13.2.86", [Arch(12, 0)]).cuda == "13.2"


@pytest.mark.parametrize(
    ("cuda", "reason"),
    [
        ("12.7", "was never published"),
        ("11.7", "is older than 11.8"),
        ("9.0", "is older than 11.8"),
    ],
)
def test_impossible_toolkit_is_refused(cuda: str, reason: str) -> None:
    message = f"CUDA {cuda} {reason}; the known releases are 11.8, "
    with pytest.raises(KnowledgeError, match=re.escape(message)) as caught:
        can_compile_arch(KNOWLEDGE, cuda, Arch(9, 0))
    assert caught.value.hint == "use one of the known releases"


@pytest.mark.parametrize("version", [NEXT_CUDA, f"{NEXT_CUDA}.20", LATER_CUDA, "12.10"])
def test_unknown_toolkit_has_assumed_facts_of_the_nearest(version: str) -> None:
    nearest = KNOWLEDGE.toolkits["12.9" if version == "12.10" else NEWEST_TOOLKIT.cuda]
    origin = f"assumed to be as {nearest.cuda}"
    assert find_toolkit(KNOWLEDGE, version) == structs.replace(
        nearest,
        cuda=NEXT_CUDA if version.startswith(NEXT_CUDA) else version,
        origin=origin,
        status=f"unverified: {origin}",
    )


def test_facts_of_a_known_toolkit_are_recorded() -> None:
    assert {find_toolkit(KNOWLEDGE, cuda).origin for cuda in KNOWLEDGE.toolkits} == {""}


def test_toolkit_accepts_compilers_up_to_a_limit() -> None:
    for cuda, limits in {
        "11.8": (11, 14, (1910, 1940)),
        "12.8": (14, 19, (1910, 1950)),
        "13.0": (15, 20, (1920, 1950)),
        "13.5.37": (16, 22, (1920, 1960)),
    }.items():
        kit = find_toolkit(KNOWLEDGE, cuda)
        assert (kit.gcc_max, kit.clang_max, (kit.msvc_min, kit.msvc_below)) == limits


def test_one_driver_branch_supports_a_cuda_major() -> None:
    assert [find_driver_floor(KNOWLEDGE, cuda) for cuda in ("11.8", "12.8", "13.5")] == [
        450,
        525,
        580,
    ]
    kits = [KNOWLEDGE.toolkits[cuda] for cuda in ("12.8", "13.2")]
    assert [kit.linux_driver for kit in kits] == ["570.26", "595.45.04"]
    assert [kit.windows_driver for kit in kits] == ["570.65", None]


def test_packages_pin_one_release() -> None:
    assert list_toolkit_packages(KNOWLEDGE, "13.2.86") == (
        "cuda-toolkit[nvcc,crt,nvvm,cccl,cudart,curand,profiler,cuobjdump]==13.2.*",
    )


def test_cuobjdump_is_omitted_if_pypi_lacks_it() -> None:
    having = [c for c, kit in KNOWLEDGE.toolkits.items() if kit.pypi and kit.cuobjdump]
    known = list(KNOWLEDGE.toolkits)
    assert having == known[known.index("13.2") :]
    assert list_toolkit_packages(KNOWLEDGE, "13.0") == (
        "cuda-toolkit[nvcc,crt,nvvm,cccl,cudart,curand,profiler]==13.0.*",
    )


def test_torch_from_source_requires_library_packages() -> None:
    toolkit, *apart = list_toolkit_packages(KNOWLEDGE, "13.0", for_source=True)
    assert "curand,profiler,cublas,cusparse,cusolver,cufft,cupti,nvrtc,nvjitlink,nvtx" in toolkit
    assert [name.split(";")[0] for name in apart] == [
        "nvidia-cudnn-cu13",
        "nvidia-nccl-cu13",
        "nvidia-cusparselt-cu13",
    ]
    assert apart[1].endswith("sys_platform == 'linux'")


@pytest.mark.parametrize("cuda", ["11.8", "12.9"])
def test_toolkit_missing_on_pypi_is_refused(cuda: str) -> None:
    *_, newest = (kit.cuda for kit in KNOWLEDGE.toolkits.values() if kit.pypi)
    message = rf"no nvcc of CUDA .* only of 13\.0 to {re.escape(newest)}\n"
    with pytest.raises(KnowledgeError, match=message):
        list_toolkit_packages(KNOWLEDGE, cuda)
