"""core="auto": what the thresholds file says for this machine and these sizes, else `xla`."""

import json

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("flax")

import jax.numpy as jnp
from gemma_cases import BATCH, core_named, normal, some_mask

from assay.attention import thresholds
from assay.models.gemma import cores
from assay.models.gemma.cores import CORES

HERE = "here"
CHOICES = (("gemma:xla", 1), ("gemma:pallas", 8))


@pytest.fixture(autouse=True)
def this_machine(monkeypatch):
    monkeypatch.setattr(thresholds, "_fingerprint", lambda: HERE)


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "thresholds.json"
    monkeypatch.setenv("ASSAY_THRESHOLDS", str(path))
    return path


@pytest.fixture
def called(monkeypatch):
    """The names of the cores that were called; they compute nothing."""
    names = []
    for name in CORES:
        monkeypatch.setitem(CORES, name, lambda *_, name=name, **__: names.append(name))
    return names


def written(path, *, host=HERE, choices=CHOICES, schema=1, **changes):
    entry = {
        "level": "layer", "heads": 4, "kv_heads": 2, "head_dim": 16, "dtype": "float32",
        "causal": True, "metric": "latency_ms", "lengths": [4, 16],
        "choices": [{"from": start, "use": use} for use, start in choices], **changes,
    }  # fmt: skip
    hosts = {host: {"device": "A GPU", "run": "r", "commit": None, "classes": [entry]}}
    path.write_text(json.dumps({"schema": schema, "hosts": hosts}))


def inputs(keys=9, queries=5, *, dtype="float32", kv_dtype=None):
    q = normal((BATCH, queries, 4, 16), seed=1, dtype=dtype)
    k, v = (normal((BATCH, keys, 2, 16), seed=s, dtype=kv_dtype or dtype) for s in (2, 3))
    return q, k, v, some_mask(queries, keys)


def attend(*, layer="gemma", dtype="float32", **sizes):
    return core_named("auto", layer=layer)(*inputs(dtype=dtype, **sizes), dtype=jnp.dtype(dtype))


@pytest.mark.parametrize(
    ("keys", "core"), [(7, "xla"), (8, "pallas"), (9, "pallas"), (16, "pallas"), (17, "xla")]
)
def test_the_number_of_keys_chooses_between_the_lengths_measured(file, called, keys, core):
    written(file)
    attend(keys=keys)
    assert called == [core]


@pytest.mark.parametrize(
    "other",
    [
        {"host": "there"},
        {"level": "kernel"},
        {"heads": 8},
        {"kv_heads": 4},
        {"head_dim": 32},
        {"dtype": "bfloat16"},
        {"layer": "gemma_fast"},
        {"lengths": [10, 16]},
        {"lengths": []},
        {"choices": (("gemma:unheard", 1),)},
        {"choices": (("pallas", 1),)},  # not a layer's core
    ],
)
def test_what_was_measured_elsewhere_or_on_something_else_does_not_count(file, called, other):
    written(file, **{"choices": (("gemma:pallas", 1),), **other})
    attend()
    assert called == ["xla"]


def test_a_layer_reads_its_own_entry(file, called):
    written(file, choices=(("gemma_fast:pallas", 1),), layer="gemma_fast")
    attend(layer="gemma_fast")
    attend(layer="gemma")
    assert called == ["pallas", "xla"]


def test_one_query_stays_with_xla(file, called):
    """Thresholds come from as many queries as keys."""
    written(file, choices=(("gemma:pallas", 1),))
    attend(queries=1)
    assert called == ["xla"]


@pytest.mark.parametrize(
    ("dtype", "kv_dtype", "backend", "core"),
    [
        ("bfloat16", "bfloat16", "gpu", "cudnn"),
        ("bfloat16", "bfloat16", "cpu", "pallas"),
        ("bfloat16", "float32", "gpu", "pallas"),  # the result would be float32
        ("float32", "float32", "gpu", "pallas"),
    ],
)
def test_cudnn_is_never_chosen_where_it_would_refuse(
    file, called, monkeypatch, dtype, kv_dtype, backend, core
):
    monkeypatch.setattr(cores.jax, "default_backend", lambda: backend)
    written(file, dtype=dtype, choices=(("gemma:pallas", 1), ("gemma:cudnn", 4)))
    attend(dtype=dtype, kv_dtype=kv_dtype)
    assert called == [core]


def test_without_a_file_it_is_xla(tmp_path, called, monkeypatch):
    monkeypatch.delenv("ASSAY_THRESHOLDS")
    monkeypatch.chdir(tmp_path)
    attend()
    (tmp_path / "results").mkdir()
    written(tmp_path / "results" / "thresholds.json")
    attend()
    monkeypatch.setenv("ASSAY_THRESHOLDS", "")
    attend()
    assert called == ["xla", "pallas", "xla"]


@pytest.mark.parametrize("content", [None, "{", "[]", '{"schema": 1}', '{"schema": 1, "hosts": 3}'])
def test_a_file_that_cannot_be_read_is_refused_in_words(file, content):
    if content is not None:
        file.write_text(content)
    with pytest.raises(ValueError, match=r"cannot read the thresholds in .*or name what to use"):
        attend()


def test_another_schema_is_refused_in_words(file):
    written(file, schema=2)
    with pytest.raises(ValueError, match=r"have schema 2, auto reads 1"):
        attend()


def test_the_choice_is_made_while_tracing_and_the_result_is_that_of_the_core(file):
    written(file)
    arrays = inputs()
    core = core_named("auto", layer="gemma")
    traced = jax.jit(lambda *arrays: core(*arrays, dtype=jnp.dtype("float32")))
    wanted = jax.jit(lambda *arrays: CORES["pallas"](*arrays, dtype=jnp.dtype("float32")))
    assert np.array_equal(traced(*arrays), wanted(*arrays))
    file.unlink()
    traced(*arrays)  # traced already: the file is not read again


def test_laws_write_what_auto_reads(file):
    """The file as `assay law` writes it, for a layer that was timed with two cores."""
    from laws.law_records import eager, flash, run_json, timed

    from assay.laws.thresholds import recommend
    from assay.laws.thresholds_file import write

    keys = {"stage": "layers", "level": "layer", "host": HERE}
    records = [*timed("gemma:xla", eager, **keys), *timed("gemma:pallas", flash, **keys)]
    write(file, recommend(records), [run_json(host=HERE)])
    sizes = {"heads": 32, "kv_heads": 8, "head_dim": 128, "dtype": "bfloat16"}
    usable = {"level": "layer", "layer": "gemma", "usable": ("xla", "pallas"), **sizes}
    assert thresholds.measured_core(keys=512, **usable) == "xla"
    assert thresholds.measured_core(keys=2048, **usable) == "pallas"
