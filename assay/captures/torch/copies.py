"""Brings tensors of one call to the host while the model goes on, never waiting for a device.

What a hook sees may be written over a moment later. On the CPU it is cloned at once. On a GPU it is
cloned in the model's stream, and the clone goes to pinned memory in a stream of its own; only the
writer's thread waits for that. Pinned memory comes from torch's cache of it and goes back there.
"""

from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from assay.captures.manifest import Statistics
from assay.captures.recording import captured_call
from assay.captures.tensor import STORED_AS
from assay.captures.tensor import Tensor as Stored

Finish = Callable[[Tensor], Statistics]


class Copies:
    """Tensors on their way, by name."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._held: dict[str, Tensor] = {}
        self._summaries: dict[str, tuple[Tensor, Finish]] = {}
        self._statistics: dict[str, Callable[[], Statistics]] = {}
        self._arrived: list[torch.cuda.Event] = []

    def take(self, name: str, tensor: Tensor) -> None:
        """Copy a tensor as it is now."""
        self._held[name] = tensor.detach().clone(memory_format=torch.contiguous_format)
        self.nbytes += tensor.numel() * tensor.element_size()

    def take_summary(self, name: str, summary: Tensor, finish: Finish) -> None:
        """Hold a few numbers; `finish` makes statistics of them on the host."""
        self._summaries[name] = summary, finish
        self.nbytes += summary.numel() * summary.element_size()

    def take_statistics(self, name: str, ask: Callable[[], Statistics]) -> None:
        """Statistics that are copied elsewhere; `ask` waits for them."""
        self._statistics[name] = ask

    def send(self) -> None:
        """Begin to copy all that lies on GPUs."""
        for device in {tensor.device for tensor in self._held.values() if tensor.is_cuda}:
            names = [name for name, tensor in self._held.items() if tensor.device == device]
            hosts = self._sent(device, [self._held[name] for name in names])
            self._held.update(zip(names, hosts, strict=True))
        for name, (summary, finish) in self._summaries.items():
            if summary.is_cuda:
                self._summaries[name] = self._sent(summary.device, [summary])[0], finish

    def load(self) -> captured_call.LoadedTensors:
        """What was held, on the host; waits for it. Runs in the writer's thread."""
        for event in self._arrived:
            event.synchronize()
        tensors = {name: stored(tensor) for name, tensor in self._held.items()}
        stats = {name: finish(summary) for name, (summary, finish) in self._summaries.items()}
        stats |= {name: ask() for name, ask in self._statistics.items()}
        return captured_call.LoadedTensors(tensors=tensors, stats=stats)

    def release(self) -> None:
        """Give the memory back."""
        self._held.clear()
        self._summaries.clear()
        self._statistics.clear()

    def _sent(self, device: torch.device, tensors: Sequence[Tensor]) -> list[Tensor]:
        stream = _copying_stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        hosts = []
        with torch.cuda.stream(stream):
            for tensor in tensors:
                host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
                host.copy_(tensor, non_blocking=True)
                tensor.record_stream(stream)  # its memory is not reused before it is copied
                hosts.append(host)
            arrived = torch.cuda.Event(blocking=True)
            arrived.record(stream)
        self._arrived.append(arrived)
        return hosts


@cache
def _copying_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


def dtype_name(tensor: Tensor) -> str:
    """As the store calls it."""
    return _name(tensor.dtype)


@cache
def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def storable(tensor: Tensor) -> bool:
    """Whether the store has the dtype and the tensor has values that can be copied."""
    return dtype_name(tensor) in STORED_AS and is_real(tensor)


def is_real(tensor: Tensor) -> bool:
    """Whether it has values: not while a program is traced, nor on the meta device."""
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    return not (tensor.is_meta or isinstance(tensor, FakeTensor) or wrapped(tensor))


def stored(tensor: Tensor) -> Stored:
    """A tensor on the host as the store holds it; the memory is shared."""
    name = dtype_name(tensor)
    if STORED_AS[name] == name:
        return Stored(name, tensor.numpy())
    return Stored(name, tensor.view(getattr(torch, STORED_AS[name])).numpy())
