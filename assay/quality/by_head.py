"""Error of attention's output by layer and head, with the queries that the model really has.

Codecs are ranked by what attention makes of them: keys and values that are reproduced alike may
give outputs that are not. Of models of transformers, whose attention functions can be replaced.

B batch, H query heads, G kv heads, T tokens, D head dimension.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from assay.kv.encoded import EncodedLayer
from assay.kv.encoding import encodings
from assay.quality.readers import PretrainedReader

_NAME = "assay_by_head"


@torch.no_grad()
def head_errors(
    reader: PretrainedReader, layouts: Sequence[str], ids: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Return for each layout the relative L2 error of every head's output, [layers, H], on windows
    [B, T] that the model reads without a cache."""
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
    from transformers.modeling_utils import AttentionInterface

    from assay.integrations.transformers.cache import wants_bias
    from assay.integrations.transformers.key_bias import key_biases

    model = reader.loaded.model
    layers = model.config.get_text_config(decoder=True).num_hidden_layers
    kept = {
        name: encodings(name, layers, key_biases=key_biases(model) if wants_bias(name) else None)
        for name in layouts
    }
    errors = {name: [] for name in layouts}

    def attention(
        module: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: Any,
        scaling: float | None = None,
        **rest: Any,
    ) -> tuple[torch.Tensor, None]:
        """q [B, H, T, D], k and v [B, G, T, D] -> [B, T, H, D]."""

        def attend(k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return F.scaled_dot_product_attention(
                query, k, v, mask, is_causal=mask is None, scale=scaling, enable_gqa=True
            )

        right = attend(key, value)
        for name, encoding in kept.items():
            read = EncodedLayer(encoding[module.layer_idx]).update({"k": key, "v": value})
            wrong = (attend(read["k"], read["v"]) - right).float()
            share = wrong.square().sum((0, 2, 3)) / right.float().square().sum((0, 2, 3))
            errors[name].append(share.sqrt().cpu())
        return right.transpose(1, 2), None

    AttentionInterface.register(_NAME, attention)
    AttentionMaskInterface.register(_NAME, sdpa_mask)
    before = model.config._attn_implementation
    model.set_attn_implementation(_NAME)
    try:
        model(ids.to(model.device), use_cache=False)
    finally:
        model.set_attn_implementation(before)
    return {name: torch.stack(rows) for name, rows in errors.items()}
