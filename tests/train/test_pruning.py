"""Weights are pruned by the score that was asked for, as many as asked for, and stay so."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from test_trainer import finished, trainer

from assay.errors import BadInput
from assay.train.matrices import layer_of, linear_maps
from assay.train.pruning import Pruning, by_depth, kth_by_bits
from assay.train.pruning_plan import SCORES, PruningPlan
from assay.train.run import TrainingRun
from assay.train.scores import score

W = np.array([0.5, -0.4, 0.3, -0.2, 0.1, 0.0])
M = np.array([0.01, 0.02, -0.03, 0.04, 0.0, 0.05])
V = np.array([1e-4, 4e-4, 9e-4, 1e-6, 1e-8, 1e-2])
MOVEMENT = np.array([0.3, -0.1, 0.2, 0.0, -0.4, 0.1])
A, ROOT, E = np.abs(W), np.sqrt(V), 1e-8
# Each formula a second time; those of one formula stand together.
FORMULAS = {
    "magnitude": A,
    "movement": MOVEMENT,
    "bitter0": A * np.abs(W * M) / (ROOT + E),
    "bitter1": A,
    "bitter2": A,
    "bitter3": A * np.sqrt(np.abs(M) + E),
    "bitter4": A * np.sqrt(np.abs(M) + E),
    "bitter5": np.sign(W) * -M / (ROOT + E) + A / 10,
    "bitter6": A * np.sqrt(np.abs(M)) * np.abs(M) / np.sqrt(V + E),
    "bitter7": A * np.sqrt(np.sqrt(V + E)),
    "bitter8": A * np.sqrt(np.sqrt(V + 1e-5)),
    "bitter9": A * np.sqrt(np.sqrt(V + 1e-5)),
}


def scored(name: str, w=W, m=M, v=V) -> np.ndarray:
    weight, first, second, movement = (
        torch.tensor(np.asarray(a), dtype=torch.float32) for a in (w, m, v, MOVEMENT)
    )
    return score(name, weight, (first, second), movement).double().numpy()


@pytest.mark.parametrize("name", SCORES)
def test_scores_are_their_formulas(name):
    half = name in ("bitter8", "bitter9")
    np.testing.assert_allclose(scored(name), FORMULAS[name], rtol=2e-2 if half else 1e-5, atol=1e-9)


def test_a_weight_that_grows_scores_above_one_that_shrinks():
    """Adam moves a weight against m; the sign of the older program kept what shrinks."""
    growing, shrinking = scored("bitter5", w=[0.5, 0.5], m=[-0.1, 0.1], v=[0.01, 0.01])
    assert growing > shrinking
    growing, shrinking = scored("bitter5", w=[-0.5, -0.5], m=[0.1, -0.1], v=[0.01, 0.01])
    assert growing > shrinking


def test_the_share_grows_along_a_cubic_and_ends_where_it_was_asked():
    plan = PruningPlan.of_shares(
        score="magnitude", sparsity=0.8, steps=200, shares=(0.1, 0.6), every=30
    )
    due = [step for step in range(1, 201) if plan.is_due(step)]
    assert due == [20, 50, 80, 110, 120]
    targets = [plan.target(step) for step in due]
    assert all(a < b for a, b in pairwise(targets))
    assert targets[-1] == plan.target(200) == 0.8 and plan.target(19) == 0
    assert targets[1] == pytest.approx(0.8 * (1 - (1 - 31 / 101) ** 3))


def pruned_maps(arm) -> list[torch.Tensor]:
    maps = linear_maps(arm.model).values()
    return [(w == 0) & ~kept for w, kept in zip(maps, arm.pruning.kept, strict=True)]


@pytest.mark.parametrize("name", SCORES)
def test_as_many_weights_go_as_were_asked_for(prepared, tmp_path, name):
    """Of a model whose number of weights is no round one, in a run of which some steps prune."""
    entry = f"adamw+prune={name}+sparsity=0.37+prune_every=3"
    arm = trainer(prepared, tmp_path, model="GPT2_MLA_KV", optimizer=entry, width=18, steps=12)
    run = TrainingRun(trainer=arm)
    list(run.updates())
    total = sum(weight.numel() for weight in linear_maps(arm.model).values())
    assert sum(int(zero.sum()) for zero in pruned_maps(arm)) == round(0.37 * total)
    (record,) = [m for m in run.summary() if m.metric == "sparsity"]
    assert record.status == "ok" and record.value == pytest.approx(0.37, abs=1 / total)
    assert record.data["score"] == name


def test_pruned_weights_never_come_back_and_weigh_in_no_norm(prepared, tmp_path):
    arm = trainer(prepared, tmp_path, optimizer="adamw+prune=magnitude+prune_every=2", clip=0.0)
    before = [torch.zeros_like(kept) for kept in arm.pruning.kept]
    while not arm.stopped_by():
        arm.take_step()
        now = pruned_maps(arm)
        assert all(bool((new | ~old).all()) for old, new in zip(before, now, strict=True))
        before = now
    _, norm = arm._gradients(2)
    maps = linear_maps(arm.model).values()
    for weight, gone in zip(maps, before, strict=True):
        assert not weight.grad[gone].any() and weight.grad[~gone].any()
    own = torch.stack([p.grad.norm() for p in arm.model.parameters()]).norm()
    assert torch.allclose(norm, own)


def test_the_lowest_scores_go_and_of_equal_ones_the_first(prepared, tmp_path):
    arm = trainer(prepared, tmp_path)
    maps = list(linear_maps(arm.model).values())
    with torch.no_grad():
        for weight in maps:
            weight.fill_(1.0)
        maps[-1].fill_(0.5)
        maps[-1][0, 0] = 2.0
    plan = PruningPlan(score="magnitude", sparsity=0.9, first=1, last=1, every=1)
    pruning = Pruning(arm.model, arm.optimizer, plan)
    pruning.after_step(1)
    kept = torch.cat([mask.flatten() for mask in pruning.kept])
    last = pruning.kept[-1]
    assert int((~kept).sum()) == round(0.9 * kept.numel()) == pruning.zeros()
    assert last[0, 0] and int(last.sum()) == 1
    others = kept[: -last.numel()]
    assert not others[: int((~others).sum())].any()


@pytest.mark.parametrize("scale", [1.0, 1e-42, 1e38])
def test_the_value_found_by_bits_is_the_one_of_the_sorted_values(scale):
    generator = torch.Generator().manual_seed(0)
    for size in (1, 2, 257):
        values = torch.randn(size, generator=generator) * scale
        values[::5] = 0.0
        values[1::7] = float("-inf")
        values[2::7] = values[0]
        for count in range(1, size + 1):
            assert kth_by_bits(values, count) == values.sort().values[count - 1]


def test_late_layers_lose_more_by_bitter4_and_all_together_what_was_asked(prepared, tmp_path):
    arm = trainer(prepared, tmp_path, optimizer="adamwprune+prune=bitter4+sparsity=0.5", layers=3)
    finished(arm)
    shares = {}
    for name, zero in zip(linear_maps(arm.model), pruned_maps(arm), strict=True):
        shares.setdefault(layer_of(name), []).append(zero.flatten())
    values = [float(torch.cat(zeros).float().mean()) for zeros in shares.values()]
    assert values == pytest.approx([0.35, 0.5, 0.65], abs=2e-3)
    assert by_depth(0.9, [10, 10, 10]) == pytest.approx([0.8, 0.95, 0.95])
    with pytest.raises(BadInput, match="bitter4 leaves"):
        by_depth(0.96, [10])


def test_the_pruned_step_prunes_by_magnitude(prepared, tmp_path):
    arm = trainer(prepared, tmp_path, model="GPT2+sparsity=0.5")
    run = TrainingRun(trainer=arm)
    list(run.updates())
    (record,) = [m for m in run.summary() if m.metric == "sparsity"]
    assert record.value == 0.5 and record.data["score"] == "magnitude"
    with pytest.raises(BadInput, match="leave one of them out"):
        trainer(prepared, tmp_path / "x", model="GPT2+sparsity=0.5", optimizer="adamw+sparsity=0.4")


def test_a_run_that_ends_too_early_fails_its_sparsity_and_has_no_best(prepared, tmp_path):
    arm = trainer(prepared, tmp_path, optimizer="adamw+prune=magnitude", most_tokens=64)
    run = TrainingRun(trainer=arm)
    list(run.updates())
    records = {m.metric: m for m in run.summary()}
    assert records["sparsity"].status == "failed"
    assert "the run ended before step 7" in records["sparsity"].reason
    assert records["best_val_loss"].value is None and records["best_val_loss"].reason
