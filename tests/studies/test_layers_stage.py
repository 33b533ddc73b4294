"""The stage for whole layers: rows for all of them, and frauds that get no speed."""

from pathlib import Path

import pytest
from study_process import StudyProcess

pytest.importorskip("jax")
pytest.importorskip("flax")

from assay.errors import BadInput
from assay.studies import kconfig
from assay.studies.cell import fingerprint
from assay.studies.stages import layers

pytestmark = pytest.mark.early  # what they share takes long to set up

HEAD = '''"""A layer with a fault."""
import jax
from assay.models.layers import gemma

CORES = ("own",)
HEADS = ((8, 1, 16),)
REQUIRES = ("flax",)
HELD = {}


def init(spec, weights):
    HELD["out"] = weights["out"]
    return gemma.init(spec, weights)


def apply(params, x, positions, mask, cache=None, *, core):
'''
FAULTS = {
    "leaks": "    return gemma.apply(params, x, positions, mask | True, core='xla')\n",
    # The last two rows of the batch, and nothing for the others.
    "lazy": (
        "    out, _ = gemma.apply(params, x[-2:], positions, mask[-2:], core='xla')\n"
        "    return jax.numpy.concatenate([0 * x[:-2], out]), None\n"
    ),
    # Right as long as its weights are those that it saw when it was made.
    "stale": (
        "    change = params['out'] - jax.lax.stop_gradient(params['out'])\n"
        "    params = {**params, 'out': HELD['out'] + change}\n"
        "    return gemma.apply(params, x, positions, mask, core='xla')\n"
    ),
    "detached": (
        "    params = {**params, 'in': jax.lax.stop_gradient(params['in'])}\n"
        "    return gemma.apply(params, x, positions, mask, core='xla')\n"
    ),
}
GOOD = ("gemma:xla",)
QUICK_COMPILER = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
WORKLOAD = "b4_h8_kv1_q24_k24_d16_causal_bfloat16"
CHOSEN = "latency,backward,training,memory,work"
ROUNDS = 3
TIMED = ("latency_ms", "backward_ms", "training_ms")


@pytest.fixture(scope="module")
def ran(tmp_path_factory) -> StudyProcess:
    folder = tmp_path_factory.mktemp("layers")
    faults = folder / "faults"
    faults.mkdir()
    for name, body in FAULTS.items():
        (faults / f"{name}.py").write_text(HEAD + body)
    study = StudyProcess(folder=folder, plugins=faults)
    subjects = [*GOOD, "gemma:cudnn", *(f"{name}:own" for name in FAULTS)]
    code = study.run(
        "layers",
        env={"XLA_FLAGS": QUICK_COMPILER},
        LAYERS=",".join(subjects),
        WORKLOADS=f"{WORKLOAD},b1_h8_kv8_s24_d16",
        PROBES=CHOSEN,
        DEVICE_CPU="y",
        ROUNDS=ROUNDS,
        WARMUP=1,
    )
    assert code == 1, study.stderr
    return study


def of(ran, subject):
    return {record.metric: record for record in ran.records("layers") if record.subject == subject}


def test_only_workloads_that_suit_a_layer_have_a_cell(ran):
    assert list(ran.ends("layers")) == [WORKLOAD]


@pytest.mark.parametrize("subject", GOOD)
def test_a_layer_is_checked_and_timed(ran, subject):
    records = of(ran, subject)
    assert all(record.status == "ok" and record.level == "layer" for record in records.values())
    for metric in TIMED:
        assert len(records[metric].samples) == ROUNDS and not records[metric].alone
        assert {f"{metric}.first", f"{metric}.warmup"} <= set(records)
    for tensor in ("out", "dx", "weights"):
        assert 0 < records[f"error_over_budget_{tensor}"].value <= 1
    for metric in ("forward_peak_bytes", "training_peak_bytes", "forward_flops", "forward_bytes"):
        assert records[metric].value > 0 and records[metric].source
    workload = records["latency_ms"].workload
    assert workload.name == WORKLOAD and workload.content


def test_a_core_that_cannot_run_here_is_a_row(ran):
    (record,) = of(ran, "gemma:cudnn").values()
    assert (record.metric, record.status) == (
        f"accuracy+gradients+{CHOSEN}".replace(",", "+"),
        "unsupported",
    )
    assert record.reason == "cuDNN needs an NVIDIA GPU"


@pytest.mark.parametrize(
    ("subject", "verdict", "reason"),
    [
        ("lazy:own", "error_over_budget_out", "times what rounding explains"),
        ("leaks:own", "error_over_budget_out", "times what rounding explains"),
        ("detached:own", "error_over_budget_weights", "gradient of the weights before the heads"),
    ],
)
def test_a_wrong_layer_is_not_timed(ran, subject, verdict, reason):
    records = of(ran, subject)
    assert records[verdict].status == "failed" and reason in records[verdict].reason
    timed = ("latency", "backward", "training") if "out" in verdict else ("backward", "training")
    for probe in timed:
        assert records[probe].status == "refused" and reason in records[probe].reason
        assert f"{probe}_ms" not in records


def test_an_answer_made_beforehand_is_no_speed(ran):
    """It passes the check, because only a timed call has other weights than it saw before."""
    records = of(ran, "stale:own")
    assert records["error_over_budget_out"].status == "ok"
    assert not set(TIMED) & set(records)
    for probe in ("latency", "backward", "training"):
        assert records[probe].status == "failed"
        assert "its answer was made beforehand" in records[probe].reason


def test_a_study_without_a_fitting_workload_is_refused():
    study = kconfig.load(None, ["LAYERS=gemma:xla", "HEADS=8/8"])
    with pytest.raises(BadInput, match="no workload of this study suits"):
        layers.cells(study)


def test_no_layers_are_no_cells():
    assert layers.cells(kconfig.load(None)) == []


def test_a_cell_changes_with_the_code_of_its_layers(monkeypatch):
    """Of each layer that it times, and of the one that is the measure for all."""
    from assay import code_digests, host

    study = kconfig.load(None, ["LAYERS=gemma_fast:xla", f"WORKLOADS={WORKLOAD}"])
    (cell,) = layers.cells(study)
    here = host.inspect()
    before = fingerprint("layers", cell, here)
    digest = code_digests._digest
    for file in ("fast/attention.py", "gemma/attention.py", "layers/expected.py"):

        def changed(path: Path, file: str = file) -> str:
            return "changed" if str(path).endswith(file) else digest(path)

        monkeypatch.setattr(code_digests, "_digest", changed)
        assert fingerprint("layers", cell, here) != before, file
