"""What a workload is: shapes, dtype and mask of one attention call, with a name that says it all.

    b2_h8_kv2_q113_k1023_d64_causal_float32     batch 2, 8 query and 2 kv heads, 113 queries, ...

In a name given by a user `s128` stands for q128_k128, `kv` defaults to `h` and the rest to what a
study says.
"""

import re
from dataclasses import asdict, dataclass
from typing import Any

from assay.errors import BadInput

DTYPES = ("float32", "float16", "bfloat16")
MASKS = ("causal", "full")

_NUMBERS = {
    "b": "batch",
    "h": "heads",
    "kv": "kv_heads",
    "q": "query_length",
    "k": "key_length",
    "d": "head_dim",
    "seed": "seed",
}


@dataclass(frozen=True, kw_only=True)
class WorkloadSpec:
    """One attention call: q is [batch, heads, query_length, head_dim], k and v have kv_heads."""

    batch: int
    heads: int
    kv_heads: int
    query_length: int
    key_length: int
    head_dim: int
    dtype: str
    causal: bool
    seed: int

    def __post_init__(self) -> None:
        sizes = (self.batch, self.heads, self.kv_heads, self.query_length, self.key_length)
        if min(*sizes, self.head_dim) < 1:
            raise BadInput(f"workload {self.name}: every size must be at least 1")
        if self.heads % self.kv_heads:
            raise BadInput(
                f"workload {self.name}: {self.heads} query heads do not divide over "
                f"{self.kv_heads} kv heads; make the first a multiple of the second"
            )
        if self.dtype not in DTYPES:
            raise BadInput(f"workload dtype {self.dtype!r} is not one of {', '.join(DTYPES)}")

    @property
    def name(self) -> str:
        mask = MASKS[0] if self.causal else MASKS[1]
        seed = f"_seed{self.seed}" if self.seed else ""
        return (
            f"b{self.batch}_h{self.heads}_kv{self.kv_heads}_q{self.query_length}"
            f"_k{self.key_length}_d{self.head_dim}_{mask}_{self.dtype}{seed}"
        )

    @property
    def scale(self) -> float:
        """What scores are multiplied by: one over the root of the head dimension."""
        return self.head_dim**-0.5

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def parse(name: str, *, defaults: WorkloadSpec) -> WorkloadSpec:
    """The workload that `name` describes; what it leaves out comes from `defaults`."""
    given: dict[str, Any] = {}
    for part in name.split("_"):
        match = re.fullmatch(r"([a-z]+)(\d+)", part)
        if part in MASKS:
            given["causal"] = part == MASKS[0]
        elif part in DTYPES:
            given["dtype"] = part
        elif match and match[1] in _NUMBERS:
            given[_NUMBERS[match[1]]] = int(match[2])
        elif match and match[1] == "s":
            given["query_length"] = given["key_length"] = int(match[2])
        else:
            raise BadInput(
                f"workload {name!r}: {part!r} is not understood; write for example "
                "b1_h8_kv2_q113_k1023_d64_causal_float32, or b1_h8_s128"
            )
    if "heads" in given:
        given.setdefault("kv_heads", given["heads"])
    return WorkloadSpec(**{**defaults.as_dict(), **given})
