"""Which machine code runs on which GPU: rules by example and properties of all facts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.core.model import Arch
from tasks.knowledge.facts import GpuFact
from tasks.knowledge.machine_code_rules import MachineCode, can_run_code, find_driver_ptx_isa
from tasks.knowledge.machine_code_rules import classify_compatibility as asked
from tasks.knowledge.versions import parse_major_minor
from tests.support.checkout import KNOWLEDGE
from tests.support.newest import LATER_CUDA, NEWEST_TOOLKIT
from tests.support.rows import each_row

MADE = sorted({arch for kit in KNOWLEDGE.toolkits.values() for arch in kit.makes})
CARDS = sorted({gpu.arch for gpu in KNOWLEDGE.gpus})
TOOLKITS = list(KNOWLEDGE.toolkits)
some = st.frozensets(st.sampled_from(MADE))
release = st.none() | st.sampled_from([*TOOLKITS, "11.4", "12.7", LATER_CUDA])


def archs(text: str) -> list[Arch]:
    return [Arch.parse_capability(item) for item in text.split()]


def code(cubins: str = "", ptx: str = "") -> MachineCode:
    return MachineCode(frozenset(archs(cubins)), frozenset(archs(ptx)))


def how(
    held: MachineCode, target: Arch, maker: str | None = None, driver: str | None = None
) -> str:
    return asked(KNOWLEDGE, held, target, maker=maker, driver=driver)


@each_row(
    ("cubins", "target", "expected"),
    [
        ("12.0", "12.0", "native"),
        ("12.0", "12.1", "compatible"),
        ("12.1", "12.0", ""),
        ("8.6", "8.9", "compatible"),
        ("8.9", "8.6", ""),
        ("8.0", "9.0", ""),
        ("8.6", "12.0", ""),
        ("8.9", "12.0", ""),
        ("9.0", "12.0", ""),
        ("10.0", "12.0", ""),
        ("12.0", "10.0", ""),
        ("10.0", "10.3", "compatible"),
        ("6.0", "6.1", "compatible"),
        ("8.0", "8.7", ""),
        ("8.6", "8.7", ""),
        ("8.7", "8.7", "native"),
        ("8.7", "8.9", ""),
        ("10.0", "10.1", ""),
        ("11.0", "10.1", "compatible"),
        ("10.1", "11.0", "compatible"),
        ("10.0f", "10.1", ""),
        ("5.2", "5.3", ""),
        ("5.3", "6.0", ""),
        ("6.0", "6.2", ""),
        ("7.0", "7.2", ""),
        ("12.0a", "12.0", "native"),
        ("12.0a", "12.1", ""),
        ("9.0a", "9.0", "native"),
        ("12.0f", "12.1", "compatible"),
        ("10.0f", "10.3", "compatible"),
        ("10.0f", "10.7", "compatible"),
        ("10.0f", "11.0", ""),
        ("10.3f", "10.0", ""),
        ("12.1f", "12.0", ""),
        ("9.0", "9.0a", ""),
        ("9.0a", "9.0a", "native"),
    ],
)
def test_cubin_runs_on_same_major_and_same_or_later_minor(
    cubins: str, target: str, expected: str
) -> None:
    assert how(code(cubins), Arch.parse_capability(target)) == expected
    assert can_run_code(KNOWLEDGE, code(cubins), Arch.parse_capability(target)) is bool(expected)


@each_row(
    ("ptx", "target", "runs"),
    [
        ("5.0", "12.0", True),
        ("9.0", "12.0", True),
        ("9.0", "11.0", True),
        ("10.0", "12.0", True),
        ("12.0", "10.0", False),
        ("12.0", "11.0", False),
        ("12.0", "12.1", True),
        ("9.0a", "10.0", False),
        ("9.0a", "9.0", True),
        ("12.0a", "12.1", False),
        ("12.0f", "12.1", True),
        ("10.0f", "11.0", False),
        ("10.0f", "10.1", False),
        ("10.0f", "10.7", True),
        ("10.1f", "10.3", False),
        ("10.3f", "10.0", False),
        ("10.0", "10.1", True),
        ("8.7", "8.9", True),
        ("8.0", "8.7", True),
    ],
)
def test_plain_ptx_is_compiled_for_any_later_gpu(ptx: str, target: str, runs: bool) -> None:
    assert how(code(ptx=ptx), Arch.parse_capability(target)) == ("ptx" if runs else "")


def test_machine_code_is_preferred_to_ptx() -> None:
    both = code("8.6 9.0", "9.0")
    assert [how(both, arch) for arch in archs("9.0 8.9 12.0")] == ["native", "compatible", "ptx"]


@pytest.mark.parametrize(
    ("maker", "runs"), [(None, False), ("12.6", False), ("13.0", False), ("13.2.86", True)]
)
def test_orin_runs_discrete_gpu_cubins_since_cuda_13_2(maker: str | None, runs: bool) -> None:
    assert bool(how(code("8.0 8.6"), Arch(8, 7), maker)) is runs
    assert not how(code("8.9 9.0"), Arch(8, 7), maker)


@each_row(
    ("maker", "driver", "runs"),
    [
        ("12.8", "12.8", True),
        ("12.8", "13.0", True),
        ("12.8", "12.6", False),
        ("13.2.86", "13.0", False),
        ("12.6", "12.5", True),
        ("12.8", "12.7", False),
        ("12.0", "11.4", False),
        (LATER_CUDA, NEWEST_TOOLKIT.cuda, False),
        (LATER_CUDA, LATER_CUDA, True),
        ("12.8", None, True),
        (None, "12.0", True),
    ],
)
def test_driver_cannot_compile_newer_ptx(maker: str | None, driver: str | None, runs: bool) -> None:
    assert bool(how(code(ptx="9.0"), Arch(12, 0), maker, driver)) is runs
    assert bool(how(code(ptx="9.0a"), Arch(9, 0, "a"), maker, driver)) is runs
    assert how(code("12.0", "12.0"), Arch(12, 0), maker, driver) == "native"


@each_row("cuda", TOOLKITS)
def test_driver_compiles_ptx_of_its_own_toolkit(cuda: str) -> None:
    assert find_driver_ptx_isa(KNOWLEDGE, cuda) == parse_major_minor(
        KNOWLEDGE.toolkits[cuda].ptx_isa
    )


def test_driver_between_two_toolkits_compiles_ptx_of_the_older() -> None:
    assert find_driver_ptx_isa(KNOWLEDGE, "12.7") == find_driver_ptx_isa(KNOWLEDGE, "12.6")
    assert find_driver_ptx_isa(KNOWLEDGE, "99.0") == find_driver_ptx_isa(KNOWLEDGE, TOOLKITS[-1])
    assert find_driver_ptx_isa(KNOWLEDGE, "10.2") == (0, 0)


@given(some, some, some, some, st.sampled_from(MADE), release, release)
def test_more_code_never_covers_less(  # noqa: PLR0917
    cubins: frozenset[Arch],
    ptx: frozenset[Arch],
    more_cubins: frozenset[Arch],
    more_ptx: frozenset[Arch],
    target: Arch,
    maker: str | None,
    driver: str | None,
) -> None:
    some_code = MachineCode(cubins, ptx)
    more = MachineCode(cubins | more_cubins, ptx | more_ptx)
    if how(some_code, target, maker, driver):
        assert how(more, target, maker, driver)


@given(some, some, st.sampled_from(MADE), release, st.sampled_from(TOOLKITS))
def test_newer_driver_never_covers_less(
    cubins: frozenset[Arch],
    ptx: frozenset[Arch],
    target: Arch,
    maker: str | None,
    driver: str,
) -> None:
    held = MachineCode(cubins, ptx)
    newer = TOOLKITS[TOOLKITS.index(driver) :]
    if how(held, target, maker, driver):
        assert all(how(held, target, maker, later) for later in newer)


@each_row("gpu", KNOWLEDGE.gpus, ids=lambda gpu: gpu.name)
def test_every_gpu_runs_its_own_machine_code_and_ptx(gpu: GpuFact) -> None:
    own = frozenset([gpu.arch])
    assert how(MachineCode(own), gpu.arch) == "native"
    assert how(MachineCode(ptx=own), gpu.arch) == "ptx"


@each_row("card", CARDS, ids=str)
def test_no_gpu_runs_machine_code_of_later_or_other_generations(card: Arch) -> None:
    for arch in MADE:
        if how(MachineCode(frozenset([arch])), card) and (arch.major, card.major) != (11, 10):
            assert arch.major == card.major or (arch.major, card.major) == (10, 11)
            assert arch.minor <= card.minor or arch.suffix == "" == card.suffix


@each_row("cuda", TOOLKITS)
def test_every_supported_family_arch_has_its_members(cuda: str) -> None:
    families = KNOWLEDGE.code_families
    for arch in KNOWLEDGE.toolkits[cuda].makes:
        if arch.suffix == "f":
            assert Arch(arch.major, arch.minor) in families[arch]
            assert all(a.major == arch.major and a.minor >= arch.minor for a in families[arch])


@each_row("cuda", TOOLKITS)
def test_arch_suffix_never_covers_more_than_plain_arch(cuda: str) -> None:
    for arch in KNOWLEDGE.toolkits[cuda].makes:
        if arch.suffix:
            plain = MachineCode(frozenset([Arch(arch.major, arch.minor)]))
            for card in CARDS:
                if how(MachineCode(frozenset([arch])), card):
                    assert how(plain, card)


@pytest.mark.parametrize("arch", KNOWLEDGE.integrated_gpus, ids=str)
def test_soc_shares_machine_code_only_with_socs(arch: Arch) -> None:
    rules = KNOWLEDGE.integrated_gpus
    assert arch in rules[arch].runs
    others = [card for card in CARDS if card not in rules]
    assert not [card for card in others if how(MachineCode(frozenset([arch])), card)]
