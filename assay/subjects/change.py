"""New inputs for every round of timing, of which the right answer can be computed.

Channels of q, k and v change their signs and v is multiplied by a power of two, so nothing is
rounded. Signs of q and of k are drawn apart: the scores are new, and neither an answer nor the
softmax weights of an earlier call help with this one. Where the size of scores is what inputs are
about (captured ones, and kinds of values), q and k share their signs, and q is multiplied by a
power of two of its own instead. Everything follows from a number that the system draws.
"""

from dataclasses import dataclass, replace
from os import urandom
from types import SimpleNamespace

import numpy as np

from assay.subjects.contract import Expected
from assay.workloads.spec import WorkloadSpec

FACTORS = (-1.0, 2.0, -2.0, 4.0, -4.0)  # of v
_QUERY_FACTORS = (1.0, 0.5, 0.25)  # scores become no larger: half precision may hold them
_SIGNS, _PLACES = range(2)
# Bound before any code of a user's is loaded.
_urandom, _generator = urandom, np.random.default_rng


@dataclass(frozen=True, kw_only=True)
class InputChange:
    """The signs and factors that a round's inputs are made with; `number` decides them all."""

    number: int

    @property
    def factor(self) -> float:
        """The power of two, of either sign, that v is multiplied by."""
        return FACTORS[self.number % len(FACTORS)]

    @property
    def places(self) -> np.random.Generator:
        """Draws the places that are looked at."""
        return _generator((self.number, _PLACES))

    def multipliers(
        self, spec: WorkloadSpec, *, values_width: int | None = None, cached: bool = False
    ) -> dict[str, np.ndarray]:
        """Numbers by which the channels of q, k and v are multiplied. Keys and values that a cache
        holds have no signs of their own: only q has, and v its factor."""
        generator = _generator((self.number, _SIGNS))
        q, k = (_signs(generator, spec.head_dim) for _ in range(2))
        query_factor = np.float32(generator.choice(_QUERY_FACTORS))
        v = _signs(generator, values_width or spec.head_dim)
        if cached:
            k, v = np.ones_like(k), np.ones_like(v)
        if spec.captured or spec.values != "normal":
            q = k * query_factor
        return {"q": q, "k": k, "v": v * np.float32(self.factor)}

    def scaled(self, known: Expected) -> Expected:
        """Right values of an answer that is linear in what this multiplies by its factor."""
        names = known.index or known.allowed
        right = {name: self.factor * getattr(known.result, name) for name in names}
        allowed = {
            name: replace(
                known.allowed[name], largest=abs(self.factor) * known.allowed[name].largest
            )
            for name in names
        }
        return replace(known, result=SimpleNamespace(**right), allowed=allowed)


def drawn() -> InputChange:
    """A change that nobody can know beforehand."""
    return InputChange(number=int.from_bytes(_urandom(16), "little"))


def _signs(generator: np.random.Generator, width: int) -> np.ndarray:
    return generator.choice(np.float32([-1.0, 1.0]), size=width)
