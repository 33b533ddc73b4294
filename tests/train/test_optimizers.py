"""Every optimizer against its formula, written out a second time, and in a run."""

from math import cos, pi, sqrt

import pytest
import torch
from test_trainer import finished, same, trainer

from assay import plugins
from assay.train.optimizers.adamwspam import SpikeAwareAdamW
from assay.train.optimizers.muon import orthogonal
from assay.train.run import TrainingRun
from assay.train.trainer import Trainer

STEPS, RATE, DECAY, BETA1, BETA2 = 24, 1e-2, 0.1, 0.9, 0.95
SPAM = "adamwspam+theta=4+interval=9+warmup=3+settle=3"
# With what a short run needs to have each part of a rule at work.
ENTRIES = {
    **{name: name for name in plugins.listing("optimizers")},
    "adamwspam": SPAM,
    "spikes": f"{SPAM}+spike=1.5",
    "pruned": "sinkgd+prune=movement+prune_every=2",
    "adamwprune": "adamwprune+prune=bitter7+prune_every=2",
}


class Formula:
    """One weight in float64, moved by a rule that is written out here."""

    def __init__(self, weight: torch.Tensor, *, is_map: bool) -> None:
        self.w = weight.detach().double().clone()
        self.m, self.v, self.most = (torch.zeros_like(self.w) for _ in range(3))
        self.is_map = is_map
        self.decay = DECAY if weight.ndim >= 2 else 0.0
        self.count = 0

    def adam(self, g, rate=RATE, amsgrad=False):
        self.count += 1
        self.m = BETA1 * self.m + (1 - BETA1) * g
        self.v = BETA2 * self.v + (1 - BETA2) * g * g
        self.most = torch.maximum(self.most, self.v)
        high = self.most if amsgrad else self.v
        step = (self.m / (1 - BETA1**self.count)) / ((high / (1 - BETA2**self.count)).sqrt() + 1e-8)
        self.w = self.w * (1 - rate * self.decay) - rate * step

    def spam(self, g, damped=False):
        t = self.count + 1
        phase = t % 9
        if damped:
            self.m, self.v = self.m / 2, self.v * 0.9
        if phase == 0:
            self.m, self.v = torch.zeros_like(self.m), torch.zeros_like(self.v)
        if phase >= 3 and t > 1:
            over = g.abs() > (4 * self.v).sqrt()
            g = torch.where(over, g.sign() * (4 * self.v).sqrt(), g)
        warm = 1 - 0.99 * (1 + cos(pi * phase / 4)) / 2 if t >= 9 and phase < 3 else 1.0
        self.adam(g, RATE * warm)

    def sinkgd(self, g):
        if not self.is_map:
            return self.adam(g)
        n, k = g.shape
        for _ in range(5):
            g = g / g.square().sum(1).sqrt()[:, None] * sqrt(k)
            g = g / g.square().sum(0).sqrt()[None, :] * sqrt(n)
        self.w = self.w * (1 - RATE * self.decay) - RATE * 0.2 * g

    def muon(self, g):
        if not self.is_map:
            return self.adam(g)
        self.m = 0.95 * self.m + 0.05 * g
        x = 0.05 * g + 0.95 * self.m
        x = x / x.square().sum().sqrt()
        for _ in range(5):
            s = x @ x.T
            x = 3.4445 * x - 4.7750 * s @ x + 2.0315 * s @ s @ x
        self.w = self.w * (1 - RATE * self.decay) - RATE * 0.2 * sqrt(max(g.shape)) * x


RULES = {
    "adamw": Formula.adam,
    "adamwadv": lambda own, g: own.adam(g, amsgrad=True),
    SPAM: Formula.spam,
    "sinkgd": Formula.sinkgd,
    "muon": Formula.muon,
}


def made(prepared, folder, entry: str) -> Trainer:
    return trainer(
        prepared, folder, optimizer=entry, learning_rate=RATE, weight_decay=DECAY, steps=STEPS
    )


def gradients(arm: Trainer, seed: int) -> dict[str, torch.Tensor]:
    """Of unlike sizes, so that what looks at spikes sees some."""
    draw = torch.Generator().manual_seed(seed)
    scale = 30.0 if seed % 8 == 5 else 1.0
    return {
        name: scale * torch.randn(p.shape, generator=draw) ** 3
        for name, p in arm.model.named_parameters()
    }


def step(arm: Trainer, grads: dict[str, torch.Tensor]) -> None:
    for name, weight in arm.model.named_parameters():
        weight.grad = grads[name].clone()
    for group in arm.optimizer.param_groups:
        group["lr"] = RATE
    arm.optimizer.step()


def test_every_optimizer_has_its_formula_here():
    """adamwprune is its base with masks, which test_pruning.py holds."""
    assert {entry.partition("+")[0] for entry in RULES} | {"adamwprune"} == set(
        plugins.listing("optimizers")
    )


