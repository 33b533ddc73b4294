"""The likely cause of a failure in words, from the failing cases and those that passed."""

import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from assay.attention.budget import TENSORS
from assay.captures.inputs import make
from assay.correctness.cases import cost
from assay.correctness.diagnosis import forward, patterns, structure
from assay.correctness.diagnosis.failure import Failure, run_again
from assay.correctness.diagnosis.known_bugs import MATCH, TIE, known_bug
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

T = TypeVar("T")

DIAGNOSED = ("accuracy", "gradients", "shapes", "stability", "options")  # probes of values

_EXAMINED = 6  # failing cases, from cheap to costly, and as many that passed
_MOST_COST = 10_000_000  # of an examined case
_ORDER = ("out", "lse", *TENSORS[1:])  # in which an error spreads
_FACTORS_ALIKE = 0.1  # of a factor's distance from 1, by which those of cases may differ
_MOST_ROUNDING = 30.0  # budgets, that sums in half precision may be off by


def evidence(name: str, passing: Mapping[str, list[WorkloadSpec]]) -> list[WorkloadSpec]:
    """Return the cases whose values are known to be right, for the diagnosis of the probe `name`.

    Other probes pass on wrong values too. Of those that compare values, accuracy says nothing of
    gradients, and gradients nothing of the output.
    """
    silent = "gradients" if name == "accuracy" else "accuracy"
    speaking = [other for other in DIAGNOSED if other == name or other != silent]
    return [spec for other in speaking for spec in passing.get(other, ())]


def likely_cause(
    failing: Sequence[WorkloadSpec],
    passing: Sequence[WorkloadSpec],
    bind: Callable[[WorkloadSpec], SequenceSubject],
    tried: Mapping[WorkloadSpec, bool] = MappingProxyType({}),
) -> str | None:
    """Return why the failing cases fail, as far as that can be told; a broken implementation may
    break the search for it too. `tried` says of further cases, small ones, whether they pass: they
    tell a condition from chance."""
    try:
        return _cause(failing, passing, bind, tried)
    except Exception as error:
        traceback.print_exception(error, file=sys.stderr)
        return None


def _cause(
    failing: Sequence[WorkloadSpec],
    passing: Sequence[WorkloadSpec],
    bind: Callable[[WorkloadSpec], SequenceSubject],
    tried: Mapping[WorkloadSpec, bool],
) -> str | None:
    condition = patterns.common_condition(
        [*failing, *(spec for spec, passes in tried.items() if not passes)],
        [*passing, *(spec for spec, passes in tried.items() if passes)],
    )
    failures, raising = run_again(_affordable(failing), bind)
    masks = {spec.causal for spec in failing}
    alike = _affordable([spec for spec in passing if spec.causal in masks])  # they refute most
    passed = [make(spec) for spec in _some(alike)]
    cause = _explanation(_some(failures), passed) if failures else None
    if cause and TIE in cause and (others := run_again(_exchanged(failures), bind)[0]):
        better = _explanation([*_some(failures), *others], passed)
        cause = better if better and better in cause else cause
    if cause and (beside := _of_gradients_alone(failures)) and beside not in cause:
        cause = f"{cause}; where the output is right, {beside}"
    if cause and raising:
        cause = f"where it does not raise, {cause}"
    if cause and condition:
        return f"{cause} (it fails only {condition})"
    return cause or (f"it fails only {condition}" if condition else None)


def _exchanged(failures: Sequence[Failure]) -> list[WorkloadSpec]:
    """Return a case with the numbers of queries and keys exchanged, where no failure has as many
    of one and fewer of the other: masks that are alike for Sq > Sk differ for Sq < Sk."""
    specs = [failure.workload.spec for failure in failures]
    signs = {np.sign(spec.key_length - spec.query_length) for spec in specs} - {0}
    unequal = [spec for spec in specs if spec.query_length != spec.key_length]
    if len(signs) != 1:
        return []
    first = min(unequal, key=cost)
    return [replace(first, query_length=first.key_length, key_length=first.query_length)]


