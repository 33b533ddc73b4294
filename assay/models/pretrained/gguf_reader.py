"""A GGUF file: its fields, and its tensors as float32, whatever they were quantised to.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Read with the package `gguf`;
nothing in the file is executed. transformers reads such files as well, but it wants accelerate,
passes over tensors and rope scaling that it does not know, and takes 27.5 s of CPU time for SmolLM2
where this and llama.py take 6.9 s (load_gguf_checkpoint and AutoTokenizer of transformers 5.22
against `read`, `tensor` and `tokenizer_of`, one thread of an ARM core).
"""

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from assay.errors import BadInput
from assay.models.pretrained.language_model import require_packages


@dataclass(frozen=True, kw_only=True)
class GgufFile:
    """The contents of one file. Tensors are expanded one at a time, when they are read."""

    path: Path
    digest: str
    fields: Mapping[str, Any]
    stored: Mapping[str, Any]  # gguf's ReaderTensor by name, memory-mapped

    def field(self, name: str) -> Any:
        """The value of a field; a file without it is refused."""
        if name not in self.fields:
            raise BadInput(
                f"{self.path} has no field {name}; convert the model again with a newer llama.cpp"
            )
        return self.fields[name]

    def tensor(self, name: str) -> np.ndarray:
        """A tensor in float32, axes as torch has them (GGUF lists them from the innermost)."""
        from gguf.quants import dequantize

        stored = self.stored[name]
        try:
            values = dequantize(stored.data, stored.tensor_type)
        except NotImplementedError as error:
            raise BadInput(
                f"{self.path}: {name} is stored as {stored.tensor_type.name}, which the package "
                "gguf cannot expand; use a file in Q8_0, Q4_1 or F16"
            ) from error
        # A copy: the file is mapped read-only, and torch wants memory it may write.
        return np.array(values, dtype=np.float32)

    @property
    def storage(self) -> str:
        """Number of tensors of each stored type, the most frequent first."""
        counts = Counter(tensor.tensor_type.name for tensor in self.stored.values())
        return ", ".join(f"{count} x {kind}" for kind, count in counts.most_common())


def read(path: Path) -> GgufFile:
    """The file at `path`; one that is absent, cut short or of another format is refused."""
    require_packages(("gguf",), purpose=f"reading {path.name}")
    import gguf

    if not path.is_file():
        raise BadInput(f"there is no file {path}; give the path of a GGUF file")
    try:
        reader = gguf.GGUFReader(path)
        fields = {name: field.contents() for name, field in reader.fields.items()}
    except (ValueError, IndexError, KeyError, OverflowError) as error:
        raise BadInput(
            f"{path} cannot be read as GGUF: {error}; it is cut short or another kind of file: "
            "fetch it again"
        ) from error
    stored = {tensor.name: tensor for tensor in reader.tensors}
    with path.open("rb") as file:
        digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    return GgufFile(path=path, digest=digest, fields=fields, stored=stored)
