"""Gemma as a mixture of experts by token: one attention, a set of weights for each expert.

It takes the place of openpi's models/gemma.py (snapshot 15a9616a): constructors, calls, names and
shapes of parameters, initial values and rounding are the same, and checkpoints load. `core`, the
last field, chooses how attention is computed. B batch, T length, D width of an expert.
"""

from collections.abc import Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp

from assay.models.gemma import lora, modules
from assay.models.gemma.attention import MixtureAttention
from assay.models.gemma.config import PALIGEMMA_VOCAB_SIZE, ExpertConfig, VariantName, stock_config
from assay.models.gemma.cores import WithCore
from assay.models.gemma.modules import Embedder, expert_name
from assay.models.gemma.validation import InvalidInput

# Keys and values, each [depth, batch, length, kv_heads, head_dim].
KVCache = tuple[jax.Array, jax.Array]


class AdaptiveRMSNorm(nn.Module):
    """Root-mean-square norm; with a condition its scale, shift and gate are computed from that."""

    @nn.compact
    def __call__(self, x: jax.Array, cond: jax.Array | None) -> tuple[jax.Array, jax.Array | None]:
        """Normed x [B, T, D] and a gate, [B, 1, D] for a cond [B, C], None without one."""
        normed, width = modules.unit_rms(x), x.shape[-1]
        if cond is None:
            normed = normed * modules.learned_scale(self, width)
            return normed.astype(x.dtype), None
        modulation = nn.Dense(3 * width, kernel_init=nn.initializers.zeros, dtype=x.dtype)(cond)
        scale, shift, gate = jnp.split(modulation[:, None, :], 3, axis=-1)  # each [B, 1, D]
        normed = normed * (1 + scale) + shift
        return normed.astype(x.dtype), gate


class MixtureBlock(nn.Module):
    """One layer: the common attention, then each expert's MLP, each on its residual stream."""

    configs: tuple[ExpertConfig, ...]
    dropout: float = 0.0
    dropout_bdims: tuple[int, ...] = ()
    core: str = "auto"

    @nn.compact
    def __call__(
        self,
        xs: Sequence[jax.Array | None],
        kv_cache: tuple[jax.Array, jax.Array] | None,
        positions: jax.Array,
        attn_mask: jax.Array,
        adarms_cond: Sequence[jax.Array | None],
        deterministic: bool = True,
    ) -> tuple[list[jax.Array | None], tuple[jax.Array, jax.Array]]:
        """xs after the layer and the layer's cache; arguments as for MixtureAttention."""
        dropped = modules.dropout(self, deterministic=deterministic)
        xs = jax.tree.map(modules.on_mesh, list(xs))
        normed, gates = self._normed("pre_attention_norm", xs, adarms_cond)
        attention = MixtureAttention(configs=self.configs, core=self.core, name="attn")
        attended, kv_cache = attention(normed, positions, attn_mask, kv_cache)
        attended = jax.tree.map(dropped, attended)
        xs = [_add(*streams) for streams in zip(xs, attended, gates, strict=True)]

        normed, gates = self._normed("pre_ffw_norm", xs, adarms_cond)
        fed = [
            None if x is None else self._feed_forward(x, expert) for expert, x in enumerate(normed)
        ]
        fed = jax.tree.map(dropped, fed)
        xs = [_add(*streams) for streams in zip(xs, fed, gates, strict=True)]
        return jax.tree.map(modules.on_mesh, xs), kv_cache

    def _normed(
        self, name: str, xs: Sequence[jax.Array | None], conds: Sequence[jax.Array | None]
    ) -> tuple[list[jax.Array | None], list[jax.Array | None]]:
        """Each expert's normed input and gate."""
        pairs = [
            (None, None) if x is None else AdaptiveRMSNorm(name=expert_name(name, expert))(x, cond)
            for expert, (x, cond) in enumerate(zip(xs, conds, strict=True))
        ]
        return [normed for normed, _ in pairs], [gate for _, gate in pairs]

    def _feed_forward(self, x: jax.Array, expert: int) -> jax.Array:
        config = self.configs[expert]
        return lora.FeedForward(
            features=config.width,
            hidden_dim=config.mlp_dim,
            lora_config=config.lora_configs.get("ffn"),
            name=expert_name("mlp", expert),
        )(x)


