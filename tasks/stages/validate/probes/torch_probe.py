"""Looks at a torch from inside, run by the interpreter that has it; needs nothing but torch.

Given on the command line: a JSON object with `checks`, `version`, `folder`, `cuda`, `cards` (how
many the driver names) and `imports` (extension → modules). Prints a JSON object per line: name,
status, detail, remedy. The lines `gpu` and `archs` have the status "data": what they say is judged
by the caller.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

BOUND = "bound: 2 k 2^-24 |A||B| + one rounding of the result"
REBUILD = "build for this card: target.gpus: auto, then doit build"
UNUSABLE = "see that nvidia-smi works, and that the driver is new enough for this CUDA"


class NothingToTryError(Exception):
    """A check that has nothing to look at, with the reason."""


class WrongResultError(Exception):
    """A check that failed, with what to do about it."""

    def __init__(self, detail, remedy=""):
        super().__init__(detail)
        self.remedy = remedy


def say(name, status, detail, remedy=""):
    line = {
        "name": name,
        "status": status,
        "detail": " ".join(str(detail).split()),
        "remedy": remedy,
    }
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def check(name, function, *arguments):
    """Run one check and say how it ended; no exception of it ends the others."""
    try:
        say(name, "passed", function(*arguments))
    except NothingToTryError as reason:
        say(name, "not run", reason)
    except WrongResultError as error:
        say(name, "failed", error, error.remedy)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        remedy = REBUILD if "no kernel image" in str(error) else ""
        say(
            name,
            "failed",
            f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}",
            remedy,
        )


def no_gpu(given):
    """Why there is no card to try, "" where there is one, usable or not."""
    import torch

    if torch.version.cuda is None:
        return "torch without CUDA"
    if torch.cuda.is_available():
        return ""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return "no GPU (CUDA_VISIBLE_DEVICES hides it)"
    return "" if given["cards"] else "no GPU"


def device_for_work(given):
    """cuda, or cpu where this torch knows no other; raises where there is no card to work on."""
    import torch

    if torch.version.cuda is None:
        return torch.device("cpu")
    if reason := no_gpu(given):
        raise NothingToTryError(reason)
    try:
        torch.cuda.init()
    except Exception as error:
        raise WrongResultError(
            f"there is a card, but torch cannot use it: {error}", UNUSABLE
        ) from error
    return torch.device("cuda")


def version(given):
    import torch

    found, wanted = str(torch.__version__), given["version"]
    if found != wanted and ("+" in wanted or found.partition("+")[0] != wanted):
        raise WrongResultError(
            f"this is torch {found}, not {wanted}", "run doit build, then doit validate"
        )
    folder = Path(torch.__file__).resolve().parent
    if folder != Path(given["folder"]).resolve():
        raise WrongResultError(
            f"torch comes from {folder}, not from {given['folder']}",
            "remove the other torch, or PYTHONPATH",
        )
    return found


def cuda(given):
    import torch

    found, wanted = torch.version.cuda, given["cuda"]
    if found != wanted:
        raise WrongResultError(
            f"built with CUDA {found or 'none'}, not {wanted or 'none'}",
            "see toolkit.version and torch.index",
        )
    return f"CUDA {found}" if found else "built without CUDA"


def device(given):
    import torch

    if reason := no_gpu(given):
        raise NothingToTryError(reason)
    device_for_work(given)
    card = torch.cuda.get_device_properties(0)
    return f"{card.name}, {card.total_memory / 2**30:.1f} GiB, capability {card.major}.{card.minor}"


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


def matmul(given):
    """Against float64 on the CPU, element by element.

    A float32 sum of k products errs by at most k u |A||B| with u = 2^-24 (Higham 2002, section
    3.5); twice that, since tensor cores truncate. The sum is then rounded once to its type.
    """
    import torch

    where = device_for_work(given)
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


def convolution(given):
    """Against float64 on the CPU, bound 16 k 2^-24 |x||w| for k products a sum.

    The 16 leaves room for cuDNN's Winograd and FFT algorithms; TF32 would be far outside.
    """
    import torch

    where = device_for_work(given)
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
    return f"{name} {share:.2f}"


def modules(names):
    for name in names:
        importlib.import_module(name)
    return ", ".join(names)


def arch_flags():
    """What this torch was compiled for, also where there is no card: "sm_90 sm_120 compute_120"."""
    import torch

    flags = getattr(torch._C, "_cuda_getArchFlags", lambda: None)()
    return flags if flags is not None else " ".join(torch.cuda.get_arch_list())


def importing():
    import torch

    return f"torch {torch.__version__} from {Path(torch.__file__).parent}"


CHECKS = {
    "version": version,
    "cuda": cuda,
    "device": device,
    "matmul": matmul,
    "convolution": convolution,
}


def main(given):
    check("import", importing)
    if "torch" not in sys.modules:
        return
    say("gpu", "data", no_gpu(given))
    say("archs", "data", arch_flags())
    for name, function in CHECKS.items():
        if name in given["checks"]:
            check(name, function, given)
    for name, imports in given["imports"].items():
        check(f"{name}: import", modules, imports)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
