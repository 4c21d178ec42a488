"""The arithmetic of the probe's checks on the CPU, by an interpreter that has a torch: right
results pass, wrong ones do not. Given the folder of the probes.
"""

from __future__ import annotations

import contextlib
import sys

sys.path.insert(0, sys.argv[1])

import execution_checks
import numeric_checks
import speed_checks
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
    print(numeric_checks.check_matmul(CPU), numeric_checks.check_convolution(CPU))
    with refused(), instead(torch.Tensor, "__matmul__", slightly_off):
        numeric_checks.check_matmul(CPU)
    with refused(), instead(torch.nn.functional, "conv2d", slightly_off):
        numeric_checks.check_convolution(CPU)


def tf32():
    assert "not used" in numeric_checks.compare_tf32(torch, lambda a, b: a @ b)
    assert "not used" not in numeric_checks.compare_tf32(
        torch, lambda a, b: cut(a, 13) @ cut(b, 13)
    )
    with refused():
        numeric_checks.compare_tf32(torch, lambda a, b: cut(a, 18) @ cut(b, 18))


def switched():
    """Every switch is what it was."""
    switches = numeric_checks.list_switches(torch, tf32=True)
    before = [getattr(owner, name) for owner, name, _ in switches]
    for tf32 in (False, True):
        with numeric_checks.use_float32_sums(tf32):
            assert [getattr(owner, name) for owner, name, _ in switches] != before
    assert [getattr(owner, name) for owner, name, _ in switches] == before


def sums():
    print(numeric_checks.check_reduction(CPU))
    for name in ("sum", "mean", "amax"):
        with refused(), instead(torch.Tensor, name, slightly_off):
            numeric_checks.check_reduction(CPU)


def slopes():
    """In float64 autograd is the closed form, and what float32 does stays below the bound."""
    print(numeric_checks.check_autograd(CPU))
    with refused(), instead(numeric_checks, "compute_gradients", a_bit_more):
        numeric_checks.check_autograd(CPU)


def a_bit_more(right, *given):
    return tuple(slightly_off(lambda found=found: found) for found in right(*given))


def replays():
    first, second = torch.randn(2, 5, 7)
    print(
        execution_checks.compare_replays(
            torch, execution_checks.compute_graph_sample, first, second
        )
    )
    with refused():  # one that does not look at what it is given
        execution_checks.compare_replays(
            torch, lambda x: execution_checks.compute_graph_sample(first), first, second
        )


def compiler():
    print(execution_checks.check_compile(CPU))
    x = torch.randn(129, 1023)
    with refused():
        execution_checks.compare_with_float64(
            x, execution_checks.compute_compile_sample(x) * (1 + 2.0**-9)
        )


def processes():
    execution_checks.check_all_reduce(torch, CPU, "gloo")
    with refused(), instead(torch.distributed, "all_reduce", lambda right, x, op: x.add_(1)):
        execution_checks.check_all_reduce(torch, CPU, "gloo")
    assert not torch.distributed.is_initialized()


def rates():
    assert speed_checks.measure_copy_rate(torch, CPU, size=1 << 20) > 0
    assert speed_checks.measure_multiply_rate(torch, CPU, torch.float32, n=64) > 0


if __name__ == "__main__":
    for part in (products, tf32, switched, sums, slopes, replays, compiler, processes, rates):
        part()
        print(f"{part.__name__}: right")
