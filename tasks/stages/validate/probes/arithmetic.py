"""A card's arithmetic against float64 on the CPU, with the bounds stated. Part of torch_probe."""

from __future__ import annotations

BOUND = "bound: 2 k 2^-24 |A||B| + one rounding of the result"


class WrongResultError(Exception):
    """A check that failed, with what to do about it."""

    def __init__(self, detail, remedy=""):
        super().__init__(detail)
        self.remedy = remedy


def only_float32():
    """No TF32 and no 16-bit partial sums: the bounds are those of float32 sums."""
    import torch

    for owner in (torch.backends.cuda.matmul, getattr(torch.backends.cudnn, "conv", None)):
        if hasattr(owner, "fp32_precision"):
            owner.fp32_precision = "ieee"
    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False


def matmul(where):
    """Against float64 on the CPU, element by element.

    A float32 sum of k products errs by at most k u |A||B| with u = 2^-24 (Higham 2002, section
    3.5); twice that, since tensor cores truncate. The sum is then rounded once to its type.
    """
    import torch

    only_float32()
    torch.manual_seed(0)
    dtypes = (
        (torch.float32,) if where.type == "cpu" else (torch.float32, torch.float16, torch.bfloat16)
    )
    shown = [one_matmul(torch, where, dtype) for dtype in dtypes]
    return f"{', '.join(shown)} of the bound on {where.type} ({BOUND})"


def one_matmul(torch, where, dtype):
    k = 512
    a, b = torch.randn(257, k).to(dtype), torch.randn(k, 255).to(dtype)
    exact = a.double() @ b.double()
    found = (a.to(where) @ b.to(where)).cpu()
    unit = torch.finfo(dtype).eps / 2
    bound = 2 * k * 2.0**-24 * (a.double().abs() @ b.double().abs()) + unit * exact.abs()
    return judged(str(dtype).removeprefix("torch."), found, exact, bound)


def convolution(where):
    """Against float64 on the CPU, bound 16 k 2^-24 |x||w| for k products a sum.

    The 16 leaves room for cuDNN's Winograd and FFT algorithms.
    """
    import torch

    only_float32()
    torch.manual_seed(0)
    x, w = torch.randn(4, 16, 33, 35), torch.randn(32, 16, 3, 3)
    conv = torch.nn.functional.conv2d
    exact = conv(x.double(), w.double(), padding=1)
    bound = 16 * 144 * 2.0**-24 * conv(x.double().abs(), w.double().abs(), padding=1)
    found = conv(x.to(where), w.to(where), padding=1).cpu()
    library = f"cuDNN {torch.backends.cudnn.version()}" if where.type == "cuda" else "cpu"
    return f"{judged('float32', found, exact, bound)} of the bound on {library} (16 k 2^-24 |x||w|)"


def judged(name, found, exact, bound):
    """How much of its bound the largest error takes; WrongResultError where it is more than all."""
    share = ((found.double() - exact).abs() / bound).max().item()
    if not share <= 1:  # NaN is wrong, too
        raise WrongResultError(
            f"{name}: the error is {share:.3g} times its bound",
            "this card or its driver computes wrongly",
        )
    return f"{name} {share:.2g}"
