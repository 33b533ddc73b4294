"""Small transformers models with random weights: every machine has them, without a network.

Shapes differ in what attention sees: random:llama shares kv heads, random:qwen3 has a head
dimension of its own and norms on q and k, random:gpt2 has as many kv heads as query heads and no
rotary embedding. They read bytes (256 ids).
"""

from typing import Any

from assay.errors import BadInput, did_you_mean
from assay.models.pretrained import language_model
from assay.models.pretrained.language_model import LanguageModel, ModelIdentity

PREFIX = "random:"
_GROUPED: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
}
# Parameters of transformers' configurations by the name after `random:`.
SHAPES: dict[str, dict[str, Any]] = {
    "llama": {**_GROUPED, "tie_word_embeddings": True},
    "qwen3": {**_GROUPED, "head_dim": 32},
    "gpt2": {"n_embd": 64, "n_layer": 4, "n_head": 4, "n_positions": 2048},
}
# Ids of bytes, none of which is an end of text or a padding.
_BYTES = {"vocab_size": 256, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}


def names() -> list[str]:
    """Names of all random models, each also with a seed behind it (`random:llama:7`)."""
    return [PREFIX + kind for kind in SHAPES]


def load(
    name: str, *, dtype: str = "float32", device: str = "cpu", attention: str = "sdpa"
) -> LanguageModel:
    """The model called `random:KIND` or `random:KIND:SEED`; the seed is 0 by default.

    The same name gives the same weights everywhere; in a shorter dtype they are rounded. Torch's
    random state is left as it was.
    """
    kind, seed = _parse(name)
    language_model.require_packages(("torch", "transformers"), purpose=f"the model {name}")
    torch_dtype = language_model.torch_dtype(dtype)
    drawn = _drawn(kind, seed)
    model, _ = language_model.with_weights(
        type(drawn), drawn.config, drawn.state_dict(), dtype=torch_dtype, attention=attention
    )
    identity = ModelIdentity(
        name=name,
        title=None,
        architecture=type(model).__name__,
        parameters=language_model.count_parameters(model),
        digest=language_model.digest_of_parameters(model),
        why={
            "title": "made here, not published",
            "stored": "drawn, not read",
            "revision": "the seed is in the name",
            "licence": "random numbers have none",
        },
    )
    return LanguageModel(language_model.place(model, device), None, identity)


def _parse(name: str) -> tuple[str, int]:
    kind, _, seed = name.removeprefix(PREFIX).partition(":")
    if kind not in SHAPES:
        hint = did_you_mean(kind, SHAPES).replace("mean ", f"mean {PREFIX}")  # all share the prefix
        there = hint or f"there are {', '.join(names())}"
        raise BadInput(f"there is no random model {name!r}; {there}")
    if seed and not seed.isdecimal():
        raise BadInput(f"the seed of {name!r} is not a number; write {PREFIX}{kind}:7")
    return kind, int(seed or 0)


def _drawn(kind: str, seed: int) -> Any:
    """The model in float32, its weights drawn by transformers' own rule after `seed`."""
    import torch
    import transformers

    config = transformers.AutoConfig.for_model(kind, **SHAPES[kind], **_BYTES)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
