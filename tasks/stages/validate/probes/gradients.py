"""Gradients of a small net against float64 on the CPU. Part of torch_probe."""

from __future__ import annotations

from arithmetic import use_float32_sums  # beside this script
from verdicts import format_error_share

FLOAT32_UNIT = 2.0**-24


def check_autograd(where):
    """The net is tanh(x V) W, its loss half the sum of squares of what is off target."""
    import torch

    torch.manual_seed(0)
    x, target = torch.randn(61, 33), torch.randn(61, 17)
    weights = torch.randn(33, 47) / 6, torch.randn(47, 17) / 7
    exact = compute_gradients(torch, *(t.double() for t in (x, target, *weights)))
    with use_float32_sums():
        found = compute_gradients(torch, *(t.to(where) for t in (x, target, *weights)))
    allowed = compute_gradient_bounds(torch, *(t.double() for t in (x, target, *weights)))
    shown = [
        format_error_share(name, one.cpu(), right, bound)
        for name, one, right, bound in zip("VW", found, exact, allowed)  # noqa: B905 (Python 3.9)
    ]
    bound = f"of the bound on {where.type} (each step's rounding, to first order, twice)"
    return f"gradients of tanh(x V) W: {', '.join(shown)} {bound}"


def compute_gradients(torch, x, target, v, w):
    """By autograd, of both weights, where its inputs lie."""
    v, w = v.clone().requires_grad_(), w.clone().requires_grad_()
    loss = ((torch.tanh(x @ v) @ w - target) ** 2).sum() / 2
    return torch.autograd.grad(loss, (v, w))


def compute_gradient_bounds(torch, x, target, v, w):
    """How far rounding to float32 may take both gradients: each step's own error, and what came in,
    to first order (Higham 2002, sections 3.1 and 3.5), doubled for what is of higher order.

    A sum of k products errs by 2 k u |A||B| as in matmul, tanh by 4 u, and does not amplify.
    """
    h = torch.tanh(x @ v)
    r = h @ w - target
    back = r @ w.t()
    dh = compute_product_error(x, v) + 4 * FLOAT32_UNIT
    dr = dh @ w.abs() + compute_product_error(h, w) + FLOAT32_UNIT * r.abs()
    dback = dr @ w.t().abs() + compute_product_error(r, w.t())
    slope = 1 - h * h
    dslope = 2 * h.abs() * dh + 3 * FLOAT32_UNIT
    inner, dinner = back * slope, dback * slope + back.abs() * (dslope + FLOAT32_UNIT)
    dv = x.t().abs() @ dinner + compute_product_error(x.t(), inner)
    dw = dh.t() @ r.abs() + h.t().abs() @ dr + compute_product_error(h.t(), r)
    return 2 * dv, 2 * dw


def compute_product_error(a, b):
    """The error of a @ b alone: 2 k u |a||b|."""
    return 2 * a.shape[1] * FLOAT32_UNIT * (a.abs() @ b.abs())
