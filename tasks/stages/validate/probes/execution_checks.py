"""Checks of CUDA graphs, torch.compile and NCCL. Part of torch_probe."""

import contextlib
import datetime
import importlib.util
import os
import re
import shutil
import tempfile
from pathlib import Path
from unittest import mock

# this module is in the folder of this script
from verdicts import WRONG_HINT, NothingToTryError, WrongResultError, format_error_share


def check_graph(where):
    """Check that replays of a CUDA graph give the same results as direct execution."""
    import torch

    torch.manual_seed(0)
    first, second = torch.randn(63, 1025).to(where), torch.randn(63, 1025).to(where)
    return compare_replays(torch, capture_graph(torch, first), first, second)


def compute_graph_sample(x):
    return (x * 3 + 1).tanh().sum(dim=1)


def capture_graph(torch, first):
    """Capture a CUDA graph, and return a function that replays the graph with a new input.

    Capturing requires warm-up runs in a side stream
    (https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs).
    """
    static_input, stream = first.clone(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            compute_graph_sample(static_input)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        static_output = compute_graph_sample(static_input)

    def replay_graph(x):
        static_input.copy_(x)
        graph.replay()
        return static_output.clone()

    return replay_graph


def compare_replays(torch, replay, first, second):
    """Check that three replays (first input, second, first again) equal direct execution."""
    for number, x in enumerate((first, second, first), start=1):
        if not torch.equal(replay(x), compute_graph_sample(x)):
            message = f"replay {number} of the CUDA graph differs from direct execution"
            raise WrongResultError(message, WRONG_HINT)
    return "3 replays of one CUDA graph, each with new input, equal direct execution"


UNSUPPORTED = re.compile(  # messages of torch; messages of ptxas about the GPU have similar words
    r"(?:Dynamo|torch\.compile) is not supported on|not yet supported for torch\.compile"
    r"|too old to be supported by the triton"
)


def check_compile(where):
    """Check torch.compile with empty caches, so that kernels are compiled (by triton on a GPU)."""
    import torch

    if where.type != "cpu" and importlib.util.find_spec("triton") is None:
        raise NothingToTryError("triton is not installed")
    torch.manual_seed(0)
    x = torch.randn(129, 1023)
    with use_empty_caches():
        result, kernels = run_compiled(torch, x.to(where))
    if not kernels:
        raise WrongResultError("torch.compile generated no kernel")
    share = compare_with_float64(x, result.cpu())
    return f"error {share} of the tolerance; {kernels} generated for {where.type}"


def compute_compile_sample(x):
    return (x * 2 + 1).relu().sum(dim=1)


def run_compiled(torch, x):
    """Return the result, and a text such as "2 kernels", "" if none was generated."""
    try:
        result = torch.compile(compute_compile_sample, fullgraph=True)(x)
    except RuntimeError as error:
        if UNSUPPORTED.search(str(error)):
            raise NothingToTryError(str(error)) from error
        raise
    from torch._inductor import metrics

    kernels = metrics.generated_kernel_count
    return result, f"{kernels} kernel{'s' * (kernels > 1)}" if kernels else ""


def compare_with_float64(x, found):
    """Return the error of the compiled function as a share of the error bound.

    The bound is (n + 3) u sum|x| with u = 2^-24, for three roundings of each term and a sum of n
    terms (Higham 2002, section 4.2).
    """
    reference = x.double()
    bound = (x.shape[1] + 3) * 2.0**-24 * (2 * reference.abs() + 1).sum(dim=1)
    return format_error_share("float32", found, compute_compile_sample(reference), bound)


@contextlib.contextmanager
def use_empty_caches():
    """Use a temporary folder as the cache of Inductor and triton, and compile in this process."""
    folder = tempfile.mkdtemp(prefix="torchyard-")
    caches = {"TORCHINDUCTOR_CACHE_DIR": folder, "TRITON_CACHE_DIR": folder}
    try:
        with mock.patch.dict(os.environ, caches, TORCHINDUCTOR_COMPILE_THREADS="1"):
            yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_nccl(where):
    import torch

    if not (torch.distributed.is_available() and torch.distributed.is_nccl_available()):
        raise NothingToTryError("this torch was built without NCCL")
    check_all_reduce(torch, where, "nccl")
    release = ".".join(map(str, torch.cuda.nccl.version()))
    return f"NCCL {release}: all_reduce in one process (several GPUs were not tested)"


def check_all_reduce(torch, where, backend):
    """Check that all_reduce in a group of one process, by sum and maximum, returns the input."""
    group, folder = torch.distributed, tempfile.mkdtemp(prefix="torchyard-")
    url, timeout = Path(folder, "rendezvous").as_uri(), datetime.timedelta(seconds=60)
    try:
        group.init_process_group(backend, init_method=url, rank=0, world_size=1, timeout=timeout)
        for operation in (group.ReduceOp.SUM, group.ReduceOp.MAX):
            expected = torch.arange(100_003, dtype=torch.float32, device=where)
            reduced = expected.clone()
            group.all_reduce(reduced, op=operation)
            if not torch.equal(reduced, expected):
                raise WrongResultError("all_reduce in one process changed the values", WRONG_HINT)
    finally:
        if group.is_initialized():
            group.destroy_process_group()
        shutil.rmtree(folder, ignore_errors=True)
