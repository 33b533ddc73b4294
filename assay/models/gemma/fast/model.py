"""Gemma that decodes token by token from a cache of fixed size, for autoregressive policies.

It takes the place of openpi's models/gemma_fast.py (snapshot 15a9616a): constructors, calls, names
and shapes of parameters, initial values and rounding are the same, and checkpoints load. `core`,
the last field, chooses how attention is computed. A cache that runs over its end is refused, or
gives NaN under jit, where openpi overwrites its last slot. B batch, T length, S slots, D width.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp

from assay.models.gemma import lora, modules
from assay.models.gemma.config import FastVariantName, stock_keywords
from assay.models.gemma.cores import WithCore
from assay.models.gemma.fast.attention import AutoregressiveAttention, KVCache, require_room
from assay.models.gemma.validation import InvalidInput, require_mask, require_positions


class RMSNorm(nn.Module):
    """Root-mean-square norm with a learned scale."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """x [..., D] normed, in its dtype."""
        scale = modules.learned_scale(self, x.shape[-1])
        return (modules.unit_rms(x) * scale).astype(x.dtype)


class ZeroEmbedder(modules.Embedder):
    """The table starts at zero here: it is meant to be loaded."""

    TABLE_INIT: ClassVar[nn.initializers.Initializer] = staticmethod(nn.initializers.zeros_init())


class AutoregressiveBlock(nn.Module):
    """One layer: attention, then the MLP, each on the residual stream."""

    num_heads: int
    num_kv_heads: int
    embed_dim: int
    head_dim: int
    hidden_dim: int
    dropout: float = 0.0
    dropout_bdims: tuple[int, ...] = ()
    cache_dtype: str | None = None
    lora_configs: Mapping[str, lora.LoRAConfig] = field(default_factory=dict)
    core: str = "auto"

    @nn.compact
    def __call__(
        self,
        x: jax.Array,
        kv_cache: KVCache | None,
        positions: jax.Array,
        attn_mask: jax.Array,
        decode: bool,
        deterministic: bool = True,
    ) -> tuple[jax.Array, KVCache]:
        """x after the layer and the layer's cache; arguments as for AutoregressiveAttention."""
        dropped = modules.dropout(self, deterministic=deterministic, name="drop")
        x = modules.on_mesh(x)
        attention = AutoregressiveAttention(
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            features=self.embed_dim,
            head_dim=self.head_dim,
            cache_dtype=self.cache_dtype,
            lora_config=self.lora_configs.get("attn"),
            core=self.core,
            name="attn",
        )
        normed = RMSNorm(name="pre_attention_norm")(x)
        attended, kv_cache = attention(
            normed, positions, attn_mask, kv_cache, decode, deterministic
        )
        x = dropped(attended) + x
        feed_forward = lora.FeedForward(
            features=self.embed_dim,
            hidden_dim=self.hidden_dim,
            lora_config=self.lora_configs.get("ffn"),
            name="mlp",
        )
        return x + dropped(feed_forward(RMSNorm(name="pre_ffw_norm")(x))), kv_cache


