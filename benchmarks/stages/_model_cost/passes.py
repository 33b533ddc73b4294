"""The passes that are timed: forward, forward and backward, and one token through a full cache."""

from collections.abc import Callable
from typing import Any

import torch

_CHUNK = 128  # tokens at a time into a cache: attention weights of more would take long


def forward(model: Any, idx: torch.Tensor) -> Callable[[], torch.Tensor]:
    """The loss, as an evaluation computes it: float32 weights, bfloat16 autocast, no gradients."""

    @torch.no_grad()
    def call() -> torch.Tensor:
        with torch.autocast(idx.device.type, torch.bfloat16):
            return model(idx[:, :-1], idx[:, 1:])[1]

    return call


def training(model: Any, idx: torch.Tensor, *, keep: bool = False) -> Callable[[], torch.Tensor]:
    """The loss and the gradients of all weights, as a trainer computes them before its step; they
    are dropped again unless `keep`, as those of twenty models would fill the device."""

    @torch.enable_grad()
    def call() -> torch.Tensor:
        with torch.autocast(idx.device.type, torch.bfloat16):
            loss = model(idx[:, :-1], idx[:, 1:])[1]
        loss.backward()
        if not keep:
            model.zero_grad(set_to_none=True)
        return loss.detach()

    return call


@torch.no_grad()
def filled(model: Any, idx: torch.Tensor) -> Any:
    """A cache that holds all tokens of `idx`."""
    cache = model.new_cache(idx.shape[0])
    for chunk in idx.split(_CHUNK, dim=1):
        _, _, cache = model(chunk, cache=cache)
    return cache


def decode(model: Any, cache: Any, last: torch.Tensor) -> Callable[[], torch.Tensor]:
    """Scores after one more token, [B, V]; the cache is put back, so that every call is alike.

    What a cache keeps of the whole sequence goes on, which changes values and not the work.
    """
    length = cache.length

    @torch.no_grad()
    def call() -> torch.Tensor:
        logits, _, after = model(last, cache=cache)
        assert after is cache
        rewind(cache, length)
        return logits[:, -1]

    return call


def rewind(cache: Any, length: int) -> None:
    """Forget what came behind `length`; the states of whole sequences stay as they are."""
    cache.length = length
    for layer in cache.layers:
        layer.start = length


def captured(call: Callable[[], torch.Tensor], pool: Any = None) -> Callable[[], torch.Tensor]:
    """The same call as the replay of a CUDA graph: kernels without the launches of Python.

    Graphs of one `pool` use the same memory, one after the other.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # what is done only once must not be captured
        for _ in range(2):
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        result = call()

    def replay() -> torch.Tensor:
        graph.replay()
        return result

    return replay
