"""Tables of cases: checked in one test, since collecting a test per row took half a minute in each
process, or a test per row of which most are in the long tier.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

import pytest

Test = Callable[..., None]


def long_but(plain: Container[Any], rows: Iterable[Any]) -> list[Any]:
    """Return the rows for `parametrize`; those that are not in `plain` are in the long tier."""
    return [
        row
        if row in plain
        else pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=pytest.mark.long)
        for row in rows
    ]


def each_row(
    names: str | Sequence[str],
    rows: Iterable[Any] | Callable[[], Iterable[Any]],
    ids: Callable[[Any], object] | Sequence[str] | None = None,
) -> Callable[[Test], Test]:
    """Give a test the rows of a table as `parametrize` does, but as one test.

    It checks every row, and then fails with the errors of all that are wrong, each with its row.
    Fixtures are the same for all rows, so that what a row changes has to be changed back.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    given = rows if callable(rows) else list(rows)

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def check_all(**fixtures: Any) -> None:
            table = list(given() if callable(given) else given)
            assert table, "there are no rows"
            failed: list[BaseException] = []
            for number, row in enumerate(table):
                values = row if len(arguments) > 1 else (row,)
                try:
                    test(**dict(zip(arguments, values, strict=True)), **fixtures)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - a row's, shown below
                    error.add_note(f"in the row {_name_row(ids, number, row)}")
                    failed.append(error)
            if len(failed) == 1:
                raise failed[0]
            if failed:
                raise BaseExceptionGroup(f"{len(failed)} of {len(table)} rows", failed)

        signature = inspect.signature(test)
        others = [one for name, one in signature.parameters.items() if name not in arguments]
        check_all.__dict__["__signature__"] = signature.replace(parameters=others)
        return check_all

    return decorate


def _name_row(ids: Callable[[Any], object] | Sequence[str] | None, number: int, row: Any) -> object:
    if ids is None:
        return repr(row)
    return ids(row) if callable(ids) else ids[number]
