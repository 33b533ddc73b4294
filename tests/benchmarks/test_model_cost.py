"""The benchmark of the GPT-2 family, tiny: what it counts, refuses to time, and says."""

import sys
from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from assay import plugins
from assay.frameworks.torch.counting import CountedOperator, counted
from assay.host import CHECKOUT
from assay.models.gpt2 import variants
from assay.records.schema import Measurement
from assay.studies import kconfig
from assay.subjects import model as model_subject
from assay.subjects.outcome import WrongAnswer

BENCHMARKS = CHECKOUT / "benchmarks"
sys.path.append(str(BENCHMARKS / "stages"))

from _model_cost.machine import Machine

MACHINE = {"flops_per_s": 1e11, "bytes_per_s": 1e10, "launch_s": 1e-6}
DEVICES = [
    "cpu",
    pytest.param(
        "cuda:0", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
    ),
]


@pytest.fixture(scope="module")
def study():
    sets = ["STAGES=model_cost", "DEVICE_CPU=y", "ROUNDS=3", "WARMUP=1"]
    return kconfig.load(None, sets, plugin_folders=[BENCHMARKS])


@pytest.fixture(scope="module")
def stage(study):
    return plugins.load(plugins.find("stages", "model_cost", study.plugin_folders))


def cell_of(stage, study, name, device="cpu", **changes):
    cell = next(c for c in stage.cells(replace(study, device="cpu")) if c.name == name)
    options = {**cell.options, "machine": MACHINE}
    return replace(cell, options=options, device=device, **changes)


def found_by(stage, cell):
    return [item for item in stage.run(cell) if isinstance(item, Measurement)]


def only(work):
    (operation,) = work
    return operation


def test_products_count_their_multiplications_and_each_tensor_once():
    x, w = torch.randn(64, 32), torch.randn(16, 32)
    operator = only(counted(lambda: torch.nn.functional.linear(x, w)))
    assert operator == CountedOperator(
        name="mm", flops=2 * 64 * 32 * 16, bytes=4 * (2048 + 512 + 1024)
    )


@pytest.mark.parametrize("causal, share", [(False, 1.0), (True, 36 / 64)])
def test_attention_counts_the_part_that_it_may_see(causal, share):
    q, k, v = (torch.randn(2, 4, 8, 16) for _ in range(3))
    attention = torch.nn.functional.scaled_dot_product_attention
    operator = only(counted(lambda: attention(q, k, v, is_causal=causal)))
    assert operator.flops == share * 2 * 2 * 4 * 8 * 8 * (16 + 16)
    outputs = 2 * 4 * 8 * 16 + 2 * 4 * 8  # with the logarithms of the sums
    assert operator.bytes == 4 * (3 * 2 * 4 * 8 * 16 + outputs)


def test_views_and_room_that_is_reserved_cost_nothing():
    x = torch.randn(4, 6)
    assert counted(lambda: x.view(2, 12).t()[1:].expand(3, 11, 2).detach()) == []
    assert counted(lambda: torch.empty(100)) == []


def test_what_is_written_into_a_part_counts_as_that_part():
    buffer, new = torch.zeros(2, 100, 8), torch.ones(2, 1, 8)
    operator = only(counted(lambda: buffer.narrow(1, 3, 1).copy_(new)))
    assert (operator.name, operator.bytes) == ("copy_", 2 * 4 * 16)


def test_a_lookup_reads_what_it_gives_and_a_repeated_input_is_there_once():
    table, idx = torch.randn(1000, 8), torch.zeros(5, dtype=torch.int64)
    operator = only(counted(lambda: torch.nn.functional.embedding(idx, table)))
    assert operator.bytes == 5 * 8 + 2 * 5 * 8 * 4
    row = torch.randn(8).expand(100, 8)
    assert only(counted(lambda: row.exp())).bytes == 4 * (8 + 800)


@pytest.mark.parametrize("name", ["GPT2", "GPT2_RAMIX", "GPT2_MLA_KV2M"])
def test_products_of_a_whole_pass_agree_with_torchs_own_counter(stage, study, name):
    cell = cell_of(stage, study, "training")
    model, tokens = stage.made(name, cell), stage.random_tokens(cell, 2, 9)
    call = model_subject.bind(name, model, tokens, "training", "cpu")
    with FlopCounterMode(display=False) as theirs:
        call()
    # It does not know the attention of a CPU.
    ours = sum(operator.flops for operator in counted(call) if "attention" not in operator.name)
    assert ours == theirs.get_total_flops() > 0


@pytest.mark.parametrize("name", ["GPT2", "GPT2_MLA", "GPT2_MLA_KV"])
def test_a_decoded_token_reads_all_weights_of_its_layers_and_the_cache(stage, study, name):
    cell = cell_of(stage, study, "decode")
    model, tokens = stage.made(name, cell), stage.random_tokens(cell, 3, 16)
    subject = model_subject.bind_decode(name, model, model, tokens, "cpu")
    moved = sum(operator.bytes for operator in counted(subject))
    weights = 4 * sum(p.numel() for n, p in model.named_parameters() if n != "wpe.weight")
    needed = weights + subject.cache.nbytes
    assert needed < moved < 4 * needed