def _affordable(specs: Sequence[WorkloadSpec]) -> list[WorkloadSpec]:
    """Return each case that is not too costly, the cheapest first, and at least one."""
    ordered = sorted(dict.fromkeys(specs), key=cost)
    return [spec for spec in ordered if cost(spec) <= _MOST_COST] or ordered[:1]


def _some(ordered: Sequence[T]) -> list[T]:
    """Return a few, spread evenly from the first to the last."""
    step = max(1.0, (len(ordered) - 1) / (_EXAMINED - 1))
    return [ordered[round(n * step)] for n in range(min(_EXAMINED, len(ordered)))]


def _explanation(failures: Sequence[Failure], passed: Sequence[Workload]) -> str | None:
    """Return the first explanation that fits all failures of the first tensor that is wrong: a
    gradient that is wrong where the output is right explains no wrong output."""
    first = min((f.tensor for f in failures), key=_ORDER.index)
    failures = [f for f in failures if f.tensor == first]
    for explain in (_rows_without_keys, _scaled_scores, _rounding_beyond_budget):
        if cause := explain(failures):
            return cause
    if cause := known_bug(failures, passed, Failure.share):
        return cause
    finite = [f for f in failures if np.isfinite(f.actual).all()]
    if len(finite) < len(failures) and (cause := known_bug(finite, passed, Failure.share)):
        return f"{cause}; in other cases {first} is not finite"
    for explain in (_not_finite, _wrong_lse, _wrong_factor, _low_precision):
        if cause := explain(failures):
            return cause
    beside_right_heads = all(map(_spares_heads, failures))  # which no known bug does
    if not beside_right_heads and (c := known_bug(failures, passed, Failure.share_of_wrong_rows)):
        return f"in some rows, {c}"
    places = [patterns.wrong_places(f.tensor, f.actual, f.right, f.allowed) for f in failures]
    if not places[-1] or len(set(places)) == 1:
        return places[-1] or None
    return f"{places[-1]} on {failures[-1].workload.spec.name}"  # other cases may contradict it


def _spares_heads(failure: Failure) -> bool:
    """Return whether some heads of some batch entries are right throughout, and others are not."""
    with np.errstate(invalid="ignore"):
        right = np.abs(failure.actual - failure.right) <= failure.allowed
    by_head = right.all(axis=(2, 3))
    return bool(by_head.any() and not by_head.all())


def _of_gradients_alone(failures: Sequence[Failure]) -> str | None:
    """Return the known bug of a gradient in those cases whose output is right, where others have a
    wrong one: a mistake of the backward beside one of the forward."""
    gradients = [f for f in failures if f.tensor in TENSORS[1:]]
    if len(gradients) == len(failures) or not gradients:
        return None
    first = min((f.tensor for f in gradients), key=_ORDER.index)
    return known_bug([f for f in _some(gradients) if f.tensor == first], (), Failure.share)


def _rows_without_keys(failures: Sequence[Failure]) -> str | None:
    """Explain failures whose wrong rows all belong to queries that see no key."""
    tensor = failures[0].tensor
    if tensor not in ("out", "dq", "lse"):
        return None
    for failure in failures:
        with np.errstate(invalid="ignore"):
            equal = failure.actual == failure.right  # also where both are -inf
            wrong = ~(equal | (np.abs(failure.actual - failure.right) <= failure.allowed))
        blind = ~failure.workload.visible.any(axis=-1, keepdims=True)
        if not blind.any() or (wrong & ~blind).any():
            return None
    actual = "NaN (0/0)" if np.isnan(failures[-1].actual).any() else "other values"
    return (
        f"queries that see no key give {actual} in {tensor}, wanted "
        f"{'-inf' if tensor == 'lse' else 'zeros'}: such rows are averaged over hidden keys, or "
        "never written"
    )


