"""A model's own output comes back bit for bit from what was captured, or that is a failure."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from captured_calls import add, as_dtype, inputs

from assay import host
from assay.captures.inputs import captured_specs, make, workload_entry
from assay.captures.store import Store
from assay.correctness.probes import replayed
from assay.studies import kconfig, workload_cells
from assay.subjects.outcome import Unsupported
from assay.subjects.sequence import bind

HERE = host.inspect()


def workload(tmp_path, *, dtype="float32", versions=None, **setting):
    """Random inputs and torch's sdpa of them, captured as from a model that calls it."""
    tensors = inputs(dtype=dtype, **setting)
    given = [torch.tensor(t.numbers()).to(getattr(torch, dtype)) for t in tensors.values()]
    causal = setting.get("queries", 9) == setting.get("keys", 9)
    out = torch.nn.functional.scaled_dot_product_attention(
        *given, is_causal=causal, enable_gqa=True
    )
    store = Store.create(tmp_path / "store")
    tensors["out"] = as_dtype(out.float().numpy(), dtype)
    add(store, tensors, implementation="sdpa", versions=versions or HERE.versions, causal=causal)
    (spec,) = captured_specs(workload_entry(store.path))
    return make(spec)


def replay(name, given):
    """Measurements of the probe for an implementation on a captured workload."""
    call = bind(name, given, host=HERE, device="cpu")
    return replayed.measure(call, given, HERE)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("setting", [{"queries": 113, "keys": 113}, {"queries": 1, "keys": 63}])
def test_the_same_implementation_gives_the_same_bits(tmp_path, dtype, setting):
    differences, largest = replay("sdpa", workload(tmp_path, dtype=dtype, **setting))
    assert (differences.value, largest.value) == (0, 0)
    assert "same implementation" in differences.source


def test_one_changed_element_is_a_failure(tmp_path):
    given = workload(tmp_path)
    out = given.captured.out.copy()
    out[1, 2, 3, 4] = np.nextafter(out[1, 2, 3, 4], np.float32(9))
    (failure,) = replay("sdpa", replace(given, captured=replace(given.captured, out=out)))
    assert failure.status == "failed" and failure.reason.startswith("1 of 1152 elements")


def test_another_implementation_may_differ_and_says_by_how_much(tmp_path):
    differences, largest = replay("eager", workload(tmp_path, queries=113, keys=113))
    assert differences.status == "ok" and differences.value > 0 and 0 < largest.value < 1e-5
    assert "computed by sdpa" in differences.source


def test_other_versions_may_differ(tmp_path):
    given = workload(tmp_path, versions={"torch": "1.0"})
    out = given.captured.out + np.float32(1e-6)
    measured = replay("sdpa", replace(given, captured=replace(given.captured, out=out)))
    assert measured[0].status == "ok" and "with torch 1.0, here is" in measured[0].source


def test_rows_that_see_nothing_are_not_compared(tmp_path):
    """A model's output for padding is undefined; a workload's is zero."""
    given = workload(tmp_path)
    rows = given.captured.rows.copy()
    rows[:, :, 0] = False
    out = given.captured.out.copy()
    out[:, :, 0] = 99.0
    changed = replace(given.captured, out=out, rows=rows)
    assert replay("sdpa", replace(given, captured=changed))[0].value == 0


def test_weights_that_overflow_are_a_failure(tmp_path):
    """docs/examples/fixed_max.py is right until a score is large: as drawn ones are not."""
    file = str(host.CHECKOUT / "docs" / "examples" / "fixed_max.py")
    given = workload(tmp_path, dtype="float16", queries=63, keys=63)
    assert replay(file, given)[0].status == "ok"
    pointed = replace(given, q=np.tile(given.k, (1, 2, 1, 1)) * 5)
    (failure,) = replay(file, pointed)
    assert failure.status == "failed" and "NaN or infinite" in failure.reason


def test_an_output_that_was_not_stored_is_no_reproach(tmp_path):
    with pytest.raises(Unsupported, match="was not stored"):
        replay("sdpa", replace(workload(tmp_path), captured=None))


def test_drawn_workloads_are_not_given_to_it(tmp_path):
    workload(tmp_path)
    entries = f"b1_h1_s8_d16,captured:{tmp_path / 'store'}"
    study = kconfig.load(None, [f"WORKLOADS={entries}", "STAGES=check", "PROBES=accuracy,replayed"])
    drawn, taken = workload_cells.cells(replace(study, device="cpu"), "check")
    assert drawn.probes == ("accuracy",) and taken.probes == ("accuracy", "replayed")