class AutoregressiveModel(WithCore):
    """The whole model.

    `variant` and `norm_eps` are kept for callers and change nothing: the epsilon is 1e-6. The
    layers always run under one scan; `scan=False` only guards rematerialised ones against XLA
    merging them with the first computation.
    """

    variant: str
    width: int
    depth: int
    mlp_dim: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    norm_eps: float
    vocab_size: int
    embed_dtype: str
    dropout: float = 0.0
    dropout_bdims: tuple[int, ...] = ()
    cache_dtype: str | None = None
    scan: bool = False
    remat_policy: str = "none"
    lora_configs: Mapping[str, lora.LoRAConfig] = field(default_factory=dict)
    core: str = "auto"

    @nn.compact
    def __call__(
        self,
        tokens: jax.Array | None = None,
        embedded_prefix: jax.Array | None = None,
        embed_only: bool = False,
        pre_logits: jax.Array | None = None,
        positions: jax.Array | None = None,
        mask: jax.Array | None = None,
        decode: bool = False,
        kv_cache: KVCache | None = None,
        deterministic: bool = True,
        return_prelogits: bool = False,
    ) -> Any:
        """Logits, cache and stages of a prefix [B, P, D] followed by tokens [B, T - P].

        With `pre_logits` only logits and stages of those; with `embed_only` the embedded input
        alone; with `return_prelogits` the normed activations in the place of the logits. `stages`
        holds "encoded", "pre_logits" and "logits", as far as they were computed.

        positions: int [B or 1, T], counted from 0 where None. mask: [B, T, S] or [B, 1, T, S],
        True where a query may attend; S is the capacity of the cache; causal where None. `decode`
        only says that both must be passed. kv_cache: what an earlier call returned, with a leading
        axis for the layers; T is 1 then.
        """
        embedder = ZeroEmbedder(vocab_size=self.vocab_size, embed_dim=self.width, name="embedder")
        if pre_logits is not None:
            logits = embedder.decode(pre_logits)
            return logits, {"pre_logits": pre_logits, "logits": logits}

        x = self._embedded(embedder, tokens, embedded_prefix)
        if embed_only:
            return x
        if decode and (positions is None or mask is None):
            raise InvalidInput("decode is set without positions and mask; pass both")
        positions, mask = _places(x, positions, mask)
        self._require_dtype_kept()
        if kv_cache is not None:
            require_room(kv_cache)

        x, kv_cache = self._layers(x.shape[-1])(x, kv_cache, positions, mask, decode, deterministic)
        stages = {"encoded": x}
        x = stages["pre_logits"] = RMSNorm(name="final_norm")(x)
        if not return_prelogits:
            x = stages["logits"] = embedder.decode(x)
        return x, kv_cache, stages

    def init(self) -> None:
        """Touch every parameter once.

        It hides flax's own `init`: use `init_with_output(key, method="init")`.
        """
        self(jnp.zeros((1, 1), dtype=jnp.int32))

    def _embedded(
        self, embedder: ZeroEmbedder, tokens: jax.Array | None, prefix: jax.Array | None
    ) -> jax.Array:
        pieces = [] if prefix is None else [prefix]
        if tokens is not None:
            pieces.append(embedder.encode(tokens))
        if not pieces:
            raise InvalidInput("neither tokens nor embedded_prefix is there; pass one or both")
        return jnp.concatenate(pieces, axis=-2).astype(self.embed_dtype)

    def _require_dtype_kept(self) -> None:
        """Refuse a cache dtype that would change the dtype of the residual stream."""
        cached = jnp.dtype(self.cache_dtype or jnp.float32)
        if jnp.promote_types(self.embed_dtype, cached) != jnp.dtype(self.embed_dtype):
            raise InvalidInput(
                f"embed_dtype {self.embed_dtype} with a {cached} cache gives "
                f"{jnp.promote_types(self.embed_dtype, cached)} after the first attention; "
                f"set cache_dtype to {self.embed_dtype!r}"
            )

    def _layers(self, width: int) -> nn.Module:
        """All layers as one module that scans over them, rematerialised as `remat_policy` says."""
        block = AutoregressiveBlock
        if self.remat_policy != "none":
            policy = getattr(jax.checkpoint_policies, self.remat_policy, None)
            if policy is None:
                raise InvalidInput(
                    f"there is no remat_policy {self.remat_policy!r}; give 'none' or the name of "
                    "one in jax.checkpoint_policies, such as 'nothing_saveable'"
                )
            block = nn.remat(
                AutoregressiveBlock,
                prevent_cse=not self.scan,
                static_argnums=(5, 6),  # decode and deterministic, counted from self
                policy=policy,
            )
        return modules.stack(block, depth=self.depth)(
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            embed_dim=width,
            head_dim=self.head_dim,
            hidden_dim=self.mlp_dim,
            dropout=self.dropout,
            dropout_bdims=self.dropout_bdims,
            cache_dtype=self.cache_dtype,
            lora_configs=self.lora_configs,
            core=self.core,
            name="layers",
        )


def _places(
    x: jax.Array, positions: jax.Array | None, mask: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
    """Positions [B or 1, T] and mask [B, 1, T, S], made where they are None."""
    batch, length = x.shape[:2]
    if positions is None:
        positions = jnp.arange(length).astype(jnp.int32)[None, :]
    require_positions(positions, batch=batch, length=length)
    if mask is None:
        mask = nn.make_causal_mask(jnp.ones([batch, length]))
    if mask.ndim == 3:
        mask = mask[:, None, :, :]
    require_mask(mask, wanted=(batch, 1, length, max(length, mask.shape[-1])))
    return positions, mask


# The names that openpi's file has for these, beside RMSNorm and KVCache.
Attention, Block, Module = AutoregressiveAttention, AutoregressiveBlock, AutoregressiveModel
Einsum, Embedder, Variant = lora.Einsum, ZeroEmbedder, FastVariantName
get_config = stock_keywords
