"""A place in a cache that is kept on the device, and a step of decoding that is captured there.

A step that reads where it stands from numbers on the device can be captured in a CUDA graph once
and replayed for token after token.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from assay.errors import BadInput

_WARM_UP = 3  # calls before the capture: what is done only once must not be in it


@dataclass(frozen=True, kw_only=True)
class DevicePlace:
    """Place of the next token of each sequence."""

    position: torch.Tensor  # int64 [1]
    lengths: torch.Tensor  # int32 [batch], the next token counted

    @classmethod
    def make(cls, batch: int, device: Any) -> "DevicePlace":
        return cls(
            position=torch.zeros(1, dtype=torch.int64, device=device),
            lengths=torch.zeros(batch, dtype=torch.int32, device=device),
        )

    def put(self, length: int) -> None:
        """Go behind the first `length` tokens."""
        self.position.fill_(length)
        self.lengths.fill_(length + 1)

    def advance(self) -> None:
        self.position.add_(1)
        self.lengths.add_(1)


class CapturedStep:
    """`step(tokens, place)`, int64 [batch, 1] to logits [batch, 1, V], as the replay of a graph.

    It is captured behind the first `length` tokens of a cache, where the first replay writes its
    own token over what that leaves.
    """

    def __init__(
        self,
        step: Callable[[torch.Tensor, DevicePlace], torch.Tensor],
        *,
        batch: int,
        length: int,
        device: Any,
    ) -> None:
        self.place = DevicePlace.make(batch, device)
        self.tokens = torch.zeros(batch, 1, dtype=torch.int64, device=device)
        self._step = step
        self._logits, self._graph = self._captured(length)

    @torch.no_grad()
    def __call__(self, tokens: torch.Tensor, *, length: int, room: int) -> torch.Tensor:
        """Logits after one more token of each sequence, behind `length` others in a cache with room
        for `room`; the next call writes over them."""
        if tokens.shape != self.tokens.shape:
            raise BadInput(
                f"tokens have shape {tuple(tokens.shape)}; wanted {tuple(self.tokens.shape)}, one "
                "new token of each sequence"
            )
        if length >= room:
            raise BadInput(
                f"{length} tokens are in the cache, and there is room for {room}; make it with a "
                "larger capacity, or build a longer model"
            )
        self.tokens.copy_(tokens)
        self.place.put(length)  # a prompt may have been read since the last step
        self._graph.replay()
        return self._logits

    @torch.no_grad()
    def _captured(self, length: int) -> tuple[torch.Tensor, torch.cuda.CUDAGraph]:
        graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP):
                self.place.put(length)
                self._step(self.tokens, self.place)
        torch.cuda.current_stream().wait_stream(side)
        self.place.put(length)
        with torch.cuda.graph(graph):
            logits = self._step(self.tokens, self.place)
        return logits, graph
