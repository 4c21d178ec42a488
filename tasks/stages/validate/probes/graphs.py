"""A CUDA graph, captured once and replayed with other input. Part of torch_probe."""

from __future__ import annotations

from verdicts import WRONG_HINT, WrongResultError  # beside this script


def check_graph(where):
    """What is replayed equals what runs by itself, bit for bit: the kernels are the same."""
    import torch

    torch.manual_seed(0)
    first, second = torch.randn(63, 1025).to(where), torch.randn(63, 1025).to(where)
    return compare_replays(torch, capture_graph(torch, first), first, second)


def compute_graph_sample(x):
    return (x * 3 + 1).tanh().sum(dim=1)


def capture_graph(torch, first):
    """Input → what the graph makes of it. It runs beside first, as capturing wants it
    (https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs).
    """
    held, beside = first.clone(), torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(3):
            compute_graph_sample(held)
    torch.cuda.current_stream().wait_stream(beside)
    made = torch.cuda.CUDAGraph()
    with torch.cuda.graph(made):
        left = compute_graph_sample(held)

    def replay_graph(x):
        held.copy_(x)
        made.replay()
        return left.clone()

    return replay_graph


def compare_replays(torch, replay, first, second):
    """There, to other input, and back."""
    for number, x in enumerate((first, second, first), start=1):
        if not torch.equal(replay(x), compute_graph_sample(x)):
            raise WrongResultError(
                f"replay {number} is not what the same work gives alone", WRONG_HINT
            )
    return "captured once; 3 replays, with new input each, equal the work done alone"
