"""AdamWSPAM: AdamW with clipped spikes and moments that begin again.

Step t counts from 1, r is t modulo `interval`.

    r = 0:         m and v become 0; the count of the bias correction goes on
    r >= settle:   each |g| is at most sqrt(theta * v), with the v before the step
    spike > 0:     m is halved and v takes 0.9 of itself where the norm of g is more than `spike`
                   standard deviations above the mean of the last 100
    after r = 0:   for `warmup` steps the rate is times 1 - 0.99 (1 + cos(pi r / (warmup + 1))) / 2

The defaults are those of the published optimizer (Huang et al. 2025), which has no `spike`; the
runs whose recipes are repeated here had theta=50, interval=1000, warmup=1000, spike=2.
"""

from collections.abc import Callable
from math import cos, pi
from statistics import fmean, pstdev

import torch
from torch import nn

from assay.errors import BadInput
from assay.train.optimizers._groups import BETAS, groups
from assay.train.parallel import whole
from assay.train.settings import TrainSettings

OPTIONS = {"theta": 5000.0, "interval": 500, "warmup": 150, "settle": 20, "spike": 0.0}
MOMENTS = True
_NORMS = 100  # that a spike is held against
_FEWEST_NORMS = 10
_MOMENTS = ("exp_avg", "exp_avg_sq")


def make(
    model: nn.Module,
    settings: TrainSettings,
    *,
    theta: float,
    interval: int,
    warmup: int,
    settle: int,
    spike: float,
) -> torch.optim.Optimizer:
    if not (theta > 0 and spike >= 0) or warmup < 0 or not 0 < settle < interval:
        raise BadInput(
            f"adamwspam with theta={theta}, interval={interval}, warmup={warmup}, settle={settle}, "
            f"spike={spike}; wanted theta above 0, spike and warmup not below 0, and settle from 1 "
            "to below interval"
        )
    options = {"theta": theta, "interval": interval, "warmup": warmup, "settle": settle}
    own = [group | options | {"count": 0} for group in groups(model.parameters(), settings)]
    own[0] |= {"spike": spike, "norms": []}
    return SpikeAwareAdamW(own, lr=settings.learning_rate, betas=BETAS, fused=True)


class SpikeAwareAdamW(torch.optim.AdamW):
    """AdamW between what SPAM does to gradients and moments, and to the rate."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:
        assert closure is None
        damped = self._is_spike()
        rates = [group["lr"] for group in self.param_groups]
        for group in self.param_groups:
            group["count"] += 1
            self._prepare(group, damped)
            group["lr"] *= _warmth(group)
        super().step()
        for group, rate in zip(self.param_groups, rates, strict=True):
            group["lr"] = rate

    def _prepare(self, group: dict, damped: bool) -> None:
        phase = group["count"] % group["interval"]
        for weight in group["params"]:
            state = self.state[weight]
            if weight.grad is None or not state:
                continue
            first, second = (state[name] for name in _MOMENTS)
            if damped:
                first.mul_(0.5)
                second.mul_(0.9)
            if phase == 0:
                first.zero_()
                second.zero_()
            elif phase >= group["settle"]:
                limit = (second * group["theta"]).sqrt_()
                weight.grad.clamp_(-limit, limit)

    def _is_spike(self) -> bool:
        """True where the norm of this step's gradient is far above the last ones, which it
        joins. Only `spike` above 0 asks, since to know it the host waits for the device."""
        first = self.param_groups[0]
        if not first["spike"]:
            return False
        gradients = [p.grad for group in self.param_groups for p in group["params"]]
        total = torch.nn.utils.get_total_norm([g for g in gradients if g is not None])
        norm = float(whole(total))
        norms = first["norms"]
        high = len(norms) >= _FEWEST_NORMS and (
            norm > fmean(norms) + first["spike"] * max(pstdev(norms), 1e-12)
        )
        first["norms"] = [*norms, norm][-_NORMS:]
        return high


def _warmth(group: dict) -> float:
    """The factor of the rate after the moments began again; 1 before they first do."""
    phase = group["count"] % group["interval"]
    if group["count"] < group["interval"] or phase >= group["warmup"]:
        return 1.0
    return 1.0 - 0.99 * (1.0 + cos(pi * phase / (group["warmup"] + 1))) / 2.0
