"""Keys without their bias, and the exact way to put it back: into keys, or into scores.

A key is k_t = R_t (r_t + b): b is the bias of the projection, R_t turns it by its position. Where b
is large it takes the scale of an 8-bit number for itself and r_t, which tells tokens apart, falls
between two steps. R_t is linear, so R_t r_t = k_t - R_t b can be kept alone, and

    q k_t = q R_t r_t + sum over f of [A_f cos(t w_f) + B_f sin(t w_f)],
    A_f = q_i b_i + q_j b_j,  B_f = q_j b_i - q_i b_j

with (i, j) the two numbers that frequency f turns: a constant for each query and d/2 products for
each key, whatever the number of tokens that are kept. Dimensions that are not turned add q b.

B batch, H query heads, G kv heads, T queries, S keys, D head dimension, P dimensions that turn.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

# cos and sin [S, P] of positions [S]; both halves alike, as transformers has them.
Rotation = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


@dataclass(frozen=True, kw_only=True)
class KeyBias:
    """The bias of a layer's keys, [G, D], and how positions turn it; None where they do not.

    Pairs are (i, i + P/2), as in Llama, Qwen and GPT-NeoX. Positions count from 0.
    """

    bias: torch.Tensor
    rotation: Rotation | None = None

    def rotated(self, start: int, tokens: int) -> torch.Tensor:
        """Return R_t b for `tokens` positions from `start` on, [G, tokens, D] in float32."""
        bias = self.bias.float()[:, None].expand(-1, tokens, -1)
        if self.rotation is None:
            return bias
        cos, sin = self._turn(start, tokens)
        turning, still = bias.tensor_split((cos.shape[-1],), dim=-1)
        first, second = turning.chunk(2, dim=-1)
        turned = turning * cos + torch.cat([-second, first], dim=-1) * sin
        return torch.cat([turned, still], dim=-1)

    def score_correction(self, q: torch.Tensor, start: int, tokens: int) -> torch.Tensor:
        """Return q R_t b, unscaled, [B, H, T, tokens], from rotated queries q [B, H, T, D]: what
        scores with keys without bias lack. Keys are never built."""
        group = q.shape[1] // len(self.bias)
        bias = self.bias.float().repeat_interleave(group, dim=0)[:, None]  # [H, 1, D]
        q = q.float()
        if self.rotation is None:
            return (q * bias).sum(-1, keepdim=True).expand(*q.shape[:3], tokens)
        cos, sin = self._turn(start, tokens)
        turning = cos.shape[-1]
        q_turning, q_still = q.tensor_split((turning,), dim=-1)
        b_turning, b_still = bias.tensor_split((turning,), dim=-1)
        q_i, q_j = q_turning.chunk(2, dim=-1)
        b_i, b_j = b_turning.chunk(2, dim=-1)
        along, across = q_i * b_i + q_j * b_j, q_j * b_i - q_i * b_j  # [B, H, T, P/2]
        half = turning // 2
        turned = along @ cos[:, :half].T + across @ sin[:, :half].T
        return turned + (q_still * b_still).sum(-1, keepdim=True)

    def _turn(self, start: int, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        positions = torch.arange(start, start + tokens, device=self.bias.device)
        cos, sin = self.rotation(positions)
        return cos.float(), sin.float()