@pytest.mark.parametrize("entry", RULES)
def test_steps_are_those_of_the_formula(prepared, tmp_path, entry):
    arm = made(prepared, tmp_path, entry)
    maps = {f"{n}.weight" for n, m in arm.model.h.named_modules() if isinstance(m, torch.nn.Linear)}
    formulas = {
        name: Formula(p, is_map=name.removeprefix("h.") in maps)
        for name, p in arm.model.named_parameters()
    }
    for number in range(STEPS):
        grads = gradients(arm, number)
        step(arm, grads)
        for name, formula in formulas.items():
            RULES[entry](formula, grads[name].double())
    # Newton's iteration runs in bfloat16 and its coefficients enlarge small singular values.
    loose = {"rtol": 0, "atol": 0.06 * RATE * STEPS} if entry == "muon" else {}
    for name, weight in arm.model.named_parameters():
        close = loose if formulas[name].is_map and loose else {"rtol": 1e-4, "atol": 2e-5}
        assert torch.allclose(weight.double(), formulas[name].w, **close), name


def test_a_spike_halves_what_is_remembered(prepared, tmp_path):
    arm = made(prepared, tmp_path, "adamwspam+interval=100+settle=50+spike=3")
    weight = next(iter(arm.model.h[0].parameters()))
    grads = gradients(arm, 0)
    for _ in range(12):
        step(arm, grads)
    first, second = (arm.optimizer.state[weight][n].clone() for n in ("exp_avg", "exp_avg_sq"))
    spiked = {name: 100 * g for name, g in grads.items()}
    step(arm, spiked)
    g = next(spiked[n] for n, p in arm.model.named_parameters() if p is weight)
    state = arm.optimizer.state[weight]
    assert torch.allclose(state["exp_avg"], 0.9 * first / 2 + 0.1 * g, rtol=1e-4)
    assert torch.allclose(state["exp_avg_sq"], 0.95 * second * 0.9 + 0.05 * g * g, rtol=1e-4)


def test_muon_is_that_of_torch(prepared, tmp_path):
    arm = made(prepared, tmp_path, "muon")
    name, weight = next(
        (n, p) for n, p in arm.model.named_parameters() if "h.0" in n and p.ndim > 1
    )
    twin = torch.nn.Parameter(weight.detach().clone())
    published = torch.optim.Muon(
        [twin], lr=RATE, weight_decay=DECAY, adjust_lr_fn="match_rms_adamw"
    )
    for number in range(5):
        grads = gradients(arm, number)
        twin.grad = grads[name].clone()
        step(arm, grads)
        published.step()
    assert torch.allclose(weight, twin, rtol=1e-5, atol=1e-6)


def test_spam_is_that_of_a_library():
    """Without a warm-up, in which the two differ."""
    from pytorch_optimizer import SPAM as Published

    start, draw = torch.randn(24, 16), torch.Generator().manual_seed(0)
    own, twin = (torch.nn.Parameter(start.clone()) for _ in range(2))
    group = {"theta": 5.0, "interval": 9, "warmup": 0, "settle": 3, "spike": 0.0, "count": 0}
    shared = {"lr": RATE, "betas": (BETA1, BETA2), "weight_decay": 0.0, "eps": 1e-8}
    ours = SpikeAwareAdamW([group | {"params": [own]}], **shared)
    published = Published(
        [twin], **shared, threshold=5, update_proj_gap=9, warmup_epoch=0, grad_accu_steps=3
    )
    for number in range(25):
        away = 0.1 + torch.rand(start.shape, generator=draw)  # from 0, where their eps differ
        grad = away * torch.randn(start.shape, generator=draw).sign() * (30 if number == 5 else 1)
        own.grad, twin.grad = grad.clone(), grad.clone()
        ours.step()
        published.step()
    assert torch.allclose(own, twin, rtol=0, atol=1e-6) and not torch.allclose(own, start, atol=0.1)


@pytest.mark.parametrize("shape", [(16, 48), (48, 16), (1, 7)])
def test_directions_of_muon_are_near_orthogonal(shape):
    values = torch.linalg.svdvals(orthogonal(torch.randn(shape), 5).float())
    assert values.min() > 0.5 and values.max() < 1.5


@pytest.mark.parametrize("name", ENTRIES)
def test_a_run_goes_on_with_the_same_bits_and_learns(prepared, tmp_path, name):
    changes = {"optimizer": ENTRIES[name], "dropout": 0.0, "steps": 12}
    arm = trainer(prepared, tmp_path / "whole", **changes)
    before = sum(arm.evaluate())
    whole = finished(arm)
    assert sum(arm.evaluate()) < before and not arm.unmoved()
    updates = TrainingRun(trainer=trainer(prepared, tmp_path / "cut", **changes)).updates()
    for _ in range(5):
        next(updates)  # ten steps; the state of the eighth is saved
    again = trainer(prepared, tmp_path / "cut", **changes)
    assert again.step == 8
    assert same(finished(again), whole)
