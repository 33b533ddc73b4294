"""Copies of one call's tensors to the host while the model goes on, never waiting for a device.

What a hook sees may be overwritten a moment later. On the CPU it is cloned at once. On a GPU it is
cloned in the model's stream, and the clone goes to pinned memory in a stream of its own; only the
writer's thread waits for that. Pinned memory comes from torch's cache of it and goes back there.
"""

from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from assay.captures.manifest import Statistics
from assay.captures.recording.captured_call import LoadedTensors
from assay.captures.tensor import STORED_AS
from assay.captures.tensor import Tensor as Stored

Finish = Callable[[Tensor], Statistics]  # of a summary on the host


class HostTransfer:
    """Tensors and statistics of one call on their way to the host, by name."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._tensors: dict[str, Tensor] = {}
        self._finish: dict[str, Finish] = {}  # for those of the tensors that are summaries
        self._statistics: dict[str, Callable[[], Statistics]] = {}
        self._arrived: list[torch.cuda.Event] = []

    def add(self, name: str, tensor: Tensor) -> None:
        """Copy a tensor as it is now."""
        self._hold(name, tensor.detach().clone(memory_format=torch.contiguous_format))

    def add_summary(self, name: str, summary: Tensor, finish: Finish) -> None:
        """Copy a summary, of which `finish` makes statistics on the host."""
        self._hold(name, summary)
        self._finish[name] = finish

    def add_statistics(self, name: str, wait: Callable[[], Statistics]) -> None:
        """Include statistics that are copied elsewhere; `wait` returns them once they arrived."""
        self._statistics[name] = wait

    def send(self) -> None:
        """Start to copy everything that lies on GPUs."""
        for device in {tensor.device for tensor in self._tensors.values() if tensor.is_cuda}:
            names = [name for name, tensor in self._tensors.items() if tensor.device == device]
            hosts = self._sent(device, [self._tensors[name] for name in names])
            self._tensors.update(zip(names, hosts, strict=True))

    def load(self) -> LoadedTensors:
        """Tensors and statistics on the host; waits for them. Runs in the writer's thread."""
        for event in self._arrived:
            event.synchronize()
        tensors = {n: as_stored(t) for n, t in self._tensors.items() if n not in self._finish}
        stats = {name: finish(self._tensors[name]) for name, finish in self._finish.items()}
        stats |= {name: wait() for name, wait in self._statistics.items()}
        return LoadedTensors(tensors=tensors, stats=stats)

    def release(self) -> None:
        """Give the memory back."""
        self._tensors.clear()
        self._finish.clear()
        self._statistics.clear()

    def _hold(self, name: str, tensor: Tensor) -> None:
        self._tensors[name] = tensor
        self.nbytes += tensor.numel() * tensor.element_size()

    def _sent(self, device: torch.device, tensors: Sequence[Tensor]) -> list[Tensor]:
        stream = _copy_stream(device)
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
def _copy_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


def dtype_name(tensor: Tensor) -> str:
    """Name of the dtype in a store."""
    return _name(tensor.dtype)


@cache
def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def has_values(tensor: Tensor) -> bool:
    """False for a tensor that a trace stands in for, or that is on the meta device."""
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    return not (tensor.is_meta or isinstance(tensor, FakeTensor) or wrapped(tensor))


def storable(tensor: Tensor) -> bool:
    """True where the store has the dtype and the tensor has values."""
    return dtype_name(tensor) in STORED_AS and has_values(tensor)


def as_stored(tensor: Tensor) -> Stored:
    """A tensor on the host as the store holds it; the memory is shared."""
    name = dtype_name(tensor)
    if STORED_AS[name] == name:
        return Stored(name, tensor.numpy())
    return Stored(name, tensor.view(getattr(torch, STORED_AS[name])).numpy())
