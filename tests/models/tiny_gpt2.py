"""Small models of the GPT-2 family in float64, with every gate open."""

import torch

from assay.models.gpt2 import variants

SIZE = {
    "block_size": 16,
    "vocab_size": 61,
    "mlp_width": 32,
    "rope_dims": 4,
    "mlp_splice_width": 8,
    "ct_k": 3,
    "mx_k": 3,
    "ra_window": 5,
    "mg_width": 4,
    "mx_rank": 4,
}
DENSE = {"n_layer": 4, "n_head": 2, "n_embd": 16}
LATENT = {"n_layers": 4, "n_heads": 2, "head_dim": 8, "d_model": 16, "d_latent": 12}


def single_parts() -> list[str]:
    """GPT-2, and every part alone or with the latent that it needs."""
    names = []
    for variant in variants.pairs():
        rest = [part for slot, part in variant.parts.items() if slot != "kv"]
        needing = len(rest) == 1 and "kv" in rest[0].literals["NEEDS"]
        if len(variant.parts) <= 1 or needing:
            names.append(variant.name)
    return names


def config(name: str, **options):
    variant = variants.parse(name)
    shape = LATENT if variant.latent else DENSE
    return variants.config_class(variant)(**{**SIZE, **shape, **options})


def make(name: str, *, seed: int = 0, perturbed: bool = True, **options) -> torch.nn.Module:
    """A model in evaluation mode; perturbed, all its parameters are moved off zero."""
    torch.manual_seed(seed)
    model = variants.model_class(name)(config(name, **options)).double().eval()
    if perturbed:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def tokens(batch: int = 2, length: int = 16, *, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 61, (batch, length), generator=torch.Generator().manual_seed(seed))


def decode(model: torch.nn.Module, idx: torch.Tensor, chunks: list[int], **options) -> torch.Tensor:
    """Logits of `idx`, read through a cache made with `options` in chunks of these sizes."""
    cache, chunked, start = model.new_cache(len(idx), **options), [], 0
    with torch.no_grad():
        for size in chunks:
            logits, _, cache = model(idx[:, start : start + size], cache=cache)
            chunked.append(logits)
            start += size
    return torch.cat(chunked, dim=1)
