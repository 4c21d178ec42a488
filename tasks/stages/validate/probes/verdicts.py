"""How a check ends that does not pass, and how an error is held against its bound.

Part of torch_probe.
"""

from __future__ import annotations

WRONG_HINT = "this card or its driver computes wrongly"


class WrongResultError(Exception):
    """A check that failed, with what to do about it."""

    def __init__(self, detail, remedy=""):
        super().__init__(detail)
        self.remedy = remedy


class NothingToTryError(Exception):
    """A check that has nothing to look at, with the reason."""


def format_error_share(name, found, exact, bound):
    """`matmul 0.0022`: the largest error as a share of its bound."""
    return f"{name} {compute_error_share(name, found, exact, bound):.2g}"


def compute_error_share(name, found, exact, bound):
    """How much of its bound the largest error takes; WrongResultError where it is more than all.

    All three have one shape; a bound of 0 allows no error.
    """
    error = (found.double() - exact).abs()
    largest = (error / bound.clamp_min(2.0**-1000)).max().item()
    if not largest <= 1:  # NaN is wrong, too
        raise WrongResultError(f"{name}: the error is {largest:.3g} times its bound", WRONG_HINT)
    return largest
