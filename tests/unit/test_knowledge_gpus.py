from __future__ import annotations

from pathlib import Path

import pytest

from tasks.errors import KnowledgeError
from tasks.knowledge import load
from tasks.knowledge.gpus import resolve_gpu, short_name

KNOWLEDGE = load(Path(__file__).parents[2] / "config" / "knowledge")


@pytest.mark.parametrize(
    ("text", "name", "capability"),
    [
        ("RTX 5090", "NVIDIA GeForce RTX 5090", "12.0"),
        ("rtx 5060 ti", "NVIDIA GeForce RTX 5060 Ti", "12.0"),
        ("rtx5060ti", "NVIDIA GeForce RTX 5060 Ti", "12.0"),
        ("NVIDIA GeForce RTX 5090", "NVIDIA GeForce RTX 5090", "12.0"),
        ("GeForce RTX 4090", "NVIDIA GeForce RTX 4090", "8.9"),
        ("5090", "NVIDIA GeForce RTX 5090", "12.0"),
        ("5060 Ti", "NVIDIA GeForce RTX 5060 Ti", "12.0"),
        ("RTX 5090 Laptop", "NVIDIA GeForce RTX 5090 Laptop GPU", "12.0"),
        ("H200", "NVIDIA H200", "9.0"),
        ("Tesla T4", "Tesla T4", "7.5"),
        ("T4", "Tesla T4", "7.5"),
        ("B300", "NVIDIA B300 SXM6 AC", "10.3"),
        ("GB10", "NVIDIA GB10", "12.1"),
        ("Jetson AGX Orin", "Jetson AGX Orin", "8.7"),
        ("Thor", "NVIDIA Thor", "11.0"),
    ],
)
def test_a_name_is_found_however_it_is_written(text: str, name: str, capability: str) -> None:
    gpu = resolve_gpu(KNOWLEDGE, text)
    assert (gpu.name, str(gpu.arch)) == (name, capability)
    assert gpu.status


@pytest.mark.parametrize(
    ("text", "capability"),
    [
        ("12.0", "12.0"),
        ("9.0a", "9.0a"),
        ("sm_120", "12.0"),
        ("compute_90a", "9.0a"),
        ("SM_86", "8.6"),
    ],
)
def test_a_capability_is_taken_as_one(text: str, capability: str) -> None:
    assert str(resolve_gpu(KNOWLEDGE, text).arch) == capability


@pytest.mark.parametrize("text", ["sm_130", "13.0", "8.6a"])
def test_a_capability_that_no_toolkit_makes_is_refused(text: str) -> None:
    with pytest.raises(KnowledgeError, match="no known CUDA toolkit"):
        resolve_gpu(KNOWLEDGE, text)


@pytest.mark.parametrize(
    ("text", "capability"),
    [
        ("RTX 2050", "8.6"),
        ("RTX 3050 A Laptop", "8.9"),
        ("MX570", "8.6"),
        ("MX450", "7.5"),
        ("GTX 1650", "7.5"),
        ("A30", "8.0"),
        ("A10", "8.6"),
        ("A2", "8.6"),
        ("RTX A6000", "8.6"),
        ("RTX 6000 Ada", "8.9"),
        ("Quadro RTX 6000", "7.5"),
        ("RTX PRO 6000 Blackwell", "12.0"),
    ],
)
def test_marketing_digits_do_not_mislead(text: str, capability: str) -> None:
    assert str(resolve_gpu(KNOWLEDGE, text).arch) == capability


def test_a_name_of_several_products_of_one_capability_is_kept_as_written() -> None:
    gpu = resolve_gpu(KNOWLEDGE, "A100")
    assert (gpu.name, str(gpu.arch)) == ("A100", "8.0")
    assert "all 5 of that name" in gpu.status


@pytest.mark.parametrize("text", ["RTX 4000", "RTX 5000", "rtx6000"])
def test_a_name_of_several_generations_lists_them(text: str) -> None:
    with pytest.raises(KnowledgeError) as caught:
        resolve_gpu(KNOWLEDGE, text)
    assert all(f"({cc})" in caught.value.what for cc in ("7.5", "8.6", "8.9", "12.0"))


def test_bare_digits_are_refused_when_they_mean_two_capabilities() -> None:
    with pytest.raises(KnowledgeError, match="RTX 3050 A Laptop GPU"):
        resolve_gpu(KNOWLEDGE, "3050")
    assert str(resolve_gpu(KNOWLEDGE, "RTX 3050").arch) == "8.6"


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(KnowledgeError) as caught:
        resolve_gpu(KNOWLEDGE, "RTX 5900")
    assert caught.value.what == '"RTX 5900" is not a known GPU'
    assert caught.value.todo == 'did you mean "RTX 5090" (12.0)?'


@pytest.mark.parametrize("text", ["", "gpu", "NVIDIA", "potato"])
def test_a_name_like_no_other_asks_for_the_capability(text: str) -> None:
    with pytest.raises(KnowledgeError) as caught:
        resolve_gpu(KNOWLEDGE, text)
    assert "compute_cap" in caught.value.todo


def test_every_known_name_resolves_to_itself_or_its_twin() -> None:
    for gpu in KNOWLEDGE.gpus:
        assert resolve_gpu(KNOWLEDGE, gpu.name).arch == gpu.arch
        assert resolve_gpu(KNOWLEDGE, short_name(gpu.name).lower()).arch == gpu.arch
