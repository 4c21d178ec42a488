"""The arithmetic of the probe's checks on the CPU, by an interpreter that has a torch: right
results pass, wrong ones do not. Given the folder of the probes.
"""

from __future__ import annotations

import contextlib
import sys

sys.path.insert(0, sys.argv[1])

import arithmetic
import communication
import compiling
import gradients
import graphs
import reductions
import speed
import torch
from verdicts import WrongResultError

CPU = torch.device("cpu")


@contextlib.contextmanager
def refused():
    try:
        yield
    except WrongResultError as error:
        print(f"refused: {error}")
    else:
        raise AssertionError("a wrong result passed")


@contextlib.contextmanager
def instead(owner, name, wrong):
    """`wrong` is given what stood there, and the arguments."""
    right = getattr(owner, name)
    setattr(owner, name, lambda *given, **named: wrong(right, *given, **named))
    try:
        yield
    finally:
        setattr(owner, name, right)


def slightly_off(right, *given, **named):
    """In float32 alone: what it is compared with stays right."""
    found = right(*given, **named)
    return found * (1 + 2.0**-9) if found.dtype == torch.float32 else found


def cut(tensor, bits):
    """What a format keeps that has so many bits less than float32."""
    return (tensor.view(torch.int32) & -(1 << bits)).view(torch.float32)


def products():
    print(arithmetic.matmul(CPU), arithmetic.convolution(CPU))
    with refused(), instead(torch.Tensor, "__matmul__", slightly_off):
        arithmetic.matmul(CPU)
    with refused(), instead(torch.nn.functional, "conv2d", slightly_off):
        arithmetic.convolution(CPU)


def tf32():
    assert "not used" in arithmetic.one_tf32(torch, lambda a, b: a @ b)
    assert "not used" not in arithmetic.one_tf32(torch, lambda a, b: cut(a, 13) @ cut(b, 13))
    with refused():
        arithmetic.one_tf32(torch, lambda a, b: cut(a, 18) @ cut(b, 18))


def switched():
    """Every switch is what it was."""
    switches = arithmetic.switches(torch, tf32=True)
    before = [getattr(owner, name) for owner, name, _ in switches]
    for tf32 in (False, True):
        with arithmetic.float32_sums(tf32):
            assert [getattr(owner, name) for owner, name, _ in switches] != before
    assert [getattr(owner, name) for owner, name, _ in switches] == before


def sums():
    print(reductions.reduction(CPU))
    for name in ("sum", "mean", "amax"):
        with refused(), instead(torch.Tensor, name, slightly_off):
            reductions.reduction(CPU)


def slopes():
    """In float64 autograd is the closed form, and what float32 does stays below the bound."""
    print(gradients.autograd(CPU))
    with refused(), instead(gradients, "gradients", a_bit_more):
        gradients.autograd(CPU)


def a_bit_more(right, *given):
    return tuple(slightly_off(lambda found=found: found) for found in right(*given))


def replays():
    first, second = torch.randn(2, 5, 7)
    print(graphs.compared(torch, graphs.work, first, second))
    with refused():  # one that does not look at what it is given
        graphs.compared(torch, lambda x: graphs.work(first), first, second)


def compiler():
    print(compiling.compiled(CPU))
    x = torch.randn(129, 1023)
    with refused():
        compiling.against_float64(x, compiling.work(x) * (1 + 2.0**-9))


def processes():
    communication.reduced(torch, CPU, "gloo")
    with refused(), instead(torch.distributed, "all_reduce", lambda right, x, op: x.add_(1)):
        communication.reduced(torch, CPU, "gloo")
    assert not torch.distributed.is_initialized()


def rates():
    assert speed.copy_rate(torch, CPU, size=1 << 20) > 0
    assert speed.multiply_rate(torch, CPU, torch.float32, n=64) > 0


if __name__ == "__main__":
    for part in (products, tf32, switched, sums, slopes, replays, compiler, processes, rates):
        part()
        print(f"{part.__name__}: right")
