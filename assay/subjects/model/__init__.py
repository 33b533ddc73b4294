"""A whole model bound to tokens and to one pass: forward, training or decode.

The model is a torch module: `model(tokens, targets)` returns logits and loss, `model(tokens,
cache=cache)` logits, loss and the cache. Every pass ends in a factor (a loss scale, or one over a
temperature), the last of its inputs, in which its answer is linear.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from types import ModuleType
from typing import Any, Literal

import numpy as np
import torch

from assay.frameworks.torch import counting
from assay.records.identity import digest
from assay.records.schema import WorkloadIdentity
from assay.subjects.change import InputChange
from assay.subjects.contract import Expected, Index, TensorComparison
from assay.subjects.model import expected
from assay.subjects.sequence import framework_named
from assay.workloads.work import Work

Pass = Literal["forward", "training", "decode"]
_CHUNK = 128  # tokens at a time into a cache: attention weights of more would take long


@dataclass(frozen=True, kw_only=True)
class ModelInputs:
    """Tokens, int64 [batch, count]: all but the last of a row are read, all but the first are
    targets; of a decode all but the last fill the cache."""

    tokens: torch.Tensor
    dtype: str  # of the answer

    @property
    def spec(self) -> "ModelInputs":
        return self

    @cached_property
    def identity(self) -> WorkloadIdentity:
        batch, count = self.tokens.shape
        content = digest({"tokens": self.tokens.tolist()})
        return WorkloadIdentity(
            name=f"tokens-b{batch}-s{count}",
            spec={"batch": batch, "count": count, "dtype": self.dtype},
            content=content,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelSubject:
    """See contract.Subject. `exact` is the float32 model; that of a decode is another than
    `implementation`, whose weights and cache are bfloat16."""

    name: str
    implementation: Any  # torch.nn.Module
    exact: Any  # torch.nn.Module
    pass_name: Pass
    device: str
    framework: ModuleType
    workload: ModelInputs
    inputs: tuple[torch.Tensor, torch.Tensor]  # tokens as in ModelInputs; the factor, float32 [1]
    cache: Any = None
    states: tuple[torch.Tensor, ...] = ()  # of the cache, as they are before a step
    options: dict[str, Any] = field(default_factory=dict)
    timer: Any = None
    state: dict[str, Any] = field(default_factory=dict)

    kind = "model"
    level = "model"
    grad_out = None
    accepts = frozenset()

    @property
    def identity(self) -> WorkloadIdentity:
        return self.workload.identity

    @property
    def has_backward(self) -> bool:
        return self.pass_name != "decode"

    @property
    def gradient_names(self) -> tuple[str, ...]:
        return tuple(f"d{name}" for name, _ in self.implementation.named_parameters())

    def __call__(self) -> torch.Tensor:
        return self.apply(*self.inputs)

    def apply(self, tokens: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        """Return the loss, [1], or of a decode the scores after the last token, [batch, V]."""
        if self.pass_name == "decode":
            return self._step(tokens, factor)
        if self.pass_name == "forward":
            with torch.no_grad():
                return self._loss(tokens, factor)
        with torch.enable_grad():
            loss = self._loss(tokens, factor)
        loss.backward()
        self.implementation.zero_grad(set_to_none=True)  # gradients of 20 models fill a device
        return loss.detach()

    def _loss(self, tokens: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        """Compute as a trainer that keeps float32 weights: in autocast to bfloat16."""
        with torch.autocast(tokens.device.type, torch.bfloat16):
            loss = self.implementation(tokens[:, :-1], tokens[:, 1:])[1]
        return factor * loss

    @torch.no_grad()
    def _step(self, tokens: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        """Decode one token, and forget it again, so that every call is alike."""
        length = self.cache.length
        logits, _, after = self.implementation(tokens[:, -1:], cache=self.cache)
        assert after is self.cache
        self.cache.length = length
        for layer in self.cache.layers:
            layer.start = length
        return factor.to(logits.dtype) * logits[:, -1]

    def gradients(self) -> tuple[torch.Tensor, tuple[torch.Tensor | None, ...]]:
        """Return the loss and the gradients of all parameters."""
        parameters = list(self.implementation.parameters())
        with torch.enable_grad():
            loss = self._loss(*self.inputs)
            gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        return loss.detach(), gradients

    def synchronize(self) -> None:
        self.framework.synchronize(self.device)

    def renewed(self, change: InputChange) -> "ModelSubject":
        self._restore_states()
        tokens, before = self.inputs
        return replace(self, inputs=(tokens, before * change.factor))

    def restore(self) -> None:
        self._restore_states()
        tokens, factor = self.inputs
        tokens.copy_(self.workload.tokens)
        factor.fill_(1.0)

    def _restore_states(self) -> None:
        """Put back what a cache keeps of whole sequences, which every step changes."""
        for state, before in zip(_states_of(self.cache), self.states, strict=True):
            state.copy_(before)

    def expected(self) -> Expected:
        """Raises WrongAnswer where in float32 the cache gives other scores than the whole pass."""
        tokens = self.workload.tokens
        if self.pass_name != "decode":
            return expected.of_loss(self.exact, tokens)
        cached = bind_decode(self.name, self.exact, self.exact, tokens, self.device)()
        return expected.of_scores(self.exact, tokens, cached)

    def places(self, change: InputChange, *, keys: bool = False) -> dict[str, Index]:
        return self._untimed.index

    def spots(self, change: InputChange, *, keys: bool = False) -> Expected:
        return change.scaled(self._untimed)

    @cached_property
    def _untimed(self) -> Expected:
        self._restore_states()
        out = self.numpy(self())
        self._restore_states()
        return expected.largest_of(out)

    def numpy(self, array: torch.Tensor, index: Index | None = None) -> np.ndarray:
        return self.framework.numpy(array if index is None else self.framework.taken(array, index))

    def form_problem(self, tensor: str, array: Any) -> str | None:
        if not self.framework.is_array(array):
            return f"{tensor} is a {type(array).__name__}, wanted a tensor: no subclass"
        batch, last = self.workload.tokens.shape[0], array.shape[-1]
        shape = (batch, last) if self.pass_name == "decode" else (1,)
        if tensor == "out" and tuple(array.shape) != shape:
            return f"out has shape {tuple(array.shape)}, wanted {shape}"
        return None

    def consistency(self, out: Any, gradients: tuple[Any, ...]) -> list[TensorComparison]:
        """Every parameter has a finite gradient; no reference says more of them."""
        comparisons = []
        for name, gradient in zip(self.gradient_names, gradients, strict=True):
            finite = gradient is not None and bool(gradient.isfinite().all())
            problem = None if finite else f"{name[1:]} has no finite gradient"
            comparisons.append(TensorComparison(tensor=name, problem=problem, source=expected.LOSS))
        return comparisons

    def result_bytes(self, *, training: bool) -> dict[str, int]:
        out = self()
        return {"out": out.numel() * out.element_size()}

    def work(self) -> tuple[Work, dict[str, str]]:
        """Operations and bytes of all operators, counted in one pass of each kind."""
        forward = counting.counted(self)
        both = forward
        if self.has_backward:
            both = counting.counted(replace(self, pass_name="training"))
            forward = counting.counted(replace(self, pass_name="forward"))
        sums = {
            way: (sum(o.flops for o in operators), sum(o.bytes for o in operators))
            for way, operators in (("forward", forward), ("both", both))
        }
        work = Work(
            forward_flops=sums["forward"][0],
            backward_flops=sums["both"][0] - sums["forward"][0],
            forward_bytes=sums["forward"][1],
            backward_bytes=sums["both"][1] - sums["forward"][1],
            kv_cache_bytes=self.cache.nbytes if self.cache else 0,
        )
        return work, dict.fromkeys(work.__dataclass_fields__, "torch's dispatcher: operators")


def bind(name: str, model: Any, tokens: torch.Tensor, pass_name: Pass, device: str) -> ModelSubject:
    """Bind the forward or the training pass of a model to tokens on its device."""
    return ModelSubject(
        name=name,
        implementation=model,
        exact=model,
        pass_name=pass_name,
        device=device,
        framework=framework_named("torch"),
        workload=ModelInputs(tokens=tokens, dtype="float32"),
        inputs=(tokens.clone(), torch.ones(1, device=device)),
    )


def bind_decode(
    name: str, model: Any, exact: Any, tokens: torch.Tensor, device: str
) -> ModelSubject:
    """Bind one decoded token, the last of each row, to a cache that is full but for it."""
    cache = filled_cache(model, tokens[:, :-1])
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    return ModelSubject(
        name=name,
        implementation=model,
        exact=exact,
        pass_name="decode",
        device=device,
        framework=framework_named("torch"),
        workload=ModelInputs(tokens=tokens, dtype=dtype),
        inputs=(tokens.clone(), torch.ones(1, device=device)),
        cache=cache,
        states=tuple(state.clone() for state in _states_of(cache)),
    )


@torch.no_grad()
def filled_cache(model: Any, tokens: torch.Tensor) -> Any:
    """Return a cache that holds all of the tokens, [batch, count]."""
    cache = model.new_cache(tokens.shape[0])
    for chunk in tokens.split(_CHUNK, dim=1):
        _, _, cache = model(chunk, cache=cache)
    return cache


def _states_of(cache: Any) -> list[torch.Tensor]:
    return [state for layer in cache.layers for state in layer.states.values()] if cache else []
