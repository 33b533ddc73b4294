"""One model of a variant, awake and of the asked size, and the tokens that each is given."""

from dataclasses import dataclass
from typing import Any

import torch

from assay.correctness.models import tiny
from assay.models.gpt2 import variants
from assay.models.gpt2.config import GPTConfig, ModelConfig, RA_MLA_Config

BASELINE = "GPT2"
_AWAKE = 0.02  # noise on all weights, so that no gate that starts at zero hides its mechanism


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How large the models are and where they run."""

    size: str  # 124M or tiny
    device: str

    @property
    def vocabulary(self) -> int:
        return self.config(latent=False).vocab_size

    def config(self, *, latent: bool) -> ModelConfig:
        kind = RA_MLA_Config if latent else GPTConfig
        return tiny.config(kind) if self.size == "tiny" else kind()


def made(name: str, shape: Shape) -> Any:
    """A model in float32 whose weights depend on its name alone."""
    variant = variants.parse(name)
    torch.manual_seed(sum(name.encode()))
    with torch.device(shape.device), torch.no_grad():
        model = variants.model_class(variant)(shape.config(latent=variant.latent))
        for parameter in model.parameters():
            parameter.add_(_AWAKE * torch.randn_like(parameter))
    return model


def tokens(shape: Shape, batch: int, count: int) -> torch.Tensor:
    """Random tokens, the same for every subject: int64 [batch, count]."""
    drawn = torch.Generator(shape.device).manual_seed(batch)
    size = (batch, count)
    return torch.randint(shape.vocabulary, size, device=shape.device, generator=drawn)