def _not_finite(failures: Sequence[Failure]) -> str | None:
    infinite = [failure for failure in failures if not np.isfinite(failure.actual).all()]
    if not infinite or failures[0].tensor == "lse":
        return None
    tensor, spec = infinite[-1].tensor, infinite[-1].workload.spec
    if spec.values in ("large", "huge", "onehot"):
        return (
            f"{tensor} overflows or is 0/0 where scores are large: the row's own largest score "
            "(its max) is not subtracted before exp, the log of a weight that underflowed is "
            f"taken, or scores are held in {spec.dtype} and overflow to inf"
        )
    return f"{tensor} is not finite: memory is read that was never written, or 0/0"


def _scaled_scores(failures: Sequence[Failure]) -> str | None:
    """Explain outputs whose scores all have the same factor."""
    if failures[0].tensor != "out":
        return None
    factors = [structure.factor_of_scores(f.actual, f.right, f.workload) for f in failures]
    if None in factors:
        return None
    factor = float(np.median(factors))
    if max(abs(other - factor) for other in factors) > _FACTORS_ALIKE * abs(factor - 1):
        return None
    number = structure.factor_in_words(factor, exact=True)
    return structure.SCORES.format(f"about {number}")


def _spread(failures: Sequence[Failure]) -> bool:
    """Return whether errors are spread over rows and heads, as those of rounding are."""
    return all(patterns.is_spread(f.actual - f.right, f.allowed) for f in failures)


def _rounding_beyond_budget(failures: Sequence[Failure]) -> str | None:
    """Explain an error so small that no known bug could be told from it."""
    if max(failure.share(failure.right) for failure in failures) > MATCH or not _spread(failures):
        return None
    return (
        f"{failures[-1].tensor} is right except for rounding, which exceeds the budget: sums, "
        "weights or exp are computed in lower precision than float32"
    )


def _wrong_lse(failures: Sequence[Failure]) -> str | None:
    if failures[0].tensor != "lse":
        return None
    if all(f.share(f.right * np.log2(np.e)) <= MATCH for f in failures):
        return "the LSE is in base 2, wanted the natural logarithm"
    if all(f.share(f.right - _row_maximum(f.workload)) <= MATCH for f in failures):
        return "the LSE lacks the row's largest score: only the logarithm of the sum is returned"
    return None


def _row_maximum(workload: Workload) -> np.ndarray:
    """Return the largest score of each row, [B, H, M, 1]; 0 where a row sees no key."""
    scores, _ = forward.scores_of(workload)
    highest = np.where(workload.visible, scores, -np.inf).max(axis=-1, keepdims=True)
    return np.where(np.isneginf(highest), 0.0, highest)


def _wrong_factor(failures: Sequence[Failure]) -> str | None:
    factors = [patterns.constant_factor(f.actual, f.right, f.allowed) for f in failures]
    if any(factor is None for factor in factors):
        return None
    words = " or ".join(dict.fromkeys(f"{factor:.5g}" for factor in factors))
    return f"every element of {failures[0].tensor} is {words} times what it should be"


def _low_precision(failures: Sequence[Failure]) -> str | None:
    """Explain failures that are all of the size of some rounding: one that is not has another
    cause, and the others may have that too."""
    last = failures[-1]
    names = [_precision(failure) for failure in failures]
    if not all(names) or not _spread(failures):
        return None
    if lower := [name for f, name in zip(failures, names, strict=True) if _is_float32(f)]:
        return (
            f"errors are of the size of {lower[-1]} rounding: {last.tensor} of a float32 input "
            "is computed in lower precision"
        )
    return (
        f"{last.tensor} is right except for rounding: sums or weights are kept in {names[-1]}, "
        "wanted float32"
    )


def _precision(failure: Failure) -> str | None:
    """Return the precision whose rounding a failure may be; None where it is more than that."""
    if _is_float32(failure):
        return patterns.lower_precision(failure.actual, failure.right)
    rounding = failure.share(failure.right) < _MOST_ROUNDING
    return failure.workload.spec.dtype if rounding else None


def _is_float32(failure: Failure) -> bool:
    return failure.workload.spec.dtype == "float32"
