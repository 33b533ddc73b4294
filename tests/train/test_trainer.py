"""Steps of training: what a batch is made of, what is saved, and what goes on from it."""

import errno
import os
from dataclasses import replace

import pytest
import torch
from small_settings import SETTINGS

from assay import host
from assay.correctness.models.selection import select
from assay.errors import BadInput, CannotRunHere
from assay.instruments.telemetry import UNITS, Telemetry
from assay.models.gpt2 import checkpoint
from assay.train import saved_state
from assay.train.run import TrainingRun
from assay.train.trainer import LossNotFinite, Trainer

MODELS = ("GPT2", "GPT2_MLA_KV", "GPT2_GATE", "GPT2_RA")


def trainer(prepared, folder, **changes) -> Trainer:
    settings = replace(SETTINGS, **changes)
    (model,) = select([settings.model]).models
    return Trainer(
        settings, model.variant, dict(model.options), prepared, device="cpu", folder=folder
    )


def weights(arm: Trainer) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in arm.model.named_parameters()}


def same(first: dict, second: dict) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[n], second[n]) for n in first)


def finished(arm: Trainer) -> dict[str, torch.Tensor]:
    list(TrainingRun(trainer=arm).updates())
    return weights(arm)


@pytest.mark.parametrize("model", MODELS)
def test_a_run_that_goes_on_from_its_state_has_the_same_bits(prepared, tmp_path, model) -> None:
    whole = finished(trainer(prepared, tmp_path / "whole", model=model))
    updates = TrainingRun(trainer=trainer(prepared, tmp_path / "cut", model=model)).updates()
    for _ in range(3):
        next(updates)  # six steps; the state of the fourth is saved
    again = trainer(prepared, tmp_path / "cut", model=model)
    assert again.step == 4
    assert same(finished(again), whole)
    assert not same(finished(trainer(prepared, tmp_path / "other", model=model, seed=1)), whole)


def test_dropout_is_drawn_on_where_it_was_left(prepared, tmp_path, monkeypatch) -> None:
    """Without the state of the generator the second half of a run would repeat the first's."""
    whole = finished(trainer(prepared, tmp_path / "whole", dropout=0.5))
    updates = TrainingRun(trainer=trainer(prepared, tmp_path / "cut", dropout=0.5)).updates()
    for _ in range(3):
        next(updates)
    monkeypatch.setattr(torch, "set_rng_state", lambda state: None)
    again = trainer(prepared, tmp_path / "cut", dropout=0.5)
    assert not same(finished(again), whole)


def test_micro_batches_add_up_to_the_batch(prepared, tmp_path) -> None:
    arms = [
        trainer(prepared, tmp_path / str(micro), micro_batch=micro, dropout=0.0)
        for micro in (1, 2, 4, 0)
    ]
    for arm in arms:
        arm.take_step()
    first, *others = map(weights, arms)
    for other in others:
        assert all(torch.allclose(first[n], other[n], atol=1e-5) for n in first)
    assert arms[-1].position.micro_batch == 4  # 0: on a CPU the whole batch


def test_recomputed_blocks_give_the_same_gradients(prepared, tmp_path) -> None:
    plain = trainer(prepared, tmp_path / "a", dropout=0.0)
    again = trainer(prepared, tmp_path / "b", dropout=0.0, recompute=True)
    plain.take_step()
    again.take_step()
    assert same(weights(plain), weights(again))


def test_losses_fall_and_the_best_model_is_kept(prepared, tmp_path) -> None:
    arm = trainer(prepared, tmp_path, steps=40, dropout=0.0)
    run = TrainingRun(trainer=arm)
    losses = [m.value for u in run.updates() for m in u.measurements if m.metric == "val_loss"]
    assert len(losses) == 11 and losses[-1] < losses[0] - 1  # at 0, 4, ... 40
    best = checkpoint.identity(tmp_path / saved_state.BEST)
    assert best.extra["validation_loss"] == min(losses)
    checkpoint.load(tmp_path / saved_state.BEST, expect="GPT2")


def test_every_window_is_evaluated_alike_for_all_arms(prepared, tmp_path) -> None:
    first, second = (trainer(prepared, tmp_path / m, model=m) for m in ("GPT2", "GPT2_MLA"))
    assert first.validation.digest == second.validation.digest
    assert len(first.evaluate()) == SETTINGS.windows
    assert first.evaluate() == first.evaluate()


