"""Rounds have inputs of their own, and sound implementations are right on them."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from assay import host, plugins
from assay.attention import reference
from assay.subjects.change import InputChange, drawn
from assay.subjects.key_spots import key_places, key_spots
from assay.subjects.sequence import bind, make
from assay.workloads.spec import WorkloadSpec

HERE = host.inspect(commit=False)
SPEC = WorkloadSpec(
    batch=2, heads=4, kv_heads=2, query_length=96, key_length=300, head_dim=32, dtype="float32",
    causal=True, seed=3,
)  # fmt: skip
SOUND = [
    name
    for name in ("eager", "sdpa", "sdpa_math", "sdpa_flash", "flash2_torch", "jax_xla")
    if name in plugins.listing("sequence") and not plugins.find("sequence", name).missing
]
KINDS = ("normal", "small", "large", "huge", "onehot", "ties")


def excess(name: str, spec: WorkloadSpec, change: InputChange) -> dict[str, float]:
    """Errors of a changed call over their budgets, the largest of each tensor."""
    call = bind(name, make(spec), host=HERE, device="cpu")
    renewed = call.renewed(change)
    places, right = (look(change, keys=True) for look in (call.places, call.spots))
    out, (dq, dk, dv) = renewed.gradients()
    return {
        tensor: float(
            (
                np.abs(call.numpy(array, places[tensor]) - getattr(right.result, tensor))
                / right.allowed[tensor].largest
            ).max()
        )
        for tensor, array in (("out", out), ("dq", dq), ("dk", dk), ("dv", dv))
    }


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("name", SOUND)
def test_sound_implementations_are_right_on_changed_inputs(name, dtype):
    for causal in (True, False):
        spec = replace(SPEC, dtype=dtype, causal=causal)
        assert max(excess(name, spec, drawn()).values()) <= 1


@pytest.mark.parametrize("values", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_values_of_every_kind_are_right_on_changed_inputs(values, dtype):
    for _ in range(3):
        shares = excess("eager", replace(SPEC, dtype=dtype, values=values), drawn())
        assert max(shares.values()) <= 1


def test_what_is_right_is_what_the_reference_says_of_the_changed_inputs():
    change, workload = drawn(), make(SPEC)
    call = bind("eager", workload, host=HERE, device="cpu")
    q, k, v = (call.numpy(array) for array in call.renewed(change).inputs)
    whole = reference.attention(q, k, v, causal=True, scale=SPEC.scale, grad_out=workload.grad_out)
    places, right = (look(change, keys=True) for look in (call.places, call.spots))
    for tensor in ("out", "dq", "dk", "dv"):
        wanted = getattr(whole, tensor)[places[tensor]]
        assert np.allclose(getattr(right.result, tensor), wanted, rtol=1e-12, atol=1e-12), tensor


@pytest.mark.parametrize(
    "marks",
    [{"padded": True}, {"masked": True}, {"window": 40}, {"packed": 3, "batch": 1}],
    ids=lambda marks: next(iter(marks)),
)
def test_keys_are_right_whatever_a_query_may_see(marks):
    spec = replace(SPEC, **marks)
    workload, change = make(spec), drawn()
    q, k, v = (getattr(workload, name) * times for name, times in change.multipliers(spec).items())
    whole = reference.attention(
        q, k, v, causal=True, scale=spec.scale, grad_out=workload.grad_out, visible=workload.visible
    )
    right = key_spots(workload, change)
    for tensor, index in key_places(workload, change).items():
        wanted = getattr(whole, tensor)[index]
        assert np.allclose(getattr(right.result, tensor), wanted, rtol=1e-12, atol=1e-12), tensor


def test_keys_of_a_long_head_are_not_looked_at():
    workload = make(replace(SPEC, batch=1, query_length=1 << 12, key_length=1 << 12))
    call = bind("eager", workload, host=HERE, device="cpu")
    change = drawn()
    assert set(call.places(change, keys=True)) == set(call.spots(change, keys=True).allowed)
    assert set(call.places(change, keys=True)) == {"out", "dq"}


def test_scores_of_plain_numbers_are_new_and_those_of_a_kind_are_no_larger():
    change = drawn()
    times = change.multipliers(SPEC)
    assert len(set(times["q"] * times["k"])) == 2
    kept = change.multipliers(replace(SPEC, values="huge"))
    assert len(set(kept["q"] * kept["k"])) == 1 and 0 < (kept["q"] * kept["k"])[0] <= 1


def test_two_rounds_have_other_inputs_and_places():
    first, second = drawn(), drawn()
    call = bind("eager", make(SPEC), host=HERE, device="cpu")
    for before, after in zip(call.renewed(first).inputs, call.renewed(second).inputs, strict=True):
        assert not np.array_equal(call.numpy(before), call.numpy(after))
    rows = [change.places.integers(1 << 30, size=4).tolist() for change in (first, second)]
    assert rows[0] != rows[1]
