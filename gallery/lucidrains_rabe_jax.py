"""rabe_attention of flash-attention-jax, for each head."""

from functools import cache
from types import ModuleType

import jax
from _refusals import no_scale
from _upstream import Upstream

from assay.host import Host
from assay.workloads.spec import WorkloadSpec

FRAMEWORK = "jax"
UPSTREAM = {
    "repository": "lucidrains/flash-attention-jax",
    "commit": "d73dcdd6cb4b4f8d786922e2ec6826036dae896a",
    "files": {"flash_attention_jax/rabe_attention.py": "ba76cc2e911ff259d2b6"},
}
LIMITS = {"groups": [1], "masks": "full"}  # it knows neither heads nor a mask

upstream = Upstream(**UPSTREAM)


def attention(q: jax.Array, k: jax.Array, v: jax.Array, *, causal: bool, scale: float) -> jax.Array:
    """q, k and v [B, H, M or N, D] -> [B, H, M, D]."""
    return jax.vmap(jax.vmap(_module().rabe_attention))(q, k, v)


def supports(spec: WorkloadSpec, host: Host) -> str | None:
    """Refuse what it has no argument for."""
    return upstream.refusal() or no_scale(spec)


@cache
def _module() -> ModuleType:
    return upstream.load()
