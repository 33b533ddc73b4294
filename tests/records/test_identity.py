"""When two records are one cell, when they may be compared, and which attempt counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_records import record, run_json

from assay.records.identity import current, differences, digest, run_differences, same_cell
from assay.records.schema import KEYS, WorkloadIdentity

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def _reversed_keys(value):
    if isinstance(value, dict):
        return {key: _reversed_keys(value[key]) for key in reversed(value)}
    return [_reversed_keys(item) for item in value] if isinstance(value, list) else value


@given(value=PLAIN)
def test_a_digest_does_not_depend_on_the_order_of_keys(value):
    assert digest(value) == digest(_reversed_keys(value))


@given(a=PLAIN, b=PLAIN)
def test_other_data_has_another_digest(a, b):
    same = repr(_sorted_keys(a)) == repr(_sorted_keys(b))
    assert (digest(a) == digest(b)) == same


def _sorted_keys(value):
    if isinstance(value, dict):
        return {key: _sorted_keys(value[key]) for key in sorted(value)}
    return [_sorted_keys(item) for item in value] if isinstance(value, list) else value


def test_a_digest_is_the_same_on_every_machine_and_day():
    assert digest({"b": [1, None], "a": "ü"}) == "7ac82461481fa4b2"


@pytest.mark.parametrize("change", ["stage", "cell", "fingerprint"])
def test_another_stage_cell_or_fingerprint_is_another_cell(change):
    assert same_cell(record(), record(value=9.0, session=2, host="h1"))
    assert not same_cell(record(), record(**{change: "other"}))


def _workload(content):
    return WorkloadIdentity(name="b1", spec={}, content=content)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"metric": "peak_bytes"}, "metric: latency_ms against peak_bytes"),
        ({"unit": "s"}, "unit: ms against s"),
        ({"level": "kernel"}, "level: None against kernel"),
        ({"host": "h1"}, "host: h0 against h1"),
        ({"status": "oom", "reason": "r"}, "status: ok against oom"),
        ({"workload": _workload("c1")}, "workload: c0 against c1"),
        ({"workload": None}, "workload: c0 against None"),
    ],
)
def test_each_reason_not_to_compare_is_said(change, said):
    given = {"workload": _workload("c0")}
    assert differences(record(**given), record(**{**given, **change})) == [said]


def test_subjects_values_and_cells_may_differ_in_a_comparison():
    other = record(subject="sdpa", value=8.0, cell="b", fingerprint="f1", session=3, attempt=2)
    assert differences(record(subject="eager"), other) == []


def test_several_differences_are_all_said():
    assert len(differences(record(), record(metric="m", unit="u", host="h"))) == 3


def test_runs_differ_in_their_fixed_keys_alone():
    other = run_json(run="other", study="other", config={}, seed=4, dtype=["float16"])
    assert run_differences(run_json(), other) == [
        "dtype: ['float32'] against ['float16']",
        "seed: 3 against 4",
    ]
    assert "run" not in KEYS and "seed" in KEYS


def test_only_the_highest_attempt_of_each_cell_is_current():
    records = [
        record(cell="a", value=1.0),
        record(cell="b", value=2.0, attempt=2),
        record(cell="a", value=3.0, attempt=3),
        record(cell="a", value=4.0, attempt=2),
        record(cell="b", value=5.0),
        record(cell="a", value=6.0, attempt=3),
        record(cell="a", value=7.0, stage="check"),
        record(cell="a", value=8.0, run="another"),
    ]
    assert [r.value for r in current(records)] == [2.0, 3.0, 6.0, 7.0, 8.0]
    assert current([]) == []
