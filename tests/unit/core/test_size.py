"""Sizes are formatted with the fitting unit and no needless digits."""

from __future__ import annotations

import pytest

from tasks.core.text_formatting import format_gib, format_size
from tests.support.rows import each_row


@each_row(
    ("mib", "text"),
    [
        (0, "0 MiB"),
        (511.6, "512 MiB"),
        (1023, "1023 MiB"),
        (1023.7, "1 GiB"),
        (1024, "1 GiB"),
        (4710, "4.6 GiB"),
        (9.9 * 1024, "9.9 GiB"),
        (9.96 * 1024, "10 GiB"),
        (32_607, "32 GiB"),
        (1200 * 1024, "1,200 GiB"),
    ],
)
def test_size_is_formatted_in_fitting_unit(mib: float, text: str) -> None:
    assert format_size(mib) == text


@pytest.mark.parametrize(("mib", "text"), [(512, "0.5"), (10_035, "9.8"), (24_576, "24")])
def test_gib_number_is_formatted_without_unit(mib: int, text: str) -> None:
    assert format_gib(mib) == text
