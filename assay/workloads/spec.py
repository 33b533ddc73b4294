"""Specification of a workload: shapes, dtype and mask of one attention call, and its name.

    b2_h8_kv2_q113_k1023_d64_causal_float32     batch 2, 8 query and 2 kv heads, 113 queries, ...
    b1_h1_kv1_q9_k9_d16_full_float16_w4_ties    what is unusual comes last: window 4, ties
    b1_h9_kv3_q512_k512_d64_causal_float32_captured-s0-l3-5f3a9c   layer 3 in step 0 of a capture

In a name given by a user `s128` stands for q128_k128, `kv` defaults to `h` and the rest to what a
study says.
"""

import hashlib
import re
from dataclasses import dataclass, fields
from typing import Any

from assay.errors import BadInput, did_you_mean
from assay.records.schema import LARGEST_SIZE

DTYPES = ("float32", "float16", "bfloat16")
_DTYPE_ALIASES = {"fp32": "float32", "fp16": "float16", "half": "float16", "bf16": "bfloat16"}
MASKS = ("causal", "full")
# What the numbers are like (assay/workloads/values.py) and how they lie in memory.
VALUES = ("normal", "small", "large", "huge", "onehot", "ties", "denormal")
LAYOUTS = ("plain", "transposed", "wide", "strided", "offset", "outer", "expanded")
LAYOUTS += ("headsfirst", "qkvpacked", "kvstacked", "kvrows", "sliced")
# One tensor by itself lies so, as in v-wide; a projection of a model sends back dO-transposed.
OF_DO = tuple(f"dO-{name}" for name in LAYOUTS[1:])
OWN_LAYOUTS = (*(f"{tensor}-{name}" for tensor in "qkv" for name in LAYOUTS[1:]), *OF_DO)

_NUMBERS = {
    "b": "batch",
    "h": "heads",
    "kv": "kv_heads",
    "q": "query_length",
    "k": "key_length",
    "d": "head_dim",
    "seed": "seed",
    "scale": "scale_percent",
    "w": "window",
    "packed": "packed",
}
_FLAGS = ("padded", "masked")


