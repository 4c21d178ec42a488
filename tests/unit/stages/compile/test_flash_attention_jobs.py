"""The depth of Ninja's pool for flash-attention, in trees that have one and in others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.stages.compile.build_context_io import (
    KERNEL_JOBS_VARIABLE,
    build_kernel_variables,
    find_forwarded_variables,
)
from tasks.system.hardware import capacity

CUDA = {"USE_CUDA": "1"}
FORWARDING = f"set(_ENV_PASSTHROUGH\n  BLAS\n  {KERNEL_JOBS_VARIABLE}\n)\n"


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen processors, 24 GiB."""
    monkeypatch.setattr(capacity, "count_processors", lambda: 16)
    monkeypatch.setattr(capacity, "find_memory_limit", lambda _: 24 * 1024)


def tree_with(folder: Path, text: str = FORWARDING) -> Path:
    (folder / "cmake").mkdir()
    (folder / "cmake" / "EnvVarForwarding.cmake").write_text(text, encoding="utf-8")
    return folder


def test_an_elastic_build_is_not_limited_by_it(tmp_path: Path) -> None:
    assert build_kernel_variables(tree_with(tmp_path), CUDA, None, elastic=True) == {
        KERNEL_JOBS_VARIABLE: "16"
    }


@pytest.mark.parametrize(("jobs", "deep"), [(1, "1"), (3, "3"), (64, "4"), (None, "4")])
def test_a_fixed_number_is_kept_to_what_memory_there_is_at_all(
    tmp_path: Path, jobs: int | None, deep: str
) -> None:
    tree = tree_with(tmp_path)
    assert build_kernel_variables(tree, CUDA, jobs, elastic=False) == {KERNEL_JOBS_VARIABLE: deep}
    if jobs:  # where memory governs, it need not keep to that
        assert build_kernel_variables(tree, CUDA, jobs, elastic=True) == {
            KERNEL_JOBS_VARIABLE: str(jobs)
        }


def test_one_kernel_is_made_however_little_memory_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity, "find_memory_limit", lambda _: 2 * 1024)
    assert build_kernel_variables(tree_with(tmp_path), CUDA, 8, elastic=False) == {
        KERNEL_JOBS_VARIABLE: "1"
    }


def test_a_value_of_a_person_is_left_alone(tmp_path: Path) -> None:
    assert (
        build_kernel_variables(
            tree_with(tmp_path), {**CUDA, KERNEL_JOBS_VARIABLE: "2"}, None, elastic=True
        )
        == {}
    )


@pytest.mark.parametrize("variables", [{}, {"USE_CUDA": "0"}, {"USE_CUDA": "OFF"}])
def test_a_build_without_cuda_has_no_such_kernels(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    assert build_kernel_variables(tree_with(tmp_path), variables, None, elastic=True) == {}


def test_a_tree_that_does_not_take_it_gets_none(tmp_path: Path) -> None:
    assert build_kernel_variables(tmp_path, CUDA, None, elastic=True) == {}
    told = tree_with(
        tmp_path,
        f"#   {KERNEL_JOBS_VARIABLE}  gone\nset(_ENV_PASSTHROUGH\n  BLAS # "
        f"{KERNEL_JOBS_VARIABLE}\n)",
    )
    assert not find_forwarded_variables(told)
    assert build_kernel_variables(told, CUDA, None, elastic=True) == {}