def test_a_limit_ends_every_arm_by_the_same_rule(prepared, tmp_path) -> None:
    tokens = trainer(prepared, tmp_path / "a", most_tokens=5 * 4 * 16)
    finished(tokens)
    assert (tokens.step, tokens.stopped_by()) == (5, "tokens")
    clock = trainer(prepared, tmp_path / "b", most_seconds=1, steps=100000, save_every=2)
    clock.position = replace(clock.position, seconds=0.5)
    finished(clock)
    assert clock.stopped_by() == "time" and 1 <= clock.position.seconds < 5
    assert saved_state.last(tmp_path / "b").step == clock.step


def test_a_run_whose_time_is_over_before_its_first_step_has_no_speed(
    prepared, tmp_path, monkeypatch
) -> None:
    arm = trainer(prepared, tmp_path, most_seconds=1)
    monkeypatch.setattr(arm, "_since", arm._since - 10)
    run = TrainingRun(trainer=arm)
    assert list(run.updates()) == []
    summary = {m.metric: m for m in run.summary()}
    for metric in ("mean_tokens_per_s", "mean_model_tflop_per_s"):
        assert summary[metric].value is None and "before the first step" in summary[metric].reason


def test_a_loss_that_is_not_finite_ends_the_run_and_keeps_the_state(prepared, tmp_path) -> None:
    arm = trainer(prepared, tmp_path)
    updates = TrainingRun(trainer=arm).updates()
    for _ in range(3):
        next(updates)
    kept = saved_state.last(tmp_path)
    with torch.no_grad():
        arm.model.wte.weight.fill_(float("nan"))
    with pytest.raises(LossNotFinite, match="the loss is nan"):
        list(updates)
    assert saved_state.last(tmp_path) == kept


def test_a_full_disk_keeps_the_state_before(prepared, tmp_path, monkeypatch) -> None:
    arm = trainer(prepared, tmp_path)
    updates = TrainingRun(trainer=arm).updates()
    for _ in range(3):
        next(updates)
    kept = saved_state.last(tmp_path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("assay.models.gpt2.weights_file.os.fsync", full)
    with pytest.raises((BadInput, CannotRunHere), match="the disk is full"):
        list(updates)
    monkeypatch.undo()
    assert saved_state.last(tmp_path) == kept
    assert trainer(prepared, tmp_path).step == kept.step
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"learning_rate": 2e-2}, "other settings"), ({"seed": 3}, "other settings")],
)
def test_a_state_of_other_settings_is_refused(prepared, tmp_path, changes, words) -> None:
    finished(trainer(prepared, tmp_path))
    with pytest.raises(BadInput, match=words):
        trainer(prepared, tmp_path, **changes)


@pytest.mark.parametrize("harm", ["cut", "changed", "missing", "json", "other"])
def test_a_harmed_state_is_refused_in_words(prepared, tmp_path, harm) -> None:
    finished(trainer(prepared, tmp_path))
    (tensors,) = tmp_path.glob("step-*.optimizer.safetensors")
    if harm == "cut":
        tensors.write_bytes(tensors.read_bytes()[:-100])
    elif harm == "changed":
        content = bytearray(tensors.read_bytes())
        content[-1] ^= 1
        tensors.write_bytes(content)
    elif harm == "missing":
        tensors.unlink()
    elif harm == "json":
        (tmp_path / saved_state.LAST).write_text("{")
    else:
        (own,) = (p for p in tmp_path.glob("step-*.safetensors") if p != tensors)
        finished(trainer(prepared, tmp_path / "other", model="GPT2_MLA"))
        own.write_bytes((tmp_path / "other" / own.name).read_bytes())
    with pytest.raises(BadInput, match=r"remove this folder|cannot be read|holds GPT2_MLA"):
        trainer(prepared, tmp_path)


