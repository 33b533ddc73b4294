"""`assay capture run`: a model and a text in, a store out, and refusals that say what to do."""

import pytest
from command_line import assay

from assay.captures.store import Store

SMALL = ["--tokens", "9", "--decode", "2"]


SLOW = pytest.mark.slow  # others capture these models without a process of their own
MODELS = ["random:llama", *(pytest.param(f"random:{n}", marks=SLOW) for n in ("qwen3", "gpt2"))]


@pytest.mark.parametrize("model", MODELS)
def test_prefill_and_decode(tmp_path, model):
    done = assay("capture", "run", "--hf", model, *SMALL, "--to", "store", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = Store.open(tmp_path / "store").manifest()
    assert [(r.key.step, r.phase, r.tensors["k"].shape[2]) for r in found.records[::4]] == [
        (0, "prefill", 9),
        (1, "decode", 10),
        (2, "decode", 11),
    ]
    (run,) = found.runs
    assert run.model["name"] == model and run.model["digest"].startswith("sha256:")
    assert "captured 12 records" in done.stdout and "dropped none" in done.stdout
    assert "4 layers, 4 prefill, 8 decode" in done.stdout
    assert "assay inspect store" in done.stdout and "assay replay store" in done.stdout


def test_text_layers_steps_and_mode(tmp_path):
    asked = ["--layers", "1::2", "--every", "2", "--mode", "stats", "--attention", "eager"]
    done = assay(
        *("capture", "run", "--hf", "random:llama", "--text", "-", *SMALL, *asked, "--to", "store"),
        cwd=tmp_path,
        input="what is read from stdin",
    )
    assert done.returncode == 0, done.stderr
    records = Store.open(tmp_path / "store").manifest().records
    assert [(r.key.step, r.key.layer) for r in records] == [(0, 1), (0, 3), (2, 1), (2, 3)]
    assert records[0].implementation == "transformers:eager"
    assert records[0].tensors["q"].stats.count == 9 * 64
    assert "assay replay" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--hf", "no-such-model"], 2, "there is no model 'no-such-model'"),
        (["--hf", "random:llama", "--text", "missing.txt"], 2, "cannot read the text missing.txt"),
        (["--hf", "random:llama", "--text", "short.txt"], 2, "has 5 tokens, 512 were asked for"),
        (["--hf", "random:llama", "--text", "binary"], 2, "is not UTF-8"),
        (["--hf", "random:llama", "--mode", "some"], 2, "mode 'some'"),
        pytest.param(
            ["--hf", "random:llama", "--tokens", "3000"], 2, "has 2048 positions", marks=SLOW
        ),
        pytest.param(
            ["--hf", "random:llama", "--device", "cuda:63"], 3, "no device 'cuda:63'", marks=SLOW
        ),
    ],
)
def test_refusals(tmp_path, arguments, code, says):
    (tmp_path / "short.txt").write_text("short")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    done = assay("capture", "run", *arguments, "--to", "store", cwd=tmp_path)
    assert done.returncode == code and says in done.stderr, (done.stdout, done.stderr)


def test_without_transformers(tmp_path):
    asked = ["--hf", "random:llama", "--to", "store"]
    done = assay("capture", "run", *asked, cwd=tmp_path, hide=["transformers"])
    assert done.returncode == 3 and "needs transformers, not installed here" in done.stderr
