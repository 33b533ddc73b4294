"""Sizes of the tensors that implementations hold, for their formulas of memory.

Such a formula, `memory(spec, *, training, device)`, names what is held above the inputs at the
peak: bytes by tensor. Where that moment depends on the sizes, it gives the largest of several.
"""

from assay.records.schema import ELEMENT_BYTES
from assay.workloads.spec import WorkloadSpec
from assay.workloads.work import key_bytes, query_bytes

FLOAT32_BYTES = ELEMENT_BYTES["float32"]

Held = dict[str, int]


def largest(*moments: Held) -> Held:
    """The moment at which most is held, without tensors of no bytes."""
    most = max(moments, key=lambda held: sum(held.values()))
    return {name: size for name, size in most.items() if size}


def is_half(spec: WorkloadSpec) -> bool:
    """True for a dtype of two bytes, of which a float32 copy needs a tensor of its own."""
    return ELEMENT_BYTES[spec.dtype] < FLOAT32_BYTES


def score_count(spec: WorkloadSpec) -> int:
    """Elements of [B, H, M, N]."""
    return spec.batch * spec.heads * spec.query_length * spec.key_length


def row_statistic_bytes(spec: WorkloadSpec) -> int:
    """Bytes of float32 [B, H, M], such as an LSE."""
    return FLOAT32_BYTES * spec.batch * spec.heads * spec.query_length


def float32_bytes(size: int, spec: WorkloadSpec) -> int:
    """Bytes that a tensor of `size` bytes in the workload's dtype has in float32."""
    return size * FLOAT32_BYTES // ELEMENT_BYTES[spec.dtype]


def repeated_kv_bytes(spec: WorkloadSpec) -> int:
    """Bytes of k (or v) repeated for every query head; 0 where each has its own."""
    group = spec.heads // spec.kv_heads
    return key_bytes(spec) * group if group > 1 else 0


def gradient_bytes(spec: WorkloadSpec) -> Held:
    """dq, dk and dv."""
    return {"dq": query_bytes(spec), "dk": key_bytes(spec), "dv": key_bytes(spec)}


def tiled_bytes(spec: WorkloadSpec, *, training: bool) -> Held:
    """Output, LSE and gradients: what a kernel that keeps no scores cannot do without."""
    held = {"out": query_bytes(spec), "lse": row_statistic_bytes(spec)}
    return held | (gradient_bytes(spec) if training else {})
