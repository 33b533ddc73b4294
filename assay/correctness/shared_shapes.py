"""Few shapes for all probes, for kernels that compile anew for each shape.

Such a kernel spends its time in the compiler: with cases of a hundred shapes it would be given up
on before it had shown anything. All its cases are brought to 17 shapes, which have between
them what defects depend on, and differ in their values.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from assay.attention.limits import WorkloadLimits
from assay.correctness.cases import FEWEST_CASES, features
from assay.workloads.spec import OF_DO, WorkloadSpec

_SHAPE = ("batch", "heads", "kv_heads", "query_length", "key_length", "head_dim", "dtype", "causal")
_REPEATS = 2  # cases of a probe that differ in their values only
# The looks of domain.py: with three dtypes in turn, causal and full, they are all six pairs of
# these. On a CPU that has no instructions for it the third dtype is slow, so its forms are small.
# Fewer queries than keys are in one block of queries, and in several of keys.
_LOOKS = (
    {"query_length": 33, "key_length": 161, "heads": 6, "kv_heads": 2, "head_dim": 24},
    {"query_length": 65, "key_length": 33, "heads": 4, "kv_heads": 1, "head_dim": 80},
    {"query_length": 1, "key_length": 1, "heads": 3, "kv_heads": 3, "head_dim": 256},
    {"query_length": 257, "key_length": 257, "head_dim": 128},
    {"query_length": 130, "key_length": 130, "head_dim": 16, "layout": "transposed"},
    {"query_length": 17, "key_length": 17, "head_dim": 32, "layout": "expanded"},
)
# Another shape for each of those pairs, most of them with another relation of queries to keys.
# An ignored scale shows where it is not one over the root of the head dimension.
_OTHERS = (
    {"query_length": 113, "key_length": 113, "head_dim": 64, "scale_percent": 37},
    {"query_length": 64, "key_length": 64, "head_dim": 32, "scale_percent": 130},
    {"query_length": 33, "key_length": 33, "heads": 4, "head_dim": 32, "scale_percent": 250},
    {"query_length": 1, "key_length": 64, "heads": 4, "head_dim": 32},
    {"query_length": 129, "key_length": 65, "head_dim": 64, "scale_percent": 130},
    {"query_length": 33, "key_length": 300, "heads": 4, "head_dim": 32, "scale_percent": 37},
)
# Shapes of models: long causal ones, a large batch, and heads with few, as many or one kv head.
_OF_MODELS = (
    {"batch": 1, "query_length": 1025, "key_length": 1025, "kv_heads": 1, "head_dim": 16},
    {"batch": 33, "query_length": 17, "key_length": 17, "heads": 64, "kv_heads": 8, "head_dim": 16},
    {"batch": 1, "query_length": 257, "key_length": 641, "kv_heads": 1, "head_dim": 16},
    {"batch": 1, "query_length": 33, "key_length": 33, "heads": 40, "kv_heads": 40, "head_dim": 16},
    {"batch": 1, "query_length": 33, "key_length": 33, "heads": 128, "kv_heads": 1, "head_dim": 16},
)


def looks(base: WorkloadSpec, dtypes: Sequence[str]) -> list[WorkloadSpec]:
    """Return workloads that are awkward in several ways at once, each dtype and mask among them."""
    return _forms(base, dtypes, _LOOKS)


def shapes(
    base: WorkloadSpec,
    dtypes: Sequence[str],
    limits: WorkloadLimits,
    takes: Callable[[WorkloadSpec], bool],
) -> list[WorkloadSpec]:
    """Return at most 17 workloads of different shapes inside limits, the looks first. What
    is refused for its scale alone has the usual one."""
    forms = (_LOOKS, _OTHERS, _OF_MODELS)
    plain = [replace(spec, layout="plain") for each in forms for spec in _forms(base, dtypes, each)]
    fitted = [limits.fitted(spec, turn) for turn, spec in enumerate(plain)]
    usual = [
        replace(spec, scale_percent=100) if spec and not takes(spec) else spec for spec in fitted
    ]
    different = {_shape(spec): spec for spec in reversed(usual) if spec and takes(spec)}
    return list(reversed(different.values()))


def brought_to(shared: Sequence[WorkloadSpec], specs: Sequence[WorkloadSpec]) -> list[WorkloadSpec]:
    """Return the cases of a probe in the shared shapes: each in the one that has most in common
    with it, above all what no case before has had. Many cases are spread over the shapes, few keep
    to few. Of those that then differ in their values only, two remain, or more where a probe has
    too few without them. What a defect may depend on and none of them has is added."""
    spread = -1 if len(specs) > _REPEATS * len(shared) else 1
    used: Counter[WorkloadSpec] = Counter()
    kinds: Counter[WorkloadSpec] = Counter()
    chosen: dict[WorkloadSpec, None] = {}
    had: set[tuple[str, Any]] = set()
    for spec in specs:
        shape = max(shared, key=lambda s: (*_in_common(s, spec, had), spread * used[s]))
        case = _in_shape(spec, shape)
        kind = replace(case, seed=0)
        if kinds[kind] >= _REPEATS and len(chosen) >= FEWEST_CASES:
            continue
        while case in chosen:
            case = replace(case, seed=case.seed + 1000)
        used[shape] += 1
        kinds[kind] += 1
        chosen[case] = None
        had |= features(case)
    for spec in specs:
        for shape in shared:
            case = _in_shape(spec, shape)
            if features(spec) & features(case) - had:
                chosen[case] = None
                had |= features(case)
    return list(chosen)


def _forms(
    base: WorkloadSpec, dtypes: Sequence[str], forms: Sequence[dict[str, Any]]
) -> list[WorkloadSpec]:
    """Workloads like `base` in these forms; dtypes take turns, and so do masks."""
    return [
        replace(
            base, **{"batch": 2, **form}, dtype=dtypes[turn % len(dtypes)], causal=turn % 2 == 0
        )
        for turn, form in enumerate(forms)
    ]


def _in_common(
    shape: WorkloadSpec, spec: WorkloadSpec, had: set[tuple[str, Any]]
) -> tuple[bool, bool, int]:
    """Rank a shape as the place for a case; the highest is best. First comes the same mask, then
    agreement on whether there is only one query or key, then the number of shared features, where
    one that no earlier case has had counts twice."""
    single = [1 in (each.query_length, each.key_length) for each in (shape, spec)]
    common = features(shape) & features(spec)
    return shape.causal == spec.causal, single[0] == single[1], len(common) + len(common - had)


def _in_shape(spec: WorkloadSpec, shape: WorkloadSpec) -> WorkloadSpec:
    """The case in another shape. Values of its own are meant for its own scale."""
    names = (*_SHAPE, "scale_percent") if spec.values == "normal" else _SHAPE
    fields = {name: getattr(shape, name) for name in names}
    if spec.packed or spec.layout in OF_DO:  # whose batch is its own: see probes/strides.py
        fields["batch"] = spec.batch
    return replace(spec, **fields)


def _shape(spec: WorkloadSpec) -> tuple[Any, ...]:
    return tuple(getattr(spec, name) for name in _SHAPE)
