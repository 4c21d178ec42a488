"""torch.compile against the same function as it stands. Part of torch_probe."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import tempfile

from verdicts import NothingToTryError, WrongResultError, judged  # beside this script

FOLDERS = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
UNSUPPORTED = re.compile(  # by torch, and not by the card: ptxas words its refusals much alike
    r"(?:Dynamo|torch\.compile) is not supported on|not yet supported for torch\.compile"
    r"|too old to be supported by the triton"
)


def compiled(where):
    """Kernels are made anew each time, by triton on a card: nothing is taken from a cache."""
    import torch

    if where.type != "cpu" and importlib.util.find_spec("triton") is None:
        raise NothingToTryError("no triton")
    torch.manual_seed(0)
    x = torch.randn(129, 1023)
    with anew():
        found, kernels = through_compiler(torch, x.to(where))
    if not kernels:
        raise WrongResultError("torch.compile made no kernel of its own")
    return f"{against_float64(x, found.cpu())} of the bound; {kernels} made for {where.type}"


def work(x):
    return (x * 2 + 1).relu().sum(dim=1)


def through_compiler(torch, x):
    """What the compiled function gives, and how many kernels were made for it."""
    try:
        found = torch.compile(work, fullgraph=True)(x)
    except RuntimeError as error:
        if UNSUPPORTED.search(str(error)):
            raise NothingToTryError(str(error)) from error
        raise
    from torch._inductor import metrics

    kernels = metrics.generated_kernel_count
    return found, f"{kernels} kernel{'s' * (kernels > 1)}" if kernels else ""


def against_float64(x, found):
    """Each term is rounded three times, a sum of n numbers by n u sum|x| (Higham 2002, 4.2)."""
    exact = x.double()
    bound = (x.shape[1] + 3) * 2.0**-24 * (2 * exact.abs() + 1).sum(dim=1)
    return judged("float32", found, work(exact), bound)


@contextlib.contextmanager
def anew():
    """The caches of both compilers in a folder of this time alone, and no worker processes."""
    folder = tempfile.mkdtemp(prefix="torchyard-")
    before = dict(os.environ)
    os.environ.update({**dict.fromkeys(FOLDERS, folder), "TORCHINDUCTOR_COMPILE_THREADS": "1"})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(folder, ignore_errors=True)
