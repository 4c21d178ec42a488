from __future__ import annotations

import re
from pathlib import Path

import pytest

from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch
from tasks.knowledge.cuda_toolkits import require_toolkit
from tasks.knowledge.facts import GpuFact
from tasks.knowledge.gpus import (
    find_only_machine,
    normalize_gpu_name,
    resolve_gpu,
    shorten_gpu_name,
)
from tasks.knowledge.knowledge_files_io import load_knowledge
from tests.support.newest import NEXT_MAJOR_ARCH, NEXT_MINOR_ARCH
from tests.support.rows import each_row

KNOWLEDGE = load_knowledge(Path(__file__).parents[3] / "config" / "knowledge")


@each_row(
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
def test_gpu_name_is_found_in_any_spelling(text: str, name: str, capability: str) -> None:
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
def test_capability_resolves_to_itself(text: str, capability: str) -> None:
    assert str(resolve_gpu(KNOWLEDGE, text).arch) == capability


@pytest.mark.parametrize(
    "text", ["2.0", "3.0", "sm_21", "8.6a", f"{NEXT_MAJOR_ARCH}a", f"{NEXT_MINOR_ARCH}f"]
)
def test_capability_unsupported_by_every_toolkit_is_refused(text: str) -> None:
    with pytest.raises(KnowledgeError, match="no known CUDA toolkit"):
        resolve_gpu(KNOWLEDGE, text)


@pytest.mark.parametrize("arch", [NEXT_MINOR_ARCH, NEXT_MAJOR_ARCH])
def test_capability_newer_than_all_known_gpus_is_accepted(arch: Arch) -> None:
    for text in (str(arch), arch.sm):
        assert resolve_gpu(KNOWLEDGE, text) == GpuFact(
            f"compute capability {arch}", arch, "unverified: newer than all known GPUs"
        )


@each_row(
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
        ("PRO 6000", "12.0"),
        ("GTX TITAN X", "5.2"),
        ("GTX 1080 Ti", "6.1"),
        ("gtx1050ti", "6.1"),
        ("GTX 980M", "5.2"),
        ("GTX 750 Ti", "5.0"),
        ("P100", "6.0"),
        ("Tesla P40", "6.1"),
        ("M40", "5.2"),
        ("Jetson Thor", "11.0"),
        ("DGX Spark", "12.1"),
    ],
)
def test_model_numbers_are_not_read_as_capabilities(text: str, capability: str) -> None:
    assert str(resolve_gpu(KNOWLEDGE, text).arch) == capability


def test_name_of_several_products_of_one_capability_is_kept_as_written() -> None:
    gpu = resolve_gpu(KNOWLEDGE, "A100")
    assert (gpu.name, str(gpu.arch)) == ("A100", "8.0")
    assert "of that name" in gpu.status


@pytest.mark.parametrize("text", ["RTX 4000", "RTX 5000", "rtx6000"])
def test_name_of_several_generations_is_refused_with_list(text: str) -> None:
    with pytest.raises(KnowledgeError) as caught:
        resolve_gpu(KNOWLEDGE, text)
    assert all(f"({cc})" in caught.value.message for cc in ("7.5", "8.6", "8.9", "12.0"))


@pytest.mark.parametrize(
    ("text", "capabilities"),
    [
        ("Blackwell", "10.0 10.3 11.0 12.0 12.1"),
        ("blackwell laptop", "10.0 10.3 11.0 12.0 12.1"),
        ("RTX PRO Blackwell", "10.0 10.3 11.0 12.0 12.1"),
        ("Ampere", "8.0 8.6 8.7"),
        ("Volta", "7.0 7.2"),
        ("Pascal", "6.0 6.1 6.2"),
        ("TITAN X", "5.2 6.1"),
    ],
)
def test_architecture_of_several_capabilities_is_refused_with_list(
    text: str, capabilities: str
) -> None:
    with pytest.raises(KnowledgeError, match=f'several GPUs match "{text}": ') as caught:
        resolve_gpu(KNOWLEDGE, text)
    assert all(f"({cc})" in caught.value.message for cc in capabilities.split())


@pytest.mark.parametrize(
    ("text", "capability"),
    [
        *(("Hopper", "9.0"), ("Grace Hopper", "9.0"), ("Ada Lovelace", "8.9"), ("ada", "8.9")),
        *(("Turing", "7.5"), ("Rubin", "10.7")),
    ],
)
def test_architecture_of_one_capability_resolves_to_it(text: str, capability: str) -> None:
    gpu = resolve_gpu(KNOWLEDGE, text)
    assert (gpu.name, str(gpu.arch)) == (text, capability)


@each_row("text", ["PRO", "RTX PRO", "RTX", "Tesla", "Laptop GPU", "SXM4", "NVL", "80GB", "Jetson"])
def test_product_line_name_is_no_gpu_even_if_all_have_one_capability(text: str) -> None:
    with pytest.raises(KnowledgeError, match=r"several GPUs match .*, such as") as caught:
        resolve_gpu(KNOWLEDGE, text)
    assert caught.value.hint == "write the full name or the compute capability"


def test_ambiguous_model_number_is_refused() -> None:
    with pytest.raises(KnowledgeError, match="RTX 3050 A Laptop GPU"):
        resolve_gpu(KNOWLEDGE, "3050")
    assert str(resolve_gpu(KNOWLEDGE, "RTX 3050").arch) == "8.6"


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(KnowledgeError) as caught:
        resolve_gpu(KNOWLEDGE, "RTX 5900")
    assert caught.value.message == '"RTX 5900" is not a known GPU'
    assert caught.value.hint == 'did you mean "RTX 5090" (12.0)?'


