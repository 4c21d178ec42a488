"""torch.compile against the same function as it stands. Part of torch_probe."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import tempfile

from verdicts import NothingToTryError, WrongResultError, format_error_share  # beside this script

CACHE_VARIABLES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
UNSUPPORTED = re.compile(  # by torch, and not by the card: ptxas words its refusals much alike
    r"(?:Dynamo|torch\.compile) is not supported on|not yet supported for torch\.compile"
    r"|too old to be supported by the triton"
)


def check_compile(where):
    """Kernels are made anew each time, by triton on a card: nothing is taken from a cache."""
    import torch

    if where.type != "cpu" and importlib.util.find_spec("triton") is None:
        raise NothingToTryError("no triton")
    torch.manual_seed(0)
    x = torch.randn(129, 1023)
    with use_empty_caches():
        found, kernels = run_compiled(torch, x.to(where))
    if not kernels:
        raise WrongResultError("torch.compile made no kernel of its own")
    return f"{compare_with_float64(x, found.cpu())} of the bound; {kernels} made for {where.type}"


def compute_compile_sample(x):
    return (x * 2 + 1).relu().sum(dim=1)


def run_compiled(torch, x):
    """What the compiled function gives, and how many kernels were made for it."""
    try:
        found = torch.compile(compute_compile_sample, fullgraph=True)(x)
    except RuntimeError as error:
        if UNSUPPORTED.search(str(error)):
            raise NothingToTryError(str(error)) from error
        raise
    from torch._inductor import metrics

    kernels = metrics.generated_kernel_count
    return found, f"{kernels} kernel{'s' * (kernels > 1)}" if kernels else ""


def compare_with_float64(x, found):
    """Each term is rounded three times, a sum of n numbers by n u sum|x| (Higham 2002, 4.2)."""
    exact = x.double()
    bound = (x.shape[1] + 3) * 2.0**-24 * (2 * exact.abs() + 1).sum(dim=1)
    return format_error_share("float32", found, compute_compile_sample(exact), bound)


@contextlib.contextmanager
def use_empty_caches():
    """The caches of both compilers in a folder of this time alone, and no worker processes."""
    folder = tempfile.mkdtemp(prefix="torchyard-")
    before = dict(os.environ)
    os.environ.update(
        {**dict.fromkeys(CACHE_VARIABLES, folder), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    )
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(folder, ignore_errors=True)
