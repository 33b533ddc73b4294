"""Digests of plain data, and the attempt at a cell that counts."""

from hypothesis import given
from hypothesis import strategies as st
from made_records import record

from assay.records.identity import current, digest

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
