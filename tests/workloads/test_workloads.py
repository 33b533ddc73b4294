"""Workloads are the same bits everywhere, and their names say all there is to say."""

from dataclasses import replace

import numpy as np
import pytest

from assay.captures.inputs import make
from assay.errors import BadInput
from assay.workloads import values
from assay.workloads.spec import WorkloadSpec, parse
from assay.workloads.values import rounded

SPEC = WorkloadSpec(
    batch=1, heads=8, kv_heads=2, query_length=5, key_length=7, head_dim=4, dtype="float32",
    causal=True, seed=0,
)  # fmt: skip


def test_a_name_and_back():
    assert SPEC.name == "b1_h8_kv2_q5_k7_d4_causal_float32"
    assert parse(SPEC.name, defaults=SPEC) == SPEC
    other = parse("b3_h4_kv1_q9_k11_d16_full_bfloat16_seed5", defaults=SPEC)
    assert parse(other.name, defaults=SPEC) == other and not other.causal and other.seed == 5


def test_shorthand():
    short = parse("h4_s128", defaults=SPEC)
    assert (short.heads, short.kv_heads, short.query_length, short.key_length) == (4, 4, 128, 128)


@pytest.mark.parametrize(
    "name, complaint",
    [
        ("b1_x9", "'x9' is not understood"),
        ("h8_kv3", "do not divide"),
        ("b0", "at least 1"),
        ("", "is not understood"),
    ],
)
def test_bad_names(name, complaint):
    with pytest.raises(BadInput, match=complaint):
        parse(name, defaults=SPEC)


def test_the_bits_do_not_change():
    """A fixed digest: another one means that every earlier record used other inputs."""
    assert make(SPEC).identity.content == make(SPEC).identity.content
    assert make(SPEC).identity.content == "270dba81d084c4030228c0fb1392b2f4"


@pytest.mark.parametrize("field, value", [("seed", 1), ("dtype", "float16"), ("head_dim", 8)])
def test_the_content_hash_follows_the_content(field, value):
    assert make(replace(SPEC, **{field: value})).identity.content != make(SPEC).identity.content


def test_rounding_to_bfloat16_is_torchs():
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    edge = np.array(
        [0.0, -0.0, 1.00390625, 1.01171875, np.inf, -np.inf, np.nan, 3e38, 3.4e38, 1e-40]
    )
    values = np.concatenate([values, edge.astype(np.float32)])
    wanted = torch.from_numpy(values).bfloat16().float().numpy()
    assert np.array_equal(rounded(values, "bfloat16"), wanted, equal_nan=True)


def test_rounding_to_float16_is_numpys():
    values = np.array([65504.0, 65520.0, 1e-8, 1.0009765625], dtype=np.float32)
    assert np.isinf(rounded(values, "float16")[1])
    with np.errstate(over="ignore"):
        wanted = values.astype(np.float16).astype(np.float32)
    assert np.array_equal(rounded(values, "float16"), wanted)


def test_large_arrays_are_the_same_on_any_number_of_cores(monkeypatch):
    monkeypatch.setattr(values, "WHOLE", 1000)
    monkeypatch.setattr(values, "BLOCK", 300)
    spec = replace(SPEC, key_length=701, dtype="bfloat16")
    made = {}
    for cores in (1, 7):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        made[cores] = make(spec)
    assert made[1].identity == made[7].identity
    assert (made[1].k == made[7].k).all() and (made[1].k == rounded(made[1].k, "bfloat16")).all()
    assert not np.array_equal(made[1].k, made[1].v)
    assert abs(made[1].k.mean()) < 0.1 and abs(made[1].k.std() - 1) < 0.1