class MixtureModel(WithCore):
    """The whole model. `adarms` is kept for callers; what counts is the `adarms_cond` they pass."""

    configs: Sequence[ExpertConfig]
    embed_dtype: str
    dropout: float = 0.0
    dropout_bdims: tuple[int, ...] = ()
    adarms: bool = False
    core: str = "auto"

    def setup(self) -> None:
        """Make the embedding of the first expert, the layers under one scan, a last norm each."""
        depths = [config.depth for config in self.configs]
        if len(set(depths)) > 1:
            raise InvalidInput(
                f"the experts have depth {', '.join(map(str, depths))}; "
                "their layers run together, so give all of them the same"
            )
        self.embedder = Embedder(
            vocab_size=PALIGEMMA_VOCAB_SIZE, embed_dim=self.configs[0].width, name="embedder"
        )
        block = nn.remat(
            MixtureBlock,
            prevent_cse=False,  # a scan needs no guard against it
            static_argnums=(6,),  # deterministic, counted from self
            policy=jax.checkpoint_policies.nothing_saveable,
        )
        self.layers = modules.stack(block, depth=depths[0])(
            configs=self.configs,
            dropout=self.dropout,
            dropout_bdims=self.dropout_bdims,
            core=self.core,
        )
        self.final_norms = [
            AdaptiveRMSNorm(name=expert_name("final_norm", expert))
            for expert in range(len(self.configs))
        ]

    def embed(self, tokens: jax.Array) -> jax.Array:
        """Token numbers [B, T] to [B, T, D] in `embed_dtype`."""
        return self.embedder.encode(tokens).astype(self.embed_dtype)

    def __call__(
        self,
        embedded: Sequence[jax.Array | None],
        positions: jax.Array,
        mask: jax.Array,
        adarms_cond: Sequence[jax.Array | None] | None = None,
        *,
        kv_cache: KVCache | None = None,
        deterministic: bool = True,
    ) -> tuple[list[jax.Array | None], KVCache]:
        """Outputs and cache of embedded tokens, one [B, T_i, D_i] or None for each expert.

        positions: int [B, T], T the sum of T_i. mask: bool [B, T, S], True where a query may
        attend, S the length of the cache plus T. adarms_cond: one [B, C] or None for each expert.
        kv_cache: what an earlier call returned. Outputs are normed, in `embed_dtype`.
        """
        xs = jax.tree.map(lambda x: x.astype(self.embed_dtype), list(embedded))
        conds = [None] * len(self.configs) if adarms_cond is None else list(adarms_cond)
        self._require_one_each(xs, conds)
        mask = jnp.asarray(mask)[:, None, :, :]  # [B, 1, T, S]
        xs, kv_cache = self.layers(xs, kv_cache, positions, mask, conds, deterministic)
        outputs = [
            None if x is None else norm(x, cond)[0]
            for norm, x, cond in zip(self.final_norms, xs, conds, strict=True)
        ]
        return outputs, kv_cache

    def init(self, use_adarms: Sequence[bool]) -> None:
        """Touch every parameter once; `use_adarms` says which experts have a condition.

        It hides flax's own `init`: use `init_with_output(key, use_adarms, method="init")`.
        """
        experts = len(self.configs)
        self.embed(jnp.zeros((1, 1), dtype=jnp.int32))
        self(
            [jnp.zeros((1, 1, config.width)) for config in self.configs],
            jnp.zeros((1, experts), dtype=jnp.int32),
            jnp.zeros((1, experts, experts), dtype=bool),
            adarms_cond=[
                jnp.zeros((1, config.width)) if used else None
                for used, config in zip(use_adarms, self.configs, strict=True)
            ],
        )

    def _require_one_each(self, xs: list[jax.Array | None], conds: list[jax.Array | None]) -> None:
        for name, arrays in (("inputs", xs), ("conditions", conds)):
            if len(arrays) != len(self.configs):
                raise InvalidInput(
                    f"{len(arrays)} {name} for {len(self.configs)} experts; "
                    "give one for each, None to leave it out"
                )


def _add(x: jax.Array | None, change: jax.Array | None, gate: jax.Array | None) -> jax.Array | None:
    """The residual stream with a change to it, through the gate if there is one."""
    if x is None:
        return None
    return x + change if gate is None else x + change * gate


# The names that openpi's file has for these, beside Embedder, KVCache and PALIGEMMA_VOCAB_SIZE.
Attention, Block, Module, RMSNorm = MixtureAttention, MixtureBlock, MixtureModel, AdaptiveRMSNorm
Config, Variant, FeedForward = ExpertConfig, VariantName, lora.FeedForward
get_config = stock_config