def test_a_time_is_predicted_by_the_slower_need_of_each_operator():
    machine = Machine(flops_per_s=100.0, bytes_per_s=10.0, launch_s=0.5)
    work = [
        CountedOperator(name="bound by arithmetic", flops=300, bytes=10),
        CountedOperator(name="bound by memory", flops=10, bytes=20),
    ]
    assert machine.seconds(work) == 3.0 + 2.0
    assert machine.seconds(work, launches=True) == 6.0


def test_every_named_variant_and_every_part_is_measured(stage):
    names = stage.names()
    assert names[0] == "GPT2" and set(variants.NAMED) <= set(names)
    measured = {tag for name in names for tag in variants.parse(name).tags}
    assert measured == set(variants.parts())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "name, metrics", [("training", ["forward", "training"]), ("decode", ["decode_b4", "decode_b1"])]
)
def test_a_cell_says_times_ratios_and_predictions(stage, study, name, metrics, device):
    names = ("GPT2", "GPT2_MLA_KV", "GPT2_MG")
    measurements = found_by(stage, cell_of(stage, study, name, device, subjects=names))
    assert {m.status for m in measurements} == {"ok"}
    by_key = {(m.subject, m.metric): m for m in measurements}
    assert len(by_key) == len(measurements)
    for metric in metrics:
        for subject in names:
            time = by_key[subject, f"{metric}_ms"]
            assert time.value > 0 and len(time.samples) == 3
            assert by_key[subject, f"{metric}_flops"].value > 0
            assert by_key[subject, f"{metric}_bytes"].value > 0
            assert by_key[subject, f"{metric}_predicted_ms"].value > 0
        assert ("GPT2", f"{metric}_ratio") not in by_key
        for subject in names[1:]:
            ratio, predicted, over = (
                by_key[subject, f"{metric}_{word}"]
                for word in ("ratio", "predicted_ratio", "over_predicted")
            )
            times = (by_key[variant, f"{metric}_ms"].samples for variant in (subject, "GPT2"))
            assert ratio.samples == [a / b for a, b in zip(*times, strict=True)]
            assert over.value == pytest.approx(ratio.value / predicted.value)
            assert by_key[subject, f"{metric}_over_launched"].value > 0
            if name == "decode":
                assert by_key[subject, f"{metric}_over_needed"].value > 0
                moved, needed = (
                    by_key[subject, f"{metric}_{word}"].value for word in ("bytes", "needed_bytes")
                )
                assert by_key[subject, f"{metric}_cache_bytes"].value < needed < moved


def test_what_cannot_be_built_is_an_outcome_and_the_others_go_on(stage, study):
    cell = cell_of(stage, study, "training", subjects=("GPT2", "GPT2_NOPE"))
    measurements = found_by(stage, cell)
    failed = [m for m in measurements if m.status != "ok"]
    assert [(m.subject, m.value) for m in failed] == [("GPT2_NOPE", None)]
    assert "no part" in failed[0].reason
    assert any(m.metric == "training_ms" and m.subject == "GPT2" for m in measurements)


def test_a_cache_that_holds_other_tokens_gets_no_time(stage, study, monkeypatch):
    filled = model_subject.filled_cache
    flipped = lambda model, tokens: filled(model, tokens.flip(1))  # noqa: E731
    monkeypatch.setattr(model_subject, "filled_cache", flipped)
    measurements = found_by(stage, cell_of(stage, study, "decode", subjects=("GPT2",)))
    assert [m.status for m in measurements] == ["failed"]
    assert "in float32 the cached scores" in measurements[0].reason


def test_a_low_precision_of_other_weights_is_wrong(stage, study):
    cell = cell_of(stage, study, "decode")
    exact, tokens = stage.made("GPT2", cell).eval(), stage.random_tokens(cell, 2, 16)
    low = stage.made("GPT2", cell).bfloat16().eval()
    assert 0 < stage.check(model_subject.bind_decode("GPT2", low, exact, tokens, "cpu")) <= 1
    with torch.no_grad():
        low.h[0].mlp.c_fc.weight.mul_(1.1)
    with pytest.raises(WrongAnswer, match="out is off"):
        stage.check(model_subject.bind_decode("GPT2", low, exact, tokens, "cpu"))


@pytest.mark.parametrize(
    "change, problem",
    [(lambda loss: loss + 0.01, "out is off"), (lambda loss: loss * float("nan"), "not finite")],
)
def test_a_loss_beyond_rounding_is_wrong(stage, study, monkeypatch, change, problem):
    cell = cell_of(stage, study, "training")
    model, tokens = stage.made("GPT2", cell), stage.random_tokens(cell, 2, 16)
    subject = model_subject.bind("GPT2", model, tokens, "forward", "cpu")
    assert 0 < stage.check(subject) <= 1
    loss = model_subject.ModelSubject._loss
    changed = lambda self, *inputs: change(loss(self, *inputs))  # noqa: E731
    monkeypatch.setattr(model_subject.ModelSubject, "_loss", changed)
    with pytest.raises(WrongAnswer, match=problem):
        stage.check(subject)


def test_a_weight_without_a_gradient_is_wrong(stage, study):
    cell = cell_of(stage, study, "training")
    model, tokens = stage.made("GPT2", cell), stage.random_tokens(cell, 2, 16)
    model.register_parameter("unused", torch.nn.Parameter(torch.zeros(3)))
    with pytest.raises(WrongAnswer, match="unused has no finite gradient"):
        stage.check(model_subject.bind("GPT2", model, tokens, "forward", "cpu"))
