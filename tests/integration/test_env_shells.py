"""env.sh in real shells, with hostile names and values by the hundred."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.support.checkout import MOMENTS
from tests.support.shellcases import EVERY_SHELL, SHELLS, Case, cases, require_all

pytestmark = pytest.mark.integration

BATCH = 50


@pytest.mark.parametrize("shell", EVERY_SHELL)
def test_nothing_in_a_name_or_a_value_is_executed_or_lost(shell: str, tmp_path: Path) -> None:
    try_batches(shell, 4, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    ("shell", "batches"),
    [
        pytest.param("dash", 13, marks=pytest.mark.needs("dash")),
        pytest.param("bash", 4, marks=pytest.mark.needs("bash")),
        pytest.param("zsh", 3, marks=pytest.mark.needs("zsh")),
    ],
)
def test_a_thousand_values_run_nothing_either(shell: str, batches: int, tmp_path: Path) -> None:
    """The shell that starts fastest gets the most."""
    try_batches(shell, batches * MOMENTS, tmp_path)


def try_batches(shell: str, batches: int, folder: Path) -> None:
    tried = 0

    # a case that fails is told as it is: to shrink fifty of them takes minutes
    @settings(
        max_examples=batches,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(batch=st.lists(cases, min_size=BATCH, max_size=BATCH))
    def holds(batch: list[Case]) -> None:
        nonlocal tried
        place = folder / "batch"
        place.mkdir()
        require_all(SHELLS[shell], place, batch, "C.UTF-8")
        shutil.rmtree(place)
        tried += len(batch)

    holds()
    assert tried >= batches * BATCH
