"""The one door to language models: a name in, a model ready to run out.

`smollm2` is a real one out of a package, `random:llama` and its like are small ones with random
weights, `PATH.gguf` is a Llama in a GGUF file, and anything else is a folder that transformers
reads or a name on the Hugging Face hub.
"""

import re
from pathlib import Path

from assay.errors import BadInput
from assay.models.pretrained import random_weights
from assay.models.pretrained.language_model import LanguageModel

REAL = "smollm2"
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def names() -> list[str]:
    """The models that are here without a file or a network."""
    return [REAL, *random_weights.names()]


def open_model(
    name: str, *, dtype: str = "float32", device: str = "cpu", attention: str = "sdpa"
) -> LanguageModel:
    """The model called `name`, its tokenizer (None where it has none) and its identity.

    The answer unpacks into these three; `answer.token_ids(text)` works for all of them. `dtype` is
    float32, bfloat16 or float16, of the weights; `device` is torch's name of one; `attention` is
    transformers' `attn_implementation`, one registered by the caller included. The model is in
    evaluation mode. BadInput is raised for a name that is nothing, CannotRunHere where a package
    is missing.
    """
    settings = {"dtype": dtype, "device": device, "attention": attention}
    if name == REAL:
        from assay.models.pretrained import smollm2

        return smollm2.load(**settings)
    if name.startswith(random_weights.PREFIX):
        return random_weights.load(name, **settings)
    if name.endswith(".gguf"):
        from assay.models.pretrained import gguf_llama

        return gguf_llama.load(Path(name), **settings)
    if Path(name).is_dir() or _HUB_NAME.fullmatch(name):
        from assay.models.pretrained import huggingface

        return huggingface.load(name, **settings)
    raise BadInput(
        f"there is no model {name!r}; there are {', '.join(names())}, a folder that transformers "
        "can read, a PATH.gguf of a Llama, or a name on the Hugging Face hub (owner/name)"
    )
