"""Attention in which several experts, each with its own weights, see one common sequence.

The tokens of all experts are projected by their own weights, laid end to end, and attend to each
other and to the cache. B batch, T queries, S keys, D width of an expert.
"""

from collections.abc import Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp

from assay.models.gemma.config import ExpertConfig
from assay.models.gemma.cores import AttentionWithCore, chosen_core
from assay.models.gemma.modules import project_in, project_out, rotate
from assay.models.gemma.validation import InvalidInput, require_mask, require_positions

# Keys and values of all tokens so far, each [batch, length, kv_heads, head_dim]; keys are turned.
KVCache = tuple[jax.Array, jax.Array]


class MixtureAttention(AttentionWithCore):
    """One attention over the tokens of all experts."""

    configs: Sequence[ExpertConfig]
    core: str = "auto"

    @nn.compact
    def __call__(
        self,
        xs: Sequence[jax.Array | None],
        positions: jax.Array,
        attn_mask: jax.Array,
        kv_cache: KVCache | None,
    ) -> tuple[list[jax.Array | None], KVCache]:
        """Attend; return outputs and cache.

        xs: for each expert [B, T_i, D_i], or None if it takes no part (its parameters are then
        not made either). positions: int [B or 1, T], T the sum of T_i. attn_mask: [B, 1, T, S],
        True where a query may attend, S the length of the cache plus T. kv_cache: what an earlier
        call returned; the new keys and values are appended to it. Outputs are like xs.
        """
        require_shared_heads(self.configs)
        present = _present(xs, self.configs)
        dtype = present[0][1].dtype
        q, k, v = self._project(present)  # [B, T, N, H] and twice [B, T, K, H]
        if q.dtype != dtype:
            raise InvalidInput(
                f"the experts' inputs are {', '.join(str(x.dtype) for _, x in present)}; "
                "give all of them the same dtype"
            )
        batch, length = q.shape[:2]
        require_positions(positions, batch=batch, length=length)

        # Rounded back to the input's dtype, then scaled in it.
        q = rotate(q, positions).astype(dtype)
        q = q * self.configs[0].head_dim ** -0.5
        k = rotate(k, positions).astype(dtype)
        if kv_cache is not None:
            k, v = (jnp.concatenate(pair, axis=1) for pair in zip(kv_cache, (k, v), strict=True))
        require_mask(attn_mask, wanted=(batch, 1, length, k.shape[1]))
        core = chosen_core(self.core, q, k, v, dtype=dtype, layer="gemma")
        encoded = self.attend(q, k, v, attn_mask, dtype=dtype, implementation=f"gemma:{core}")
        return self._project_back(encoded, xs), (k, v)

    def _project(self, present: list[tuple[int, jax.Array]]) -> tuple[jax.Array, ...]:
        """q, k and v of all experts that take part, laid end to end."""
        projected = []
        for expert, x in present:
            config = self.configs[expert]
            projected.append(
                project_in(
                    x,
                    num_heads=config.num_heads,
                    num_kv_heads=config.num_kv_heads,
                    width=config.width,
                    head_dim=config.head_dim,
                    lora_config=config.lora_configs.get("attn"),
                    expert=expert,
                )
            )
        return tuple(jnp.concatenate(parts, axis=1) for parts in zip(*projected, strict=True))

    def _project_back(
        self, encoded: jax.Array, xs: Sequence[jax.Array | None]
    ) -> list[jax.Array | None]:
        """Each expert's stretch of the sequence through its own output weights."""
        outputs: list[jax.Array | None] = []
        start = 0
        for expert, (x, config) in enumerate(zip(xs, self.configs, strict=True)):
            if x is None:
                outputs.append(None)
                continue
            end = start + x.shape[1]
            outputs.append(
                project_out(
                    encoded[:, start:end],
                    width=config.width,
                    init_fn=nn.initializers.lecun_normal(in_axis=(-3, -2), out_axis=-1),
                    lora_config=config.lora_configs.get("attn"),
                    expert=expert,
                )
            )
            start = end
        return outputs


def require_shared_heads(configs: Sequence[ExpertConfig]) -> None:
    """Refuse experts whose heads could not attend to each other."""
    for name in ("head_dim", "num_heads", "num_kv_heads"):
        values = [getattr(config, name) for config in configs]
        if len(set(values)) > 1:
            raise InvalidInput(
                f"the experts have {name} {', '.join(map(str, values))}; "
                "they attend to each other, so give all of them the same"
            )


def _present(
    xs: Sequence[jax.Array | None], configs: Sequence[ExpertConfig]
) -> list[tuple[int, jax.Array]]:
    """The experts that take part, by number."""
    if len(xs) != len(configs):
        raise InvalidInput(
            f"{len(xs)} inputs for {len(configs)} experts; give one for each, None to leave it out"
        )
    present = [(expert, x) for expert, x in enumerate(xs) if x is not None]
    if not present:
        raise InvalidInput("every expert's input is None; give at least one")
    return present
