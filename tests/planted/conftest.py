"""Every file here is given the same cases, so each process computes their right values once."""

import pytest

_MOST_BYTES = 1 << 30
_BYTES = 32  # of each number: its value, what is allowed of it, and both for its gradient


@pytest.fixture(autouse=True, scope="session")
def shared_references():
    pytest.importorskip("torch")
    from assay.subjects import sequence

    compute, kept, size = sequence.expected, {}, 0

    def expected(workload, *conditions):
        nonlocal size
        key = (repr(workload.identity), *conditions)
        if key in kept:
            return kept[key]
        found = compute(workload, *conditions)
        if size < _MOST_BYTES:
            kept[key] = found
            size += _BYTES * sum(a.size for a in (workload.q, workload.k, workload.v))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequence, "expected", expected)
        yield
