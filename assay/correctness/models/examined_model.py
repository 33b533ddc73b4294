"""A model under examination: how to build it, tokens for it, and models that its gates share.

Gates share models to save time. A gate that changes weights of a shared model restores them; the
mode is set by whoever calls it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from assay.correctness.models import tiny
from assay.correctness.models.finding import ContractViolation
from assay.correctness.models.forward import (
    accepts_cache,
    decode_twice,
    empty_caches,
    first_usable_cache,
    forward,
    missing_cache_text,
)
from assay.correctness.models.initialization import ConstructedModel, construct_recorded
from assay.correctness.models.kept_state import without_kept_state
from assay.correctness.models.perturbation import PerturbedModel, perturbed_model, to_dtype
from assay.correctness.models.short_training import ShortTraining
from assay.models.gpt2.config import ModelConfig

_CALLS_BEFORE = 3
_ROOM = 4  # tokens from which on two are set


@dataclass(frozen=True, kw_only=True)
class ExaminedModel:
    """Argument of a gate. `build` makes a new model of a configuration."""

    name: str
    build: Callable[[ModelConfig], nn.Module]
    config: ModelConfig
    variant: Any = None  # of the family; None for a class of the user's
    source: Path | None = None  # the user's file

    @property
    def length(self) -> int:
        """Longest sequence that it accepts."""
        return self.config.block_size

    def make(self, seed: int, **changes: Any) -> nn.Module:
        """Build a new model on the CPU, in train mode, of the configuration with these changes.

        The random state is left as it was.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            try:
                model = self.build(replace(self.config, **changes))
            except Exception as error:
                raise ContractViolation(
                    f"cannot be built with {type(self.config).__name__}: "
                    f"{type(error).__name__}: {error}"
                ) from error
        return model.train()

    def tokens(self, batch: int, length: int | None = None, *, seed: int = 0) -> torch.Tensor:
        """Random tokens [batch, length], the same for the same arguments.

        The first and the last word are among them where there is room: models treat these as
        padding or an end.
        """
        generator = torch.Generator().manual_seed(7919 * seed + batch)
        shape = (batch, self.length if length is None else length)
        tokens = torch.randint(self.config.vocab_size, shape, generator=generator)
        if tokens.numel() >= _ROOM:
            places = torch.randperm(tokens.numel(), generator=generator)[:2]
            tokens.view(-1)[places] = torch.tensor([0, self.config.vocab_size - 1])
        return tokens

    @cached_property
    def perturbed(self) -> PerturbedModel:
        """The shared model with noise on all weights."""
        return perturbed_model(self.make, self.tokens(2), seed=1)

    @cached_property
    def constructed(self) -> ConstructedModel:
        """A model whose initialization was recorded."""
        return construct_recorded(lambda: self.make(10))

    def scratch(self) -> nn.Module:
        """A model in float32 whose weights no gate relies on; of a user's class a new one."""
        model = self.make(4) if self.variant is None else self.constructed.model
        return to_dtype(model, torch.float32)

    @cached_property
    def training(self) -> ShortTraining:
        """A few steps of AdamW from the model's own initialization."""
        return ShortTraining(self.make(3), vocabulary=self.config.vocab_size, length=self.length)

    @property
    def has_user_code(self) -> bool:
        return self.variant is None or self.variant.has_user_code

    @cached_property
    def larger(self) -> "ExaminedModel | None":
        """The same of a larger size, for user code only: code that counts layers, heads or tokens
        may be right in a tiny model alone."""
        return replace(self, config=tiny.larger(self.config)) if self.has_user_code else None

    @cached_property
    def without_kept_state(self) -> "ExaminedModel":
        """The same of models that were called a few times, of which each further call puts back
        what it changes: what is faded in with the number of calls has begun."""

        def build(config: ModelConfig) -> nn.Module:
            model = self.build(config).train()
            with suppress(Exception), torch.no_grad():
                for seed in range(_CALLS_BEFORE):
                    forward(model, self.tokens(2, seed=seed))
            return without_kept_state(model)

        return replace(self, build=build)

    @property
    def size_text(self) -> str:
        layers, heads = self.config.n_layer, self.config.n_head
        return f"with {layers} layers, {heads} heads and a block of {self.length}"

    @contextmanager
    def size_in_errors(self) -> Iterator[None]:
        """Name the size of the model in whatever is raised within."""
        try:
            yield
        except Exception as error:
            is_violation = isinstance(error, ContractViolation)
            text = error if is_violation else f"{type(error).__name__}: {error}"
            raise ContractViolation(f"{self.size_text}: {text}") from error.__cause__ or error

    @cached_property
    def has_cache(self) -> bool:
        """True where forward takes a cache; a forward with **kwargs is tried."""
        accepted = accepts_cache(self.perturbed.model)
        if accepted is not None:
            return accepted
        try:
            return self._cache_index >= 0
        except ContractViolation:
            return False

    @property
    def missing_cache_text(self) -> str:
        return missing_cache_text(self.perturbed.model)

    @cached_property
    def decoder(self) -> PerturbedModel:
        """The perturbed model to decode with: in float32 where its caches have no other dtype."""
        if self.variant is not None or not self.has_cache or self._can_decode(self.perturbed):
            return self.perturbed
        narrow = perturbed_model(self.make, self.tokens(2), seed=1, widest=torch.float32)
        return narrow if self._can_decode(narrow) else self.perturbed

    def empty_cache(self, model: nn.Module, batch: int) -> Any:
        return empty_caches(model, self.config.n_layer)[self._cache_index](batch)

    def decode(self, model: nn.Module, idx: torch.Tensor, *, past: int) -> torch.Tensor:
        """Logits [B, T - past, V] of tokens [B, T] after the first `past` went into a cache."""
        empty = self.empty_cache(model, len(idx))
        cache = forward(model, idx[:, :past], cache=empty).cache
        return forward(model, idx[:, past:], cache=cache).logits

    @cached_property
    def _cache_index(self) -> int:
        if hasattr(self.perturbed.model, "new_cache"):
            return 0
        return first_usable_cache(self.make(2).eval(), self.config.n_layer, self.tokens(2, 2))

    def _can_decode(self, perturbed: PerturbedModel) -> bool:
        try:
            empty = self.empty_cache(perturbed.model, 2)
            decode_twice(perturbed.model, empty, self.tokens(2, 2))
        except Exception:
            return False
        return True


def variant_model(
    variant: Any, options: Mapping[str, Any] | None = None, *, name: str = ""
) -> ExaminedModel:
    """A variant of the family at the size of examinations; options are those of 124M."""
    from assay.models.gpt2 import variants

    variant = variants.parse(variant) if isinstance(variant, str) else variant
    config = tiny.config(variants.config_class(variant), options)
    build = variants.model_class(variant)
    return ExaminedModel(name=name or variant.name, build=build, config=config, variant=variant)
