"""Entries of TRAIN_OPTIMIZERS: their rates, and what is refused in words."""

from dataclasses import replace

import pytest
import torch
from small_settings import SETTINGS
from test_optimizers import made
from test_trainer import trainer, weights

from assay.errors import BadInput
from assay.train.optimizer_choice import chosen
from assay.train.optimizing import optimizer_of
from assay.train.run import TrainingRun


def test_rates_of_groups_follow_the_entry(prepared, tmp_path):
    plain, faster = (
        weights_after_a_step(prepared, tmp_path / e, e) for e in ("adamw", "adamw+rate=2")
    )
    start = weights(trainer(prepared, tmp_path / "start", weight_decay=0.0))
    name = next(iter(start))
    assert torch.allclose(faster[name] - start[name], 2 * (plain[name] - start[name]), atol=1e-6)


def test_the_recorded_rate_is_that_of_the_entry(prepared, tmp_path):
    """It was once that of the schedule alone, so an arm at a tenth of the rate showed the whole."""
    rates = {}
    for entry in ("adamw", "adamw+rate=0.1"):
        arm = trainer(prepared, tmp_path / entry, optimizer=entry)
        records = [m for u in TrainingRun(trainer=arm).updates() for m in u.measurements]
        rates[entry] = [m.value for m in records if m.metric == "learning_rate"]
    assert rates["adamw"] and rates["adamw+rate=0.1"] == pytest.approx(
        [0.1 * rate for rate in rates["adamw"]]
    )


def weights_after_a_step(prepared, folder, entry: str) -> dict[str, torch.Tensor]:
    arm = trainer(prepared, folder, optimizer=entry, weight_decay=0.0)
    arm.take_step()
    return weights(arm)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("adamx", "there is no optimizer 'adamx'"),
        ("adamw+theta=5", "'theta=5' in 'adamw+theta=5' sets no option of adamw"),
        ("adamwspam+theta", "wanted NAME=VALUE"),
        ("adamwspam+theta=1+theta=2", "sets theta again"),
        ("adamwspam+interval=x", "interval=x cannot be read; wanted int"),
        ("adamw+rate=0", "is no number above 0"),
        ("adamw+rate=nan", "is no number above 0"),
        ("adamw+prune=bitter10", "prune=bitter10 in 'adamw+prune=bitter10' is no score"),
    ],
)
def test_an_entry_that_names_nothing_is_refused(entry, words):
    with pytest.raises(BadInput, match=words.replace("+", r"\+")):
        chosen(entry)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("muon+prune=magnitude", "pruned ones would come back"),
        ("sinkgd+prune=bitter7", "Adam's moments, which sinkgd does not have"),
        ("adamw+prune=magnitude+sparsity=1", "above 0 and below 1"),
        ("adamw+sparsity=0.5", "prunes nothing; add a score"),
        ("adamw+prune=magnitude+prune_from=0.9", "the first not above the second"),
        ("adamwspam+settle=0", "settle from 1 to below interval"),
        ("muon+momentum=1", "from 0 to below 1"),
        ("sinkgd+factor=0", "a factor above 0"),
        ("sinkgd+factor=nan", "a factor above 0"),
        ("adamwspam+theta=nan", "wanted theta above 0"),
        ("adamwprune+base=muon", "wanted one of adamw, adamwadv, adamwspam"),
    ],
)
def test_an_optimizer_that_does_not_fit_is_refused(prepared, tmp_path, entry, words):
    with pytest.raises(BadInput, match=words):
        made(prepared, tmp_path, entry)


@pytest.mark.parametrize(
    ("declared", "words"),
    [("", "says so with MOMENTS = True"), ("MOMENTS = True\n", "whatever its MOMENTS says")],
)
def test_a_file_without_moments_is_not_pruned_by_them(prepared, tmp_path, declared, words):
    """A score of moments ended in a bare assertion, in the middle of a run."""
    rule = "def make(model, settings):\n    return torch.optim.SGD(model.parameters(), lr=1)\n"
    file = tmp_path / "plain.py"
    file.write_text(f"import torch\n{declared}\n{rule}")
    arm = trainer(prepared, tmp_path)
    entry = "plain+prune=bitter0+prune_from=0+prune_until=0"
    settings = replace(SETTINGS, optimizer=entry)
    with pytest.raises(BadInput, match=words):
        _, pruning = optimizer_of(arm.model, settings, [file])
        pruning.after_step(1)


def test_a_file_that_leaves_parameters_out_or_raises_is_refused(prepared, tmp_path):
    arm = trainer(prepared, tmp_path)
    text = "import torch\n\ndef make(model, settings):\n    return torch.optim.{}\n"
    for rule, words in (
        ("SGD([model.wte.weight], lr=1)", "has no group for wpe.weight, h.0.* and .* more"),
        ("SGD(model.parameters(), lr=-1)", "does not fit GPT2: Invalid learning rate"),
    ):
        (tmp_path / "mine.py").write_text(text.format(rule))
        settings = replace(SETTINGS, optimizer="mine")
        with pytest.raises(BadInput, match=words):
            optimizer_of(arm.model, settings, [tmp_path / "mine.py"])
