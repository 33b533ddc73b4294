"""A layer with a cache: the tokens of a prompt at once, those after it one by one."""

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from assay.host import Host

if TYPE_CHECKING:
    from assay.subjects.layers import LayerSubject


@dataclass(frozen=True, kw_only=True)
class CachedPass:
    """Output of all tokens, [B, S, D], and the bytes of keys and values that the cache then holds
    on the device."""

    out: Any
    held_bytes: int


def refusal(subject: "LayerSubject", host: Host, *, decoded: int) -> str | None:
    """The reason why a layer cannot decode the last tokens of its workload; None where it can."""
    layer, spec = subject.implementation, subject.workload.spec
    if not layer.cache:
        return "it takes no cache"
    if spec.query_length <= decoded:
        return f"of {spec.query_length} tokens, none are left to decode {decoded} after"
    here = replace(host, devices=tuple(d for d in host.devices if d.label == subject.device))
    return layer.supports(replace(spec, query_length=1), here, layer.core)


def run(subject: "LayerSubject", *, decoded: int) -> CachedPass:
    """Give a layer all but the last `decoded` tokens of its workload, then each of these."""
    import jax
    import jax.numpy as jnp

    layer, (x, into, projection) = subject.implementation, subject.inputs
    positions, mask = subject.apply.args
    length = x.shape[1]
    apply = jax.jit(partial(layer.apply, core=layer.core))
    ends = range(length - decoded, length + 1)
    outputs, cache = [], None
    for start, end in zip((0, *ends), ends, strict=False):
        keys = end if layer.cache == "tokens" else length
        out, cache = apply(
            {"in": into, "out": projection},
            x[:, start:end],
            positions[:, start:end],
            mask[:, :, start:end, :keys],
            cache,
        )
        outputs.append(out)
    held = [leaf for leaf in jax.tree.leaves(cache) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return CachedPass(
        out=jnp.concatenate(outputs, axis=1),
        held_bytes=sum(leaf.on_device_size_in_bytes() for leaf in held),
    )
