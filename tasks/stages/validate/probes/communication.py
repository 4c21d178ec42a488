"""NCCL with one process: it loads, meets itself and reduces. Part of torch_probe.

Several cards are not tried.
"""

from __future__ import annotations

import datetime
import shutil
import tempfile
from pathlib import Path

from verdicts import WRONG_HINT, NothingToTryError, WrongResultError  # beside this script

TIMEOUT = datetime.timedelta(seconds=60)


def check_nccl(where):
    import torch

    if not (torch.distributed.is_available() and torch.distributed.is_nccl_available()):
        raise NothingToTryError("this torch was built without NCCL")
    check_all_reduce(torch, where, "nccl")
    release = ".".join(str(number) for number in torch.cuda.nccl.version())
    return f"NCCL {release}: all_reduce in a group of one (a second card is not tried)"


def check_all_reduce(torch, where, backend):
    """The sum and the largest over one process are what it gave. They meet in a file."""
    group, folder = torch.distributed, tempfile.mkdtemp(prefix="torchyard-")
    meet = Path(folder, "meeting").as_uri()
    try:
        group.init_process_group(backend, init_method=meet, rank=0, world_size=1, timeout=TIMEOUT)
        for operation in (group.ReduceOp.SUM, group.ReduceOp.MAX):
            compare_all_reduce(torch, where, operation)
    finally:
        if group.is_initialized():
            group.destroy_process_group()
        shutil.rmtree(folder, ignore_errors=True)


def compare_all_reduce(torch, where, operation):
    given = torch.arange(100_003, dtype=torch.float32, device=where)
    found = given.clone()
    torch.distributed.all_reduce(found, op=operation)
    if not torch.equal(found, given):
        raise WrongResultError("all_reduce over one process changed its numbers", WRONG_HINT)
