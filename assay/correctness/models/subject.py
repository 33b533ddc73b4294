"""A model under examination: how to make it, tokens to give it, and what its gates share.

Gates of one subject share models to save time. Whoever changes the weights of a shared one changes
them back; the mode is set by whoever calls it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from assay import plugins
from assay.correctness.models import model_calls, tiny
from assay.correctness.models.awake import Awake, awaken, in_dtype
from assay.correctness.models.construction import Made, watched
from assay.correctness.models.finding import BrokenContract
from assay.correctness.models.short_training import Training
from assay.models.gpt2.config import Config

_ROOM = 4  # tokens in which two are not too many to be set


@dataclass(frozen=True, kw_only=True)
class Subject:
    """`build` makes a new model of a configuration. `fast` asks gates for fewer positions."""

    name: str
    build: Callable[[Config], nn.Module]
    config: Config
    variant: Any = None  # of the family; None for a class of the user's
    source: Path | None = None  # the user's file
    fast: bool = False

    @property
    def length(self) -> int:
        """The longest sequence it takes."""
        return self.config.block_size

    def make(self, seed: int, **changes: Any) -> nn.Module:
        """A fresh model on the CPU, in train mode, of the configuration with these changes; the
        random state is left as it was."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            try:
                model = self.build(replace(self.config, **changes))
            except Exception as error:
                raise BrokenContract(
                    f"cannot be built with {type(self.config).__name__}: "
                    f"{type(error).__name__}: {error}"
                ) from error
        return model.train()

    def tokens(self, batch: int, length: int | None = None, *, seed: int = 0) -> torch.Tensor:
        """Random tokens [batch, length], the same for the same arguments. The first and the last
        word are among them where there is room: models treat these as padding or an end."""
        generator = torch.Generator().manual_seed(7919 * seed + batch)
        shape = (batch, self.length if length is None else length)
        tokens = torch.randint(self.config.vocab_size, shape, generator=generator)
        if tokens.numel() >= _ROOM:
            places = torch.randperm(tokens.numel(), generator=generator)[:2]
            tokens.view(-1)[places] = torch.tensor([0, self.config.vocab_size - 1])
        return tokens

    @cached_property
    def awake(self) -> Awake:
        """The shared model with noise on all weights."""
        return awaken(self.make, self.tokens(2), seed=1)

    @cached_property
    def made(self) -> Made:
        """A model whose making was watched."""
        return watched(lambda: self.make(10))

    def spare(self) -> nn.Module:
        """A model in float32 whose weights nobody relies on; of a user's class a new one."""
        return in_dtype(self.make(4) if self.variant is None else self.made.model, torch.float32)

    @cached_property
    def training(self) -> Training:
        """A few steps of AdamW, from the model's own start."""
        return Training(self.make(3), vocabulary=self.config.vocab_size, length=self.length)

    @property
    def foreign(self) -> bool:
        """Whether code of the user's is in it."""
        parts = self.variant.parts.values() if self.variant is not None else ()
        ours = all(part.path.is_relative_to(plugins.PACKAGE) for part in parts)
        return self.variant is None or not ours

    @cached_property
    def large(self) -> "Subject | None":
        """Of a foreign one the same of another size: what counts layers, heads or tokens may be
        right in a tiny model alone."""
        return replace(self, config=tiny.larger(self.config)) if self.foreign else None

    @property
    def size(self) -> str:
        """In words."""
        layers, heads = self.config.n_layer, self.config.n_head
        return f"with {layers} layers, {heads} heads and a block of {self.length}"

    @contextmanager
    def told(self) -> Iterator[None]:
        """Within it, what raises says at which size it did."""
        try:
            yield
        except Exception as error:
            what = (
                error if isinstance(error, BrokenContract) else f"{type(error).__name__}: {error}"
            )
            raise BrokenContract(f"{self.size}: {what}") from error.__cause__ or error

    @cached_property
    def decodes(self) -> bool:
        """Whether forward takes a cache; one that takes whatever it is given is tried."""
        says = model_calls.takes_cache(self.awake.model)
        if says is not None:
            return says
        try:
            return self._beginning >= 0
        except BrokenContract:
            return False

    @cached_property
    def decoding(self) -> Awake:
        """The awake model to decode with: in float32 where its caches are for no other dtype."""
        if self.variant is not None or not self.decodes or self._decodes_in(self.awake):
            return self.awake
        narrow = awaken(self.make, self.tokens(2), seed=1, widest=torch.float32)
        return narrow if self._decodes_in(narrow) else self.awake

    def begin(self, model: nn.Module, batch: int) -> Any:
        """An empty cache of a model of this subject."""
        return model_calls.beginnings(model, self.config.n_layer)[self._beginning](batch)

    @cached_property
    def _beginning(self) -> int:
        if hasattr(self.awake.model, "new_cache"):
            return 0
        fresh = self.make(2).eval()
        return model_calls.first_that_works(fresh, self.config.n_layer, self.tokens(2, 2))

    def _decodes_in(self, awake: Awake) -> bool:
        try:
            model_calls.decode_twice(awake.model, self.begin(awake.model, 2), self.tokens(2, 2))
        except Exception:
            return False
        return True


def of_variant(
    variant: Any, options: Mapping[str, Any] | None = None, *, name: str = ""
) -> Subject:
    """A variant of the family at the size of examinations; options are those of 124M."""
    from assay.models.gpt2 import variants

    variant = variants.parse(variant) if isinstance(variant, str) else variant
    config = tiny.config(latent=variant.latent, options=options)
    made = variants.model_class(variant)
    return Subject(name=name or variant.name, build=made, config=config, variant=variant)
