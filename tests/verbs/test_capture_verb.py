"""`assay capture` as a user runs it: a model and a text in, a store out, and files of its records.

What cannot be captured, and why, is in tests/studies/test_capture_stage.py.
"""

import captured_calls as made
import numpy as np
import pytest
from command_line import assay

from assay.captures.store import Store
from assay.errors import BadInput
from assay.verbs.capture import export

SMALL = ["--tokens", "9", "--decode", "2"]
SLOW = pytest.mark.slow  # others capture these models without a process of their own
MODELS = ["random:llama", *(pytest.param(f"random:{n}", marks=SLOW) for n in ("qwen3", "gpt2"))]


@pytest.mark.sampled
@pytest.mark.parametrize("model", MODELS)
def test_prefill_and_decode(tmp_path, model):
    done = assay("capture", "run", "--hf", model, *SMALL, "--to", "store", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    manifest = Store.open(tmp_path / "store").manifest()
    assert [(r.key.step, r.phase, r.tensors["k"].shape[2]) for r in manifest.records[::4]] == [
        (0, "prefill", 9),
        (1, "decode", 10),
        (2, "decode", 11),
    ]
    (run,) = manifest.runs
    assert run.model["name"] == model and run.model["digest"].startswith("sha256:")
    assert "captured 12 records" in done.stdout and "dropped none" in done.stdout
    assert "4 layers, 4 prefill, 8 decode" in done.stdout
    assert "assay inspect store" in done.stdout and "assay replay store" in done.stdout


@pytest.mark.slow
def test_text_layers_steps_and_mode(tmp_path):
    flags = ["--layers", "1::2", "--every", "2", "--mode", "stats", "--attention", "eager"]
    done = assay(
        *("capture", "run", "--hf", "random:llama", "--text", "-", *SMALL, *flags, "--to", "store"),
        cwd=tmp_path,
        input="what is read from stdin",
    )
    assert done.returncode == 0, done.stderr
    records = Store.open(tmp_path / "store").manifest().records
    assert [(r.key.step, r.key.layer) for r in records] == [(0, 1), (0, 3), (2, 1), (2, 3)]
    assert records[0].implementation == "transformers:eager"
    assert records[0].tensors["q"].stats.count == 9 * 64
    assert "assay replay" not in done.stdout


def test_a_mode_that_does_not_exist_exits_2(tmp_path):
    flags = ["--hf", "random:llama", "--mode", "some", "--device", "cpu"]
    done = assay("capture", "run", *flags, "--to", "store", cwd=tmp_path)
    assert done.returncode == 2 and "mode 'some'" in done.stderr, (done.stdout, done.stderr)


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_without_a_package_it_cannot_run_here(tmp_path, package):
    """Without torch the choice of a device failed with a traceback."""
    flags = ["--hf", "random:llama", "--to", "store"]
    done = assay("capture", "run", *flags, cwd=tmp_path, hide=[package])
    assert done.returncode == 3 and f"needs {package}, not installed here" in done.stderr


def write_plain(path, seed):
    """q, k and v as anybody would write them."""
    draw = np.random.default_rng(seed)
    np.savez(path, **{n: draw.standard_normal((1, 2, 5, 8), dtype=np.float32) for n in "qkv"})


def test_in_out_and_in_again(tmp_path):
    names = [f"{number}.npz" for number in range(3)]
    for number, name in enumerate(names):
        write_plain(tmp_path / name, number)
    done = assay("capture", "import", *names, "--to", "first", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.count("--foreign") == 3
    foreign = ("--foreign", "--causal", "--to", "first")
    done = assay("capture", "import", *names, *foreign, cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.count("imported ") == 3, done.stderr
    done = assay("capture", "export", "first", "--to", "out", cwd=tmp_path)
    assert done.returncode == 0 and "wrote 3 files to out" in done.stdout
    files = sorted((tmp_path / "out").iterdir())
    files[1].write_bytes(files[1].read_bytes()[:100])
    done = assay("capture", "import", *files, "--to", "second", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout.count("imported ") == 2 and str(files[1]) not in done.stdout
    assert f"refused {files[1]}" in done.stderr and "cannot be read as npz" in done.stderr
    first, second = (Store.open(tmp_path / name) for name in ("first", "second"))
    originals = {record.key: record for record in first.manifest().records}
    for record in second.manifest().records:
        original = originals[record.key]
        assert record.scalars == original.scalars and record.scalars["causal"] is True
        digests = [
            {name: tensor.digest() for name, tensor in store.read(each).items()}
            for store, each in ((first, original), (second, record))
        ]
        assert digests[0] == digests[1]
    assert [r.key.step for r in second.manifest().records] == [0, 2]


def test_a_store_without_tensors_is_not_exported(tmp_path):
    store = made.planted(tmp_path / "store", steps=1, mode="shapes")
    with pytest.raises(BadInput, match="has only shapes; wanted records with tensors"):
        export(store.path, None, tmp_path / "out")
