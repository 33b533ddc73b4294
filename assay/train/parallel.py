"""One training run in several processes: whose rows are whose, and how losses, gradients, weights
and random numbers of all come together.

The trainer has one path and asks one of these objects; that of a single process does nothing. Rows
of a micro-batch are divided evenly, so the mean over processes of means over rows is the mean over
all rows, of losses as of gradients.
"""

import copy
import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import nn

from assay.errors import BadInput
from assay.train.processes import DDP, FSDP, NONE

T = TypeVar("T")
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
_PATIENCE = timedelta(hours=2)  # of a process for the others, which may be writing


class OneProcess:
    """A run in a single process."""

    kind, rank, world = NONE, 0, 1

    def loss_of(self, model: nn.Module) -> Loss:
        """Prepare the model, before its optimizer is made; returns its loss."""
        return model.loss

    def rows(self, first: int, micro: int) -> slice:
        """This process's rows of the micro-batch that begins at `first`."""
        share = micro // self.world
        return slice(first + self.rank * share, first + (self.rank + 1) * share)

    def gradients(self, *, complete: bool) -> AbstractContextManager[Any]:
        """Around a forward and a backward pass; gradients of all are averaged in one that makes
        them `complete`."""
        return nullcontext()

    def mean(self, values: torch.Tensor) -> torch.Tensor:
        """The mean over all processes."""
        return values

    def gathered(self, values: torch.Tensor) -> list[torch.Tensor]:
        """Values of equal shape, of every process by rank."""
        return [values]

    def agreed(self, value: float) -> float:
        """The value of the first process, in all of them."""
        return value

    def most(self, value: float) -> float:
        """The largest value of any process."""
        return value

    def first(self, action: Callable[[], T]) -> T | None:
        """Call an action in the first process, while the others wait; None in these. Where it
        fails, all do."""
        return action()

    def whole(self, model: nn.Module) -> nn.Module:
        """The model with all of its weights, to be read or saved."""
        return model

    def rest(self) -> None:
        """To be called after a pass without gradients: weights that it gathered are let go."""

    def close(self) -> None:
        """Leave the others, at the end."""


ONE_PROCESS = OneProcess()


class _SeveralProcesses(OneProcess):
    """Processes that torchrun started, in one group."""

    def __init__(self, device: torch.device) -> None:
        from torch import distributed

        self._group, self.device = distributed, device
        self.rank, self.world = distributed.get_rank(), distributed.get_world_size()

    def mean(self, values: torch.Tensor) -> torch.Tensor:
        total = values.clone()
        self._group.all_reduce(total)
        return total / self.world

    def gathered(self, values: torch.Tensor) -> list[torch.Tensor]:
        own = values.to(self.device)
        parts = [torch.empty_like(own) for _ in range(self.world)]
        self._group.all_gather(parts, own)
        return [part.to(values.device) for part in parts]

    def agreed(self, value: float) -> float:
        return float(self.gathered(torch.tensor(float(value), dtype=torch.float64))[0])

    def most(self, value: float) -> float:
        return max(map(float, self.gathered(torch.tensor(float(value), dtype=torch.float64))))

    def first(self, action: Callable[[], T]) -> T | None:
        result, failure = None, None
        if self.rank == 0:
            try:
                result = action()
            except Exception as error:
                failure = error
        failed = self.agreed(failure is not None)
        if failure:
            raise failure
        if failed:
            raise BadInput("the first process could not do it, and says why")
        return result

    def close(self) -> None:
        self._group.destroy_process_group()


class Replicas(_SeveralProcesses):
    """DDP: every process has all weights, and gradients are averaged in the backward pass.

    Parameters without a gradient are looked for in each pass. Where they are not, DDP stops at the
    first; and it arranges its buckets anew after the first pass, so that a resumed run adds up in
    another order than one that was not stopped.
    """

    kind = DDP

    def loss_of(self, model: nn.Module) -> Loss:
        self._module = nn.parallel.DistributedDataParallel(
            _LossModule(model),
            device_ids=None if self.device.type == "cpu" else [self.device],
            find_unused_parameters=True,
        )
        return self._module

    @contextmanager
    def gradients(self, *, complete: bool) -> Iterator[None]:
        with nullcontext() if complete else self._module.no_sync():
            yield


class _LossModule(nn.Module):
    """The loss of a model as the forward pass that DDP calls."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, idx: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return self.model.loss(idx, targets)


class ShardedWeights(_SeveralProcesses):
    """FSDP2: every process has a shard of each weight and of its optimizer's state. The weights of
    a block are gathered for its passes; embeddings, with the head that is tied to them, and the
    last norm are a group of their own."""

    kind = FSDP

    def loss_of(self, model: nn.Module) -> Loss:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

        self._copy, self._model = copy.deepcopy(model).cpu(), model
        mesh = init_device_mesh(self.device.type, (self.world,))
        for block in model.h:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        register_fsdp_forward_method(model, "loss")
        return model.loss

    @contextmanager
    def gradients(self, *, complete: bool) -> Iterator[None]:
        self._model.set_requires_gradient_sync(complete)
        yield

    def whole(self, model: nn.Module) -> nn.Module:
        self._copy.load_state_dict({n: whole(value) for n, value in model.state_dict().items()})
        return self._copy

    def rest(self) -> None:
        self._model.reshard()


def joined(kind: str, device: str) -> OneProcess:
    """Join the processes that torchrun started beside this one; gloo on a CPU, else NCCL."""
    from torch import distributed

    place = torch.device(device)
    if place.type != "cpu":
        torch.cuda.set_device(place)
    distributed.init_process_group("gloo" if place.type == "cpu" else "nccl", timeout=_PATIENCE)
    return (Replicas if kind == DDP else ShardedWeights)(place)


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """All of a tensor that may be sharded. To be called by every process."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def sharded(tensor: torch.Tensor, *, like: torch.Tensor) -> torch.Tensor:
    """A whole tensor, which every process has, divided as `like` is, on its device."""
    if not hasattr(like, "full_tensor"):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(
        tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None
    )


def own_seed(numbers: Sequence[int]) -> int:
    """A seed of a process's own, drawn from such as the run's seed, the step and the rank."""
    digest = hashlib.sha256(" ".join(map(str, numbers)).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
