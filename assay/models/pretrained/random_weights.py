"""Small transformers models with random weights: every machine has them, without a network.

Shapes differ in what attention sees: random:llama shares kv heads, random:qwen3 has a head
dimension of its own and norms on q and k, random:gpt2 has as many kv heads as query heads and no
rotary embedding. They read bytes (256 ids).
"""

from typing import Any

from assay.errors import BadInput
from assay.models.pretrained import language_model
from assay.models.pretrained.language_model import LanguageModel, ModelIdentity

PREFIX = "random:"
# Parameters of transformers' configurations by the name after `random:`.
SHAPES: dict[str, dict[str, Any]] = {
    "llama": {
        "hidden_size": 64,
        "intermediate_size": 160,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "vocab_size": 256,
        "tie_word_embeddings": True,
    },
    "qwen3": {
        "hidden_size": 64,
        "intermediate_size": 160,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 2048,
        "vocab_size": 256,
    },
    "gpt2": {
        "n_embd": 64,
        "n_layer": 4,
        "n_head": 4,
        "n_positions": 2048,
        "vocab_size": 256,
    },
}
# Ids that a byte model must not take for an end of text or a padding.
_NO_SPECIAL_IDS = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}


def names() -> list[str]:
    """What can be asked for, each also with a seed behind it (`random:llama:7`)."""
    return [PREFIX + kind for kind in SHAPES]


def load(
    name: str, *, dtype: str = "float32", device: str = "cpu", attention: str = "sdpa"
) -> LanguageModel:
    """The model called `random:KIND` or `random:KIND:SEED`, the seed being 0 where none is said.

    The same name gives the same weights everywhere; in a shorter dtype they are rounded. Torch's
    random state is left as it was.
    """
    kind, seed = _parsed(name)
    language_model.require(("torch", "transformers"), purpose=f"the model {name}")
    wanted = language_model.torch_dtype(dtype)
    model = _rounded(_drawn(kind, seed), wanted, attention)
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


def _parsed(name: str) -> tuple[str, int]:
    kind, _, seed = name.removeprefix(PREFIX).partition(":")
    if kind not in SHAPES:
        raise BadInput(f"there is no random model {name!r}; there are {', '.join(names())}")
    if seed and not seed.isdecimal():
        raise BadInput(f"the seed of {name!r} is not a number; write {PREFIX}{kind}:7")
    return kind, int(seed or 0)


def _configuration(kind: str) -> Any:
    import transformers

    return transformers.AutoConfig.for_model(kind, **SHAPES[kind], **_NO_SPECIAL_IDS)


def _drawn(kind: str, seed: int) -> Any:
    """The model in float32, its weights drawn by transformers' own rule after `seed`."""
    import torch
    import transformers

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return transformers.AutoModelForCausalLM.from_config(
            _configuration(kind), dtype=torch.float32
        )


def _rounded(model: Any, dtype: Any, attention: str) -> Any:
    """The same weights in `dtype`, with the attention that was asked for."""
    with language_model.quiet(), language_model.refusals_of_attention(attention):
        return type(model).from_pretrained(
            None,
            config=model.config,
            state_dict=model.state_dict(),
            dtype=dtype,
            attn_implementation=attention,
        )