@each_row(
    ("text", "todo"),
    [
        ("RTX 5080 Super", 'did you mean "RTX 5080" (12.0)?'),
        ("RTX 4080 Ti", 'did you mean "RTX 4080" (8.9)?'),
        ("RXT 5090", 'did you mean "RTX 5090" (12.0)?'),
        ("RTX 509O", 'did you mean "RTX 5090" (12.0)?'),
        ("rtx5O9o", 'did you mean "RTX 5090" (12.0)?'),
        ("RTX 509", 'did you mean "RTX 5090" (12.0)?'),
        ("GTX 2080", 'did you mean "RTX 2080" (7.5)?'),
        ("GB200 NVL72", 'did you mean "GB200" (10.0)?'),
        ("H10", 'did you mean "H100" (9.0)?'),
        ("Jetson Orrin Nano", 'did you mean "Jetson Orin Nano" (8.7)?'),
        ("RTX 3050 B", 'did you mean "RTX 3050" (8.6) or "RTX 3050 A Laptop GPU" (8.9)?'),
    ],
)
def test_suggestion_has_the_same_model_number(text: str, todo: str) -> None:
    with pytest.raises(KnowledgeError) as caught:
        resolve_gpu(KNOWLEDGE, text)
    assert caught.value.hint == todo


def test_processor_name_is_no_gpu() -> None:
    with pytest.raises(KnowledgeError, match='"CPU" is not a GPU') as caught:
        resolve_gpu(KNOWLEDGE, "CPU")
    assert "to build without CUDA, set gpus: []" in caught.value.hint


@pytest.mark.parametrize("text", ["RTX 6090", "RTX 50 series", "K80", "GTX 680", "B400"])
def test_other_generation_is_not_suggested(text: str) -> None:
    with pytest.raises(KnowledgeError) as caught:
        resolve_gpu(KNOWLEDGE, text)
    assert "compute_cap" in caught.value.hint


@each_row("gpu", KNOWLEDGE.gpus, ids=lambda gpu: gpu.name)
def test_misspelt_name_never_suggests_only_another_generation(gpu: GpuFact) -> None:
    with pytest.raises(KnowledgeError) as caught:
        resolve_gpu(KNOWLEDGE, f"{gpu.name} Zzz")
    assert f"({gpu.arch})" in caught.value.hint or "compute_cap" in caught.value.hint


@each_row("gpu", KNOWLEDGE.gpus, ids=lambda gpu: gpu.name)
def test_every_gpu_is_supported_or_refused_with_its_last_toolkit(gpu: GpuFact) -> None:
    for cuda, kit in KNOWLEDGE.toolkits.items():
        if gpu.arch in kit.makes:
            assert require_toolkit(KNOWLEDGE, cuda, [gpu.arch]) == kit
            continue
        with pytest.raises(
            KnowledgeError, match=r"is the (first that can|last that supports it)"
        ) as caught:
            require_toolkit(KNOWLEDGE, cuda, [gpu.arch])
        assert "use CUDA" in caught.value.hint


@pytest.mark.parametrize("text", ["", "gpu", "NVIDIA", "potato"])
def test_unrecognizable_name_asks_for_the_capability(text: str) -> None:
    with pytest.raises(KnowledgeError) as caught:
        resolve_gpu(KNOWLEDGE, text)
    assert "compute_cap" in caught.value.hint


def test_every_known_name_resolves_to_itself_or_an_equivalent() -> None:
    for gpu in KNOWLEDGE.gpus:
        assert resolve_gpu(KNOWLEDGE, gpu.name).arch == gpu.arch
        assert resolve_gpu(KNOWLEDGE, shorten_gpu_name(gpu.name).lower()).arch == gpu.arch


@pytest.mark.parametrize("text", ["Quadro 4000", "quadro 5000", "NVIDIA Quadro 6000", "Quadro600"])
def test_fermi_gpu_is_not_confused_with_newer_gpu_of_same_number(text: str) -> None:
    with pytest.raises(KnowledgeError, match=r"is a Fermi GPU \(2\.[01]\); CUDA 8\.0 is the last"):
        resolve_gpu(KNOWLEDGE, text)
    number = re.sub(r"\D", "", text)
    if number != "600":
        assert str(resolve_gpu(KNOWLEDGE, f"Quadro RTX {number}").arch) == "7.5"


def test_no_obsolete_gpu_is_known_or_supported() -> None:
    known = {normalize_gpu_name(gpu.name) for gpu in KNOWLEDGE.gpus}
    for row in KNOWLEDGE.gpu_notes["too_old"]:
        assert not known & set(map(normalize_gpu_name, row["names"]))
        arch = Arch.parse_capability(row["cc"])
        assert not any(arch in kit.makes for kit in KNOWLEDGE.toolkits.values())


@each_row(
    ("text", "machine"),
    [
        *(("Jetson AGX Orin", "aarch64"), ("Orin", "aarch64"), ("Thor", "aarch64")),
        *(("GH200", "aarch64"), ("DGX Spark", "aarch64"), ("H100", ""), ("B300", ""), ("8.7", "")),
    ],
)
def test_gpu_name_determines_the_machine_type(text: str, machine: str) -> None:
    assert resolve_gpu(KNOWLEDGE, text).machine == machine


@pytest.mark.parametrize(
    ("arch", "machine"),
    [("8.7", "aarch64"), ("11.0", "aarch64"), ("10.1", "aarch64"), ("9.0", ""), ("10.3", "")],
)
def test_capability_has_a_machine_type_if_all_its_gpus_share_it(arch: str, machine: str) -> None:
    assert find_only_machine(KNOWLEDGE, Arch.parse_capability(arch))[0] == machine
