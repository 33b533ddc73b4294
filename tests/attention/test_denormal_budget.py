"""The budget of dk and dv below the smallest normal number of float16."""

import numpy as np
import pytest

from assay.captures.inputs import make
from assay.correctness.cases import CaseGenerator
from assay.correctness.judge import compare_values
from assay.subjects.expected import expected
from assay.workloads.values import rounded

CASES = CaseGenerator(seed=0, count=1, quick=False, gpu=False)


def in_tiles(workload, rows):
    """dv as torch's CPU kernel adds it up: rounded to float16 after each tile of queries."""
    right, total = expected(workload).result, np.zeros_like(workload.v)
    scores = workload.spec.scale * (workload.q @ workload.k.swapaxes(-1, -2))
    weights = np.where(workload.visible, np.exp(scores - right.lse[..., None]), 0.0)
    for first in range(0, workload.spec.query_length, rows):
        tile = slice(first, first + rows)
        weights_of_tile = rounded(weights[:, :, tile].astype(np.float32), "float16")
        part = weights_of_tile.swapaxes(-1, -2) @ workload.grad_out[:, :, tile]
        total = rounded(total + rounded(part, "float16"), "float16")
    return total.astype(np.float64)


def compared(workload, dv):
    return compare_values("dv", dv, expected(workload), "float16")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("length", "rows"), [(33, 32), (130, 32), (190, 32), (511, 64)])
def test_partial_sums_in_half_precision_are_within_the_budget(length, rows, seed):
    """dv of torch's kernel was 1.13 of the budget at 130 keys. The arithmetic of it, five partial
    sums that are each off by half of the one unit there is, was off by 2.27 units, and equal to
    torch 2.13 bit for bit; the rule allowed two."""
    spec = CASES.spec(length=length, dtype="float16", values="denormal", seed=seed)
    workload = make(spec)
    comparison = compared(workload, in_tiles(workload, rows))
    assert comparison.holds and comparison.share > 0.2


def test_what_is_flushed_or_added_up_in_single_rows_is_not():
    workload = make(CASES.spec(length=130, dtype="float16", values="denormal", seed=3))
    right = expected(workload).result.dv
    assert not compared(workload, np.zeros_like(right)).holds
    assert not compared(workload, in_tiles(workload, 1)).holds


def test_normal_numbers_have_the_budget_that_they_had():
    """The rule is about rows whose unit does not shrink; two units of others are as before."""
    workload = make(CASES.spec(length=130, dtype="float16", seed=3))
    assert not compared(workload, in_tiles(workload, 1)).holds
