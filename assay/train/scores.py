"""Scores of weights: the lowest are pruned first. w is a weight, g its gradient, m and v are the
moments of Adam without their bias correction.

    magnitude             |w|
    movement              minus the sum of w g over the steps so far (Sanh et al. 2020)
    bitter0               |w m| |w| / (sqrt v + e)
    bitter1, bitter2      |w|
    bitter3, bitter4      |w| sqrt(|m| + e); bitter4 prunes late layers more (pruning.py)
    bitter5               -sign(w) m / (sqrt v + e) + 0.1 |w|: Adam moves w against m, so what grows
                          scores high. The program that the names come from had the sign of a weight
                          that shrinks, and kept those
    bitter6               |w| sqrt|m| sqrt(m^2 / (v + e))
    bitter7               |w| (v + e)^(1/4)
    bitter8, bitter9      bitter7 in half precision with an e of 1e-5; they were one formula, plain
                          and compiled. Where v is far below 1e-5 they are |w|

The e is 1e-8. bitter1 and bitter2 are kept as names, they are one score with magnitude.
"""

import torch

_E, _HALF_E = 1e-8, 1e-5


def score(
    name: str,
    weight: torch.Tensor,
    moments: tuple[torch.Tensor, torch.Tensor] | None,
    movement: torch.Tensor | None,
) -> torch.Tensor:
    """The score of each weight, float32 in the weight's shape."""
    size = weight.abs()
    if name in ("magnitude", "bitter1", "bitter2"):
        return size
    if name == "movement":
        assert movement is not None
        return movement
    assert moments is not None
    m, v = moments
    if name == "bitter0":
        return (weight * m).abs() * size / (v.sqrt() + _E)
    if name in ("bitter3", "bitter4"):
        return size * (m.abs() + _E).sqrt()
    if name == "bitter5":
        return 0.1 * size - weight.sign() * m / (v.sqrt() + _E)
    if name == "bitter6":
        return size * m.abs().sqrt() * (m.square() / (v + _E)).sqrt()
    if name == "bitter7":
        return size * (v + _E) ** 0.25
    if name in ("bitter8", "bitter9"):
        return size * (v + _HALF_E).half().rsqrt().rsqrt().float()
    raise ValueError(f"there is no score {name!r}")
