"""When so much is pruned: a share of weights that grows along a cubic. Needs no torch."""

from dataclasses import dataclass
from math import isfinite

from assay.errors import BadInput

NO_PRUNING = "none"
# Scores of what the optimizer knows (train/scores.py); the others ask the weight and its gradient.
STATE_SCORES = tuple(f"bitter{number}" for number in range(10) if number not in (1, 2))
SCORES = ("magnitude", "movement", *(f"bitter{number}" for number in range(10)))


@dataclass(frozen=True, kw_only=True)
class PruningPlan:
    """Steps count from 1 and are over: after step `first` the first weights go, after `last` the
    sparsity is reached, and stays."""

    score: str
    sparsity: float
    first: int
    last: int
    every: int

    def __post_init__(self) -> None:
        if not (isfinite(self.sparsity) and 0 < self.sparsity < 1):
            raise BadInput(
                f"a sparsity of {self.sparsity} was asked for, wanted one above 0 and below 1"
            )
        if not 1 <= self.first <= self.last or self.every < 1:
            raise BadInput(
                f"pruning from step {self.first} to {self.last}, every {self.every}; wanted at "
                "least step 1, an end that is not before it, and at least 1"
            )

    @classmethod
    def of_shares(
        cls, *, score: str, sparsity: float, steps: int, shares: tuple[float, float], every: int
    ) -> "PruningPlan":
        """A plan for a run of so many steps."""
        if not 0 <= shares[0] <= shares[1] <= 1:
            raise BadInput(
                f"pruning from {shares[0]} of the steps until {shares[1]}; wanted shares from 0 to "
                "1, the first not above the second"
            )
        first, last = (max(1, round(share * steps)) for share in shares)
        return cls(score=score, sparsity=sparsity, first=first, last=last, every=every)

    def is_due(self, step: int) -> bool:
        """True where weights go after this step."""
        within = self.first <= step < self.last and (step - self.first) % self.every == 0
        return within or step == self.last

    def target(self, step: int) -> float:
        """The share of weights that are 0 after this step."""
        if step < self.first:
            return 0.0
        left = 1 - (step - self.first + 1) / (self.last - self.first + 1)
        return self.sparsity * (1 - max(0.0, left) ** 3)