def test_parameters_that_no_step_moves_are_named(prepared, tmp_path) -> None:
    arm = trainer(prepared, tmp_path)
    forgotten = {id(p) for p in arm.model.h[0].mlp.parameters()}
    for group in arm.optimizer.param_groups:
        group["params"] = [p for p in group["params"] if id(p) not in forgotten]
    finished(arm)
    run = TrainingRun(trainer=arm)
    (unmoved,) = (m for m in run.summary() if m.metric == "unmoved_parameters")
    assert unmoved.status == "failed" and "h.0.mlp" in unmoved.reason
    assert all(name.startswith("h.0.mlp") for name in unmoved.data["names"])


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("GPT2", set()),
        ("GPT2_GATE", {"part.gate_mean"}),
        ("GPT2_MLA_KV", {"part.scale_mean", "part.scale_std", "part.shift_mean", "part.shift_std",
                         "part.splice_maps_moved"}),
    ],
)  # fmt: skip
def test_metrics_of_parts(prepared, tmp_path, model, names) -> None:
    arm = trainer(prepared, tmp_path, model=model)
    run = TrainingRun(trainer=arm)
    list(run.updates())
    summary = {m.metric: m for m in run.summary()}
    assert {name for name in summary if name.startswith("part.")} == names
    assert summary["final_val_loss"].value > 0 and len(summary["generated_tokens"].data["text"]) > 0
    if model == "GPT2_MLA_KV":
        assert summary["part.scale_mean"].value == pytest.approx(1.31, abs=0.2)


def validation_losses(arm: Trainer) -> list[float]:
    updates = TrainingRun(trainer=arm).updates()
    return [m.value for u in updates for m in u.measurements if m.metric == "val_loss"]


def test_reciprocal_attention_follows_gpt2_from_swapped_weights(prepared, tmp_path) -> None:
    """Fixed reciprocal attention is GPT-2 with the weights of q and k exchanged in its layers, for
    every optimizer that treats weights alike: what it gains over GPT-2 is another start."""
    names = ("GPT2", "GPT2_RA+ra_start=swapped", "GPT2_RA")
    arms = [trainer(prepared, tmp_path / name, model=name, dropout=0.0) for name in names]
    gpt2, swapped, own = map(validation_losses, arms)
    pairs = [zip(losses, gpt2, strict=True) for losses in (swapped, own)]
    near, far = (max(abs(a - b) for a, b in pair) for pair in pairs)
    assert near < 1e-5 and far > 20 * near


def test_a_clip_of_zero_is_none(prepared, tmp_path) -> None:
    """It made every gradient zero, and the run failed at its end."""
    arms = [trainer(prepared, tmp_path / str(c), clip=c, dropout=0.0) for c in (0.0, 1e9, 1e-3)]
    for arm in arms:
        for _ in range(2):
            arm.take_step()
    none, large, small = map(weights, arms)
    assert same(none, large) and not same(none, small)


def test_what_cannot_be_is_refused_before_anything_runs() -> None:
    for changes, words in (
        ({"dropout": 1.5}, "dropout 1.5 is not from 0 to below 1"),
        ({"clip": -1.0}, "clip -1.0 is below 0; give 0 for none"),
        ({"stream": "bfloat16"}, "stream in bfloat16 beside products in float32"),
    ):
        with pytest.raises(BadInput, match=words):
            replace(SETTINGS, **changes)


def test_a_reading_of_the_device_is_in_every_report(prepared, tmp_path) -> None:
    """Somebody who watches a run sees the device now, not when the run has ended."""
    telemetry = Telemetry(host.inspect(commit=False), "cpu")
    powers = iter(range(300, 400))
    telemetry._read = lambda: {"power_w": float(next(powers))}
    run = TrainingRun(trainer=trainer(prepared, tmp_path), telemetry=telemetry)
    reports = [update.measurements for update in run.updates()]
    shown = [[(m.value, m.unit) for m in of if m.metric == "power_w"] for of in reports]
    assert shown == [[(300.0 + number, "W")] for number in range(len(reports))]
    (end,) = (m for m in run.summary() if m.metric == "power_w")
    assert len(end.samples) == len(reports) and end.value == 300 + (len(reports) - 1) / 2


def test_a_report_without_readings_has_none(prepared, tmp_path) -> None:
    telemetry = Telemetry(host.inspect(commit=False), "cpu")
    telemetry._read = None
    run = TrainingRun(trainer=trainer(prepared, tmp_path), telemetry=telemetry)
    metrics = {m.metric for update in run.updates() for m in update.measurements}
    assert "train_loss" in metrics and not metrics & set(UNITS)