def full_dtypes(text: str) -> str:
    """Dtypes, comma between, with the short names that people type written out."""
    return ",".join(_DTYPE_ALIASES.get(name.lower(), name) for name in text.split(","))


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
    scale_percent: int = 100  # of one over the root of head_dim
    window: int = 0  # how many keys back (and ahead) a query sees; 0 is all
    packed: int = 0  # sequences packed into one row, with cu_seqlens; 0 is none
    padded: bool = False  # with lengths: later keys of a batch row are hidden
    masked: bool = False  # with a random boolean mask
    values: str = "normal"
    layout: str = "plain"
    exact_scale: float | None = None  # where scores are multiplied by something else
    captured: str = ""  # STORE#RECORD where the arrays come from a store, else they are drawn
    content: str = ""  # the checksum of that record

    def __post_init__(self) -> None:
        sizes = (self.batch, self.heads, self.kv_heads, self.query_length, self.key_length)
        if min(*sizes, self.head_dim) < 1:
            raise BadInput(f"workload {self.name}: every size must be at least 1")
        if max(*sizes, self.head_dim) > LARGEST_SIZE:
            raise BadInput(f"workload {self.name}: no size may be above {LARGEST_SIZE:,}")
        if self.heads % self.kv_heads:
            raise BadInput(
                f"workload {self.name}: {self.heads} query heads do not divide over "
                f"{self.kv_heads} kv heads; make the first a multiple of the second"
            )
        if self.dtype not in DTYPES:
            raise BadInput(f"workload dtype {self.dtype!r} is not one of {', '.join(DTYPES)}")
        if self.packed and (self.batch > 1 or self.padded or self.masked):
            raise BadInput(f"workload {self.name}: packed sequences have batch 1 and no other mask")

    @property
    def name(self) -> str:
        mask = MASKS[0] if self.causal else MASKS[1]
        sizes = (
            f"b{self.batch}_h{self.heads}_kv{self.kv_heads}_q{self.query_length}"
            f"_k{self.key_length}_d{self.head_dim}"
        )
        unusual = [f"seed{self.seed}"] if self.seed else []
        unusual += [f"scale{self.scale_percent}"] if self.scale_percent != 100 else []
        unusual += [f"w{self.window}"] if self.window else []
        unusual += [f"packed{self.packed}"] if self.packed else []
        unusual += [flag for flag in _FLAGS if getattr(self, flag)]
        unusual += [self.values] if self.values != "normal" else []
        unusual += [self.layout] if self.layout != "plain" else []
        unusual += [self._record] if self.captured else []
        return "_".join((sizes, mask, self.dtype, *unusual))

    @property
    def scale(self) -> float:
        """Factor of the scores: one over the root of the head dimension, as a rule."""
        if self.exact_scale is not None:
            return self.exact_scale
        return self.scale_percent / 100 * self.head_dim**-0.5

    def layout_of(self, tensor: str) -> str:
        """Return how q, k, v or dO lies in memory: a layout that names no tensor is of the first
        three."""
        own, _, name = self.layout.rpartition("-")
        return name if own == tensor or (not own and tensor != "dO") else "plain"

    @property
    def _record(self) -> str:
        """A captured record in few letters: its step and layer, and what tells it from others."""
        place = re.search(r"_s(\d+)_l(\d+|x)_[^#]*$", self.captured)
        short = f"s{int(place[1])}-l{place[2].lstrip('0') or '0'}" if place else "record"
        mark = hashlib.blake2b(f"{self.captured}@{self.content}".encode(), digest_size=3)
        return f"captured-{short}-{mark.hexdigest()}"

    @property
    def extras(self) -> frozenset[str]:
        """Options that an implementation must accept beyond the plain call for this workload."""
        options = {
            "window": self.window,
            "cu_seqlens": self.packed,
            "lengths": self.padded,
            "mask": self.masked,
        }
        return frozenset(name for name, wanted in options.items() if wanted)

    def as_dict(self) -> dict[str, Any]:
        """Defining fields; the unusual ones only where they are set."""
        usual = {field.name: field.default for field in fields(self)}
        values = {name: getattr(self, name) for name in usual}
        return {name: value for name, value in values.items() if value != usual[name]}


def parse(name: str, *, defaults: WorkloadSpec) -> WorkloadSpec:
    """The workload that `name` describes; what it leaves out comes from `defaults`."""
    values: dict[str, Any] = {}
    for part in name.split("_"):
        match = re.fullmatch(r"([a-z]+)(\d+)", part)
        if part in MASKS:
            values["causal"] = part == MASKS[0]
        elif (dtype := full_dtypes(part)) in DTYPES:
            values["dtype"] = dtype
        elif part in _FLAGS:
            values[part] = True
        elif part in VALUES:
            values["values"] = part
        elif part in (*LAYOUTS, *OWN_LAYOUTS):
            values["layout"] = part
        elif match and match[1] in _NUMBERS:
            values[_NUMBERS[match[1]]] = int(match[2])
        elif match and match[1] == "s":
            values["query_length"] = values["key_length"] = int(match[2])
        else:
            words = (*MASKS, *DTYPES, *_FLAGS, *VALUES, *LAYOUTS)
            hint = did_you_mean(part, words)
            raise BadInput(
                f"workload {name!r}: {part!r} is not understood; {hint and f'{hint} '}write for "
                "example b1_h8_kv2_q113_k1023_d64_causal_float32, b1_h8_s128, or "
                "captured:STORE#RECORD"
            )
    if "heads" in values:
        values.setdefault("kv_heads", values["heads"])
    return WorkloadSpec(**{**defaults.as_dict(), **values})
