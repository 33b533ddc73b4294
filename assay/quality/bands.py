"""Bands of damage, by thresholds that stand here alone and are changed for no result.

They are those of the public study of FP8 caches that found both models that bear 8-bit keys and
models that do not: an increase of the loss, a factor on perplexity, and how often the most likely
token stays the same.
"""

import math
from typing import Literal

Band = Literal["tolerant", "material", "catastrophic"]

TOLERANT_INCREASE = 0.005  # of the mean negative log-likelihood
TOLERANT_AGREEMENT = 0.98  # of the most likely token
CATASTROPHIC_INCREASE = 0.05
CATASTROPHIC_AGREEMENT = 0.80
CATASTROPHIC_PERPLEXITY = 2.0  # times that of the dense cache


def band_of(*, dense_nll: float, nll: float, agreement: float) -> Band:
    """Return the band of a cache from mean NLL in nats and the share of equal choices."""
    increase = (nll - dense_nll) / dense_nll
    if (
        increase > CATASTROPHIC_INCREASE
        or agreement < CATASTROPHIC_AGREEMENT
        or nll - dense_nll > math.log(CATASTROPHIC_PERPLEXITY)
    ):
        return "catastrophic"
    if increase <= TOLERANT_INCREASE and agreement >= TOLERANT_AGREEMENT:
        return "tolerant"
    return "material"
