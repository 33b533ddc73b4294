"""The decode kernel that `auto` means: by measurement, by what reads a layout, and by name."""

import json

import pytest

from assay.attention import decoders, thresholds
from assay.attention.decoders import DecodeSizes
from assay.errors import BadInput

HERE = "here"
SIZES = {"heads": 32, "kv_heads": 8, "head_dim": 128, "dtype": "bfloat16"}


def sizes(**changed) -> DecodeSizes:
    return DecodeSizes(**{**SIZES, "device": "cuda", "batch": 4, "keys": 2048, **changed})


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch):
    """A thresholds file of this machine, not written yet."""
    decoders.choose.cache_clear()
    monkeypatch.setattr(thresholds, "_fingerprint", lambda: HERE)
    monkeypatch.setenv("ASSAY_THRESHOLDS", str(tmp_path / "thresholds.json"))
    written(tmp_path / "thresholds.json", [])
    yield tmp_path / "thresholds.json"
    decoders.choose.cache_clear()


def written(path, choices, *, layer="k16v8"):
    entry = {"level": "kernel", "layer": layer, **SIZES, "lengths": [1024, 4096], "batches": [1, 8]}
    entry["choices"] = [{"from": start, "use": use} for use, start in choices]
    path.write_text(json.dumps({"schema": 1, "hosts": {HERE: {"classes": [entry]}}}))


def test_unmeasured_it_is_the_kernel_that_reads_the_layout_on_a_gpu():
    assert decoders.choose("k16v8", sizes()).name == "k16v8"
    assert decoders.choose("mla_latent", sizes(kv_heads=1, head_dim=288)).name == "mla_latent"


def test_unmeasured_it_is_torch_for_whole_keys_and_without_a_gpu():
    assert decoders.choose("dense", sizes()) is None
    assert decoders.choose("k16v8", sizes(device="cpu")) is None
    assert decoders.choose("mla_latent", sizes(device="cpu", dtype="float32")) is None


def test_a_layout_that_no_kernel_reads_is_decoded_whole():
    assert decoders.choose("nvfp4", sizes()) is None
    assert decoders.choose("int4", sizes(head_dim=80)) is None


def test_what_was_measured_goes_before(file):
    written(file, [("k16v8:k16v8", 1024), ("k16v8:dequantised", 2048)])
    assert decoders.choose("k16v8", sizes(keys=1500)).name == "k16v8"
    assert decoders.choose("k16v8", sizes(keys=2048)) is None
    assert decoders.choose("k16v8", sizes(keys=2048, batch=64)).name == "k16v8"
    assert decoders.choose("k16v8", sizes(keys=9000)).name == "k16v8"
    decoders.choose.cache_clear()
    written(file, [("dense:sdpa_cudnn", 1024), ("dense:dense", 2048)], layer="dense")
    assert decoders.choose("dense", sizes(keys=1500)).name == "sdpa_cudnn"
    assert decoders.choose("dense", sizes()).name == "dense"


@pytest.mark.parametrize(
    ("layout", "name", "changed", "reason"),
    [
        ("k16v8", "int4", {}, "it reads int4, not k16v8"),
        ("int4", "int4", {"head_dim": 80}, "groups of 32 of 80 numbers"),
        ("dense", "sdpa_cudnn", {"device": "cpu"}, "NVIDIA GPU only"),
        ("k16v8", "k16v8", {"device": "cpu"}, "bfloat16 without a GPU"),
        ("k16v8", "nothing", {}, "nothing"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused_in_words(layout, name, changed, reason):
    with pytest.raises(BadInput, match=reason):
        decoders.choose(layout, sizes(**changed), name=name)


def test_names_may_be_written_as_reports_write_them():
    assert [decoders.named(n) for n in ("k16v8", "decode/k16v8", "k16v8:k16v8")] == ["k16v8"] * 3
    assert [decoders.named(n) for n in ("auto", "torch")] == ["auto", "torch"]
    with pytest.raises(BadInput, match="k16v9"):
        decoders.named("k16v9")


def test_a_name_is_used_where_it_can_be():
    assert decoders.choose("dense", sizes(), name="dense").name == "dense"
    assert decoders.choose("k8v8", sizes(device="cpu"), name="dequantised").dequantises
    assert decoders.choose("k16v8", sizes(), name="torch") is None


def test_an_entry_without_batches_is_of_no_batch(file):
    """A file that was written by hand ended in a traceback."""
    written(file, [("k16v8:dequantised", 1024)])
    content = json.loads(file.read_text())
    del content["hosts"][HERE]["classes"][0]["batches"]
    file.write_text(json.dumps(content))
    assert decoders.choose("k16v8", sizes()).name == "k16v8"


def test_a_step_by_lengths_is_read_by_a_kernel_or_refused():
    step = {"new": 1, "by_lengths": True}
    assert decoders.for_step("dense", sizes(), name="auto", **step).name == "dense"
    with pytest.raises(BadInput, match="reads k16v8 by a kernel, not by torch"):
        decoders.for_step("k16v8", sizes(), name="torch", **step)
    for name, wanted in (("auto", None), ("k16v8", "k16v8")):  # of many new tokens
        kernel = decoders.for_step("k16v8", sizes(), new=17, name=name, by_lengths=False)
        assert (kernel and kernel.name) == wanted
