"""Two latents for each token: one that keys are made of, one for values."""

from assay.models.gpt2.config import RA_MLA_Config

TAG = "2"
SLOT = "latents"
NEEDS = ("kv",)
JOINS = True


def build(config: RA_MLA_Config, layer: int) -> dict[str, tuple[str, ...]]:
    """Roles that each latent gives; queries come out of the token itself."""
    return {"latent": ("k",), "value_latent": ("v",)}
