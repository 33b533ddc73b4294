"""Two checkpoints of a tiny GPT2_MLA_KV: one whose codecs learn, one whose codecs are stuck.

`python docs/examples/splice_checkpoints.py DIR` trains both for three steps of AdamW on random
tokens. The stuck one is trained without gradients for its codecs, as if they were not in the path.
"""

import sys
from pathlib import Path

import torch

from assay.correctness.models import tiny
from assay.correctness.models.short_training import ShortTraining
from assay.models.gpt2 import checkpoint, variants

NAME = "GPT2_MLA_KV"


def trained(*, codecs: bool) -> torch.nn.Module:
    """A model after three steps, its codecs trained with it or left out."""
    torch.manual_seed(0)
    config = tiny.config(variants.config_class(variants.parse(NAME)))
    model = variants.model_class(NAME)(config)
    for block in model.h:
        block.attn.codecs.requires_grad_(codecs)
    ShortTraining(model, vocabulary=config.vocab_size, length=config.block_size)
    return model


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint.save(trained(codecs=True), folder / "learning.safetensors")
    checkpoint.save(trained(codecs=False), folder / "stuck.safetensors")
