"""assay replay: captured calls through the same loop as drawn ones, and bad ones refused."""

import json

import numpy as np
import pytest
from captured_calls import add, as_dtype, inputs
from verbs.command_line import assay

from assay import host
from assay.captures.store import Store

torch = pytest.importorskip("torch")

QUICK = (
    "--quick",
    "--device",
    "cpu",
    "--set",
    "STAGES=check,bench",
    "--set",
    "ROUNDS=4",
    "--probe",
)


@pytest.fixture
def store(tmp_path):
    """Two layers of a model that calls torch's sdpa."""
    made = Store.create(tmp_path / "store")
    for layer in range(2):
        tensors = inputs(seed=layer)
        given = [torch.tensor(tensor.numbers()) for tensor in tensors.values()]
        sdpa = torch.nn.functional.scaled_dot_product_attention
        out = sdpa(*given, is_causal=True, enable_gqa=True)
        tensors["out"] = as_dtype(out.numpy(), "float32")
        versions = host.inspect().versions
        add(made, tensors, layer=layer, implementation="sdpa", versions=versions)
    return made


def replay(store, *arguments, out):
    return assay("replay", store.path, *arguments, "--out", out, cwd=store.path.parent)


def test_what_was_captured_is_checked_timed_and_held_against_the_model(store, tmp_path):
    probes = "accuracy,replayed,latency"
    chosen = ("layer=1", "--impl", "sdpa,eager")
    ended = replay(store, *chosen, *QUICK, probes, "--json", out=tmp_path / "results")
    assert ended.returncode == 0, ended.stderr
    records = [json.loads(line) for line in ended.stdout.splitlines()]
    by_metric = {(r["subject"], r["metric"]): r for r in records if r.get("subject")}
    assert by_metric["sdpa", "replayed_differences"]["value"] == 0
    assert by_metric["eager", "replayed_largest_difference"]["value"] < 1e-6
    assert by_metric["sdpa", "latency_ms"]["value"] > 0
    (cell,) = {r["cell"] for r in records}
    assert "captured-s0-l1" in cell


def test_a_captured_nan_is_not_blamed_on_a_kernel(tmp_path):
    made, tensors = Store.create(tmp_path / "store"), inputs(seed=0)
    values = tensors["q"].numbers().copy()
    values[0, 0, 3] = np.nan
    add(made, {**tensors, "q": as_dtype(values, "float32")}, versions=host.inspect().versions)
    ended = replay(made, "--impl", "sdpa", *QUICK, "accuracy", out=tmp_path / "results")
    assert ended.returncode == 3, (ended.stdout, ended.stderr)
    words = " ".join(ended.stdout.split())
    assert "NOT RUN sdpa: its captured inputs are not finite" in words and "of q" in words, words


def test_some_records_by_words(store, tmp_path):
    ended = replay(store, "layer=1", "--impl", "sdpa", "--dry-run", "--json", out=tmp_path)
    assert ended.returncode == 0, ended.stderr
    cells = [json.loads(line)["cell"] for line in ended.stdout.splitlines()]
    assert any("captured-s0-l1" in cell for cell in cells)
    assert not any("captured-s0-l0" in cell for cell in cells)


@pytest.mark.slow
def test_ceilings_are_taken_over(store, tmp_path):
    chosen = ("layer=1", "--impl", "sdpa", "--probe", "accuracy", "--device", "cpu")
    for reused, flags in ((False, ()), (True, ()), (False, ("--fresh",))):
        ended = replay(store, *chosen, *flags, out=tmp_path / "results")
        assert ended.returncode == 0, ended.stderr
        assert ("reused   peaks/cpu" in ended.stderr) == reused, ended.stderr


@pytest.mark.slow
def test_a_changed_file_is_refused_and_the_other_record_goes_on(store, tmp_path):
    file = store.path / store.manifest().records[0].file
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    probes = "accuracy,replayed,latency"
    ended = replay(store, "--impl", "sdpa", *QUICK, probes, "--json", out=tmp_path / "results")
    assert ended.returncode == 2 and "Traceback" not in ended.stderr
    records = [json.loads(line) for line in ended.stdout.splitlines()]
    broken = [r for r in records if r["metric"] == "load"]
    assert broken and all("checksum" in r["reason"] for r in broken)
    assert any(r["metric"] == "latency_ms" for r in records)


@pytest.mark.parametrize(
    "arguments, words",
    [(("layer=9",), "has no record"), (("colour=red",), "is not step, layer")],
)
def test_records_that_are_not_there(store, tmp_path, arguments, words):
    ended = replay(store, *arguments, "--impl", "sdpa", out=tmp_path)
    assert ended.returncode == 2 and words in ended.stderr and "Traceback" not in ended.stderr


def test_what_is_no_store(tmp_path):
    ended = assay("replay", tmp_path / "nothing", cwd=tmp_path)
    assert ended.returncode == 2 and "not a store of captures" in ended.stderr
