"""Copies of the small GPT-2 that keep the contract or break it, by what they do otherwise.

BROKEN names the gate that each broken one must fail.
"""

import torch
from gate_models import How, Model
from torch import nn


class Claiming(Model):
    """Says how many bytes its cache takes."""

    share = 1.0

    def cache_bytes(self, batch, tokens):
        size = next(self.parameters()).element_size()
        numbers = 2 * self.config.n_layer * self.config.n_embd
        return int(self.share * batch * tokens * numbers * size)


class HalfClaiming(Claiming):
    share = 0.5


class Gated(Model):
    """Has an output gate in front of its head that can be closed."""

    closed = 0.0

    def __init__(self, config):
        super().__init__(config)
        self.gate = nn.Parameter(torch.zeros(config.n_embd))
        self.turn = nn.Linear(config.n_embd, config.n_embd)

    def forward(self, idx, targets=None, cache=None):
        hook = self.ln_f.register_forward_hook(lambda m, i, y: y + self.gate * self.turn(y))
        try:
            return super().forward(idx, targets, cache)
        finally:
            hook.remove()

    def neutral_(self):
        with torch.no_grad():
            self.gate.fill_(self.closed)

    def baseline(self):
        return Model(self.config)


class AjarGated(Gated):
    closed = 1e-9


class WithTwin(Model):
    """Its attention has q and k exchanged, so its twin is standard attention."""

    factor = 1.0

    def gauge_twin(self):
        twin = Model(self.config).to(self.wte.weight.dtype)
        twin.load_state_dict(self.state_dict())
        for block in twin.h:
            block.attn.q, block.attn.k = block.attn.k, block.attn.q
            with torch.no_grad():
                block.attn.q.weight.mul_(self.factor)
        return twin


class WrongTwin(WithTwin):
    factor = 1.001


class SharedCache(Model):
    """Hands out one cache to all."""

    def new_cache(self, batch):
        if not hasattr(self, "_cache"):
            self._cache = [{} for _ in self.h]
        return self._cache

    def forward(self, idx, targets=None, cache=None):
        answer = super().forward(idx, targets, cache)
        if cache is not None:
            for mine, new in zip(cache, answer[2], strict=True):
                mine.update(new)
            return (*answer[:2], cache)
        return answer


class WithoutCache(Model):
    def forward(self, idx, targets=None):
        return super().forward(idx, targets)


class DroppedCache(Model):
    """Takes a cache and does not give it back."""

    def forward(self, idx, targets=None, cache=None):
        return super().forward(idx, targets)


class StartedTwice(Model):
    """Starts all again, residual projections too."""

    def __init__(self, config):
        super().__init__(config)
        self.apply(self._start)


class GateStartedAgain(Model):
    """Sets its own gate before it starts all again."""

    def __init__(self, config):
        super().__init__(config)
        self.gate = nn.Linear(config.n_embd, config.n_embd)
        nn.init.zeros_(self.gate.weight)
        self.apply(self._start)
        self._scale_residuals()


class KeptInFloat32(Model):
    """Its cache is made once, for all tokens, in the dtype that torch happens to have."""

    def new_cache(self, batch):
        shape = (batch, self.config.block_size, self.config.n_embd)
        return [{"buffers": torch.zeros(2, *shape), "tokens": 0} for _ in self.h]

    def forward(self, idx, targets=None, cache=None):
        if cache is None:
            return super().forward(idx, targets)
        held, new = cache[0]["tokens"], idx.shape[1]
        views = [{"k": c["buffers"][0, :, :held], "v": c["buffers"][1, :, :held]} for c in cache]
        views = [view | {"tokens": held} for view in views]
        logits, loss, kept = super().forward(idx, targets, views)
        for mine, whole in zip(cache, kept, strict=True):
            mine["buffers"][0, :, held : held + new] = whole["k"][:, held:]
            mine["buffers"][1, :, held : held + new] = whole["v"][:, held:]
            mine["tokens"] = held + new
        return logits, loss, cache


def model(base=Model, **how):
    """A class of its own that does this otherwise."""
    return type(base.__name__, (base,), {"how": How(**how)})


BROKEN = {
    "the last position only": ("logits", model(model="last position")),
    "targets shifted in the model": ("logits", model(model="shifted loss")),
    "ignored targets are counted": ("logits", model(model="counts ignored")),
    "cannot be built": ("step", model(model="raises")),
    "gradients are not finite": ("step", model(model="not finite")),
    "a mean over time behind a closed gate": ("causality", model(block="time mean")),
    "a mean over the batch": ("causality", model(block="batch mean")),
    "transposed after the mask, in training": ("causality", model(attention="transposed mix")),
    "a mask aligned top-left": ("cached", model(attention="top left")),
    "positions start anew": ("cached", model(model="no offset")),
    "entries are encoded again": ("cached", model(attention="codec again", model="own start")),
    "two caches are one": ("cached", model(SharedCache)),
    "the cache does not come back": ("cached", model(DroppedCache)),
    "a layer is not used": ("gradients", model(attention="unused")),
    "half of a layer is not used": ("gradients", model(attention="dead half")),
    "the graph is cut": ("gradients", model(attention="detached")),
    "a gate that does not close": ("neutral", model(AjarGated)),
    "a twin with another scale": ("gauge", model(WrongTwin, attention="swapped")),
    "a codec for caches only": ("splice", model(attention="codec for caches", model="own start")),
    "a codec in evaluation only": (
        "splice",
        model(attention="codec in evaluation", model="own start"),
    ),
    "half the bytes are claimed": ("bytes", model(HalfClaiming)),
    "a choice in evaluation": ("modes", model(attention="hard mix")),
    "dropout that nothing turns off": ("modes", model(block="dropout")),
    "what the last call left": ("state", model(block="last mean")),
    "running statistics": ("state", model(block="running mean")),
    "an orthogonal codec is started again": ("init", model(attention="codec")),
    "residual projections are started again": ("init", model(StartedTwice)),
    "a gate of the model's own is started again": ("init", model(GateStartedAgain)),
    "a pass over all weights": ("init", model(model="swept places")),
    "zero outputs are started again": ("init", model(block="zero output")),
    "a random table that is no buffer": ("checkpoint", model(model="plain table")),
}

SOUND = {
    "nanoGPT's way": Model,
    "with a claim": model(Claiming),
    "with a gate that closes": model(Gated),
    "with a twin": model(WithTwin, attention="swapped"),
    "without a cache": model(WithoutCache),
    "a codec that starts after the model": model(attention="codec", model="parts start again"),
    "a codec in a model without a general start": model(attention="codec", model="own start"),
    "a cache made once": model(KeptInFloat32),
    "minGPT's positions": model(model="places"),
    "positions of a class that the model starts": model(model="own places"),
    "memory that is filled later": model(model="empty"),
    "a mask that is a frozen parameter": model(attention="frozen mask"),
    "attention within a window": model(attention="window"),
    "a softmax in float32": model(attention="float softmax"),
}
