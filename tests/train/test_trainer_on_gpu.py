"""Training on a GPU: the same bits from deterministic kernels, a micro-batch that is chosen."""

from dataclasses import replace

import pytest
import torch
from small_settings import SETTINGS

from assay.correctness.models.selection import select
from assay.train.run import TrainingRun
from assay.train.trainer import Trainer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
SIZE = dict(width=128, heads=2, length=64, batch=8, micro_batch=4, dtype="bfloat16")


def trainer(prepared, folder, **changes) -> Trainer:
    settings = replace(SETTINGS, **SIZE, deterministic=True, stream="bfloat16")
    settings = replace(settings, **changes)
    (model,) = select([settings.model]).models
    return Trainer(
        settings, model.variant, dict(model.options), prepared, device="cuda:0", folder=folder
    )


def finished(arm: Trainer) -> dict[str, torch.Tensor]:
    list(TrainingRun(trainer=arm).updates())
    return {name: p.detach().clone() for name, p in arm.model.named_parameters()}


@pytest.fixture(autouse=True)
def undone():
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("model", ["GPT2", "GPT2_MLA_KV", "GPT2_GATE", "GPT2_RA"])
def test_a_run_that_goes_on_from_its_state_has_the_same_bits(
    prepared, tmp_path, model, compiled
) -> None:
    if compiled and model != "GPT2":
        pytest.skip("one model is compiled")
    choice = dict(model=model, compiled=compiled)
    whole = finished(trainer(prepared, tmp_path / "whole", **choice))
    updates = TrainingRun(trainer=trainer(prepared, tmp_path / "cut", **choice)).updates()
    for _ in range(3):
        next(updates)
    again = trainer(prepared, tmp_path / "cut", **choice)
    assert again.step == 4
    ended = finished(again)
    assert [n for n in whole if not torch.equal(whole[n], ended[n])] == []


def test_the_micro_batch_is_chosen_by_trial(prepared, tmp_path) -> None:
    arm = trainer(prepared, tmp_path, micro_batch=0)
    arm.take_step()
    assert arm.position.micro_batch == SIZE["batch"]
