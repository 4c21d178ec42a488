"""Sums, means and maxima of odd sizes and strides against float64. Part of torch_probe."""

from __future__ import annotations

from verdicts import WRONG_HINT, WrongResultError, compute_error_share  # beside this script

UNIT = 2.0**-24


def check_reduction(where):
    """Each view and dimension by itself; the worst share of its bound is told."""
    import torch

    torch.manual_seed(0)
    shares = [
        compare_reduction(torch, name, view, dim)
        for name, view, dims in build_views(torch, where)
        for dim in dims
    ]
    worst = f"{max(shares):.2g} of the bound at most (n 2^-24 sum|x|)"
    return f"{len(shares)} views on {where.type}: sums and means {worst}, maxima exact"


def build_views(torch, where):
    """(name, view on the device, dimensions): no size is a multiple of a warp's; one does not start
    at the beginning.
    """
    line, sheet = torch.randn(1_000_003).to(where), torch.randn(257, 1023).to(where)
    return (
        ("a line", line, (0,)),
        ("every third", line[1::3], (0,)),
        ("a sheet", sheet, (0, 1, (0, 1))),
        ("its transpose", sheet.t(), (0, 1)),
        ("every second row and seventh column", sheet[::2, 5::7], (0, 1, (0, 1))),
    )


def compare_reduction(torch, name, view, dim):
    """A sum of n numbers errs by at most (n - 1) u sum|x|, u = 2^-24, in any order (Higham 2002,
    section 4.2); a mean is rounded once or twice more. No maximum is rounded.
    """
    exact = view.cpu().double()
    size, total = exact.abs().sum(dim), exact.sum(dim)
    n = exact.numel() // total.numel()
    where = f"{name} over {dim}"
    if not torch.equal(view.amax(dim).cpu().double(), exact.amax(dim)):
        raise WrongResultError(f"the maximum of {where} is another number", WRONG_HINT)
    summed = compute_error_share(f"the sum of {where}", view.sum(dim).cpu(), total, n * UNIT * size)
    mean = view.mean(dim).cpu()
    return max(
        summed,
        compute_error_share(f"the mean of {where}", mean, total / n, (n + 2) * UNIT * size / n),
    )
