"""torch's own attention over keys and values as they are, with the kernel that torch chooses."""

from collections.abc import Mapping

import torch

from assay.attention.decode._whole_cache import attend

LAYOUT = "dense"
DETERMINISTIC = False  # as cuDNN, which torch may choose


def decode(
    q: torch.Tensor,
    streams: Mapping[str, torch.Tensor],
    *,
    scale: float,
    lengths: torch.Tensor | None = None,
    pages: torch.Tensor | None = None,
) -> torch.Tensor:
    return attend(q, streams["k"], streams["v"], scale=scale, lengths=lengths, pages=pages)
