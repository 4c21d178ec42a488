"""Tests of the depth of Ninja's pool for flash-attention kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.stages.compile.build_context_io import (
    KERNEL_JOBS_VARIABLE,
    build_kernel_variables,
    has_kernel_pool,
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


def test_kernel_jobs_of_elastic_build_equal_processor_count(tmp_path: Path) -> None:
    assert build_kernel_variables(tree_with(tmp_path), CUDA, None, elastic=True) == {
        KERNEL_JOBS_VARIABLE: "16"
    }


@pytest.mark.parametrize(("jobs", "depth"), [(1, "1"), (3, "3"), (64, "4"), (None, "4")])
def test_kernel_jobs_of_fixed_build_are_limited_by_memory(
    tmp_path: Path, jobs: int | None, depth: str
) -> None:
    tree = tree_with(tmp_path)
    assert build_kernel_variables(tree, CUDA, jobs, elastic=False) == {KERNEL_JOBS_VARIABLE: depth}
    if jobs:  # the governor limits memory instead
        assert build_kernel_variables(tree, CUDA, jobs, elastic=True) == {
            KERNEL_JOBS_VARIABLE: str(jobs)
        }


def test_at_least_one_kernel_job_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "find_memory_limit", lambda _: 2 * 1024)
    assert build_kernel_variables(tree_with(tmp_path), CUDA, 8, elastic=False) == {
        KERNEL_JOBS_VARIABLE: "1"
    }


def test_user_value_for_kernel_jobs_is_kept(tmp_path: Path) -> None:
    assert (
        build_kernel_variables(
            tree_with(tmp_path), {**CUDA, KERNEL_JOBS_VARIABLE: "2"}, None, elastic=True
        )
        == {}
    )


@pytest.mark.parametrize("variables", [{}, {"USE_CUDA": "0"}, {"USE_CUDA": "OFF"}])
def test_cpu_build_gets_no_kernel_jobs(tmp_path: Path, variables: dict[str, str]) -> None:
    assert build_kernel_variables(tree_with(tmp_path), variables, None, elastic=True) == {}


def test_tree_without_forwarding_gets_no_kernel_jobs(tmp_path: Path) -> None:
    assert build_kernel_variables(tmp_path, CUDA, None, elastic=True) == {}
    tree = tree_with(
        tmp_path,
        f"#   {KERNEL_JOBS_VARIABLE}  gone\nset(_ENV_PASSTHROUGH\n  BLAS # "
        f"{KERNEL_JOBS_VARIABLE}\n)",
    )
    assert not has_kernel_pool(tree)
    assert build_kernel_variables(tree, CUDA, None, elastic=True) == {}
