"""Sizes of the tensors that implementations hold, for their formulas of memory.

Such a formula, `memory(spec, *, training, device)`, names what is held above the inputs when most
is held: bytes by tensor. Where that moment depends on the sizes, it gives the largest of several.
"""

from assay.workloads.spec import WorkloadSpec
from assay.workloads.work import ELEMENT_BYTES, key_bytes, query_bytes

FLOAT = 4  # bytes of a float32

Held = dict[str, int]


def largest(*moments: Held) -> Held:
    """The moment at which most is held, without what is not there."""
    most = max(moments, key=lambda held: sum(held.values()))
    return {name: size for name, size in most.items() if size}


def half(spec: WorkloadSpec) -> bool:
    """Whether float32 needs a tensor of its own."""
    return ELEMENT_BYTES[spec.dtype] < FLOAT


def scores(spec: WorkloadSpec) -> int:
    """How many scores there are."""
    return spec.batch * spec.heads * spec.query_length * spec.key_length


def row_floats(spec: WorkloadSpec) -> int:
    """Bytes of one float32 for each query of each head, such as an LSE."""
    return FLOAT * spec.batch * spec.heads * spec.query_length


def wide(size: int, spec: WorkloadSpec) -> int:
    """Bytes of a tensor of `size` bytes when it is float32."""
    return size * FLOAT // ELEMENT_BYTES[spec.dtype]


def repeated(spec: WorkloadSpec) -> int:
    """Bytes of k (or v) written out for every query head; 0 where each has its own."""
    group = spec.heads // spec.kv_heads
    return key_bytes(spec) * group if group > 1 else 0


def gradients(spec: WorkloadSpec) -> Held:
    """What a backward pass gives back."""
    return {"dq": query_bytes(spec), "dk": key_bytes(spec), "dv": key_bytes(spec)}


def tiled(spec: WorkloadSpec, *, training: bool, **more: int) -> Held:
    """Output, LSE and gradients: what a kernel that keeps no scores cannot do without."""
    held = {"out": query_bytes(spec), "lse": row_floats(spec)}
    return held | (gradients(spec) if training else {}) | more
