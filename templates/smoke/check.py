"""Compares the kernel of torchyard_smoke with float64 on the CPU. One line, exit 0 or 1."""

from __future__ import annotations

import sys

import torch
import torchyard_smoke

N = (1 << 20) + 7  # not a multiple of a block
A = 0.7


def main() -> int:
    """Both results stay within their bounds.

    y is rounded once to float32 (fmaf): |error| <= 2^-24 |y|, doubled here for the smallest
    numbers. A float64 sum of n terms errs by at most n 2^-53 times the sum of their sizes (Higham
    2002, section 4.2); doubled, since both sums err.
    """
    torch.manual_seed(0)
    x, y = torch.randn(N), torch.randn(N)
    a = float(torch.tensor(A, dtype=torch.float32))
    expected = a * x.double() + y.double()
    on_card = y.cuda()
    total = torchyard_smoke.axpy(a, x.cuda(), on_card).cpu().sum().item()
    written = on_card.cpu().double()
    worst = ((written - expected).abs() / expected.abs().clamp_min(2.0**-100)).max().item()
    drift = abs(total - written.sum().item())
    allowed = 2 * N * 2.0**-53 * written.abs().sum().item()
    good = worst <= 2.0**-23 and drift <= allowed
    card = torch.cuda.get_device_name()
    print(
        f"axpy of {N} numbers on {card}: relative error {worst:.1e} (allowed {2.0**-23:.1e}), "
        f"sum off by {drift:.1e} (allowed {allowed:.1e}): {'right' if good else 'WRONG'}"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
