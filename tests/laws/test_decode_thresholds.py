"""Recommendations for decode kernels: from records to the file, and back to who asks for one."""

import numpy as np
import pytest
from law_records import HOST, record, run_json, timed, workload

from assay.laws.curves import length_of, setting_of
from assay.laws.thresholds import recommend
from assay.laws.thresholds_file import write

LENGTHS = (1024, 4096, 16384)


def steps(subject, value_at, *, query_length=1, batch=1, lengths=LENGTHS):
    """Times of a kernel at each number of keys, as the stage decode records them."""
    records = []
    for keys in lengths:
        drawn = np.random.default_rng([keys, batch, *subject.encode()]).normal(0, 0.01, 30)
        samples = (value_at(keys) * np.exp(drawn)).tolist()
        step = workload(keys, query_length=query_length, batch=batch)
        records.append(record(samples=samples, subject=subject, workload=step, stage="decode"))
    return records


RECORDS = [
    *steps("int4:dequantised", lambda keys: 1e-3 * keys),
    *steps("int4:int4", lambda keys: 2.0 + 2e-4 * keys),
    *steps("dense:sdpa", lambda keys: 1e-4 * keys),
    *steps("dense:dense", lambda keys: 1.1e-4 * keys),
]


def test_the_keys_of_a_step_are_its_length():
    first, *_ = RECORDS
    assert length_of(first) == LENGTHS[0]
    assert setting_of(first).shape == "b1_h32_kv8_q1_d128_causal_bfloat16"
    square = record(samples=[1.0], workload=workload(64, query_length=1))  # of the bench
    assert length_of(square) is None


def test_files_of_one_layout_are_a_class():
    by_layout = {advice.workloads.layer: advice for advice in recommend(RECORDS)}
    assert set(by_layout) == {"int4", "dense"}
    int4 = by_layout["int4"]
    assert int4.workloads.level == "kernel" and int4.lengths == LENGTHS
    first, second = int4.choices
    assert (first.use, second.use) == ("int4:dequantised", "int4:int4")
    assert second.start == pytest.approx(2500, rel=0.1)
    assert [choice.use for choice in by_layout["dense"].choices] == ["dense:sdpa"]


def test_several_new_tokens_recommend_nothing():
    several = [
        r
        for subject, factor in (("int4:int4", 1), ("int4:dequantised", 2))
        for r in steps(subject, lambda keys, f=factor: f * keys, query_length=4)
    ]
    assert recommend(several) == []


def test_who_asks_is_given_what_was_measured(tmp_path, monkeypatch):
    """Also where the same host has thresholds of sequences with the same heads."""
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    from assay.attention import decoders, thresholds
    from assay.attention.decoders import DecodeSizes

    sequences = [*timed("eager", lambda s: 1e-6 * s * s), *timed("flash", lambda s: 1e-4 * s)]
    path = tmp_path / "thresholds.json"
    write(path, recommend([*sequences, *RECORDS]), [run_json()])
    monkeypatch.setenv(thresholds.VARIABLE, str(path))
    monkeypatch.setattr(thresholds, "_fingerprint", lambda: HOST)
    decoders.choose.cache_clear()

    def chosen(layout, keys, **changes):
        sizes = {"heads": 32, "kv_heads": 8, "head_dim": 128, "dtype": "bfloat16", "batch": 1}
        asked = DecodeSizes(**{**sizes, "device": "cuda", "keys": keys, **changes})
        kernel = decoders.choose(layout, asked)
        return kernel and kernel.name

    assert chosen("int4", 1024) is None  # written out whole is faster there
    assert chosen("int4", 8192) == "int4"
    assert chosen("dense", 8192) is None  # torch's own
    assert chosen("k16v8", 8192) == "k16v8"  # not measured: what reads it as it is kept
    assert chosen("int4", 1024, batch=4) == "int4"  # another batch than measured
    decoders.choose.cache_clear()
