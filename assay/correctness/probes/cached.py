"""The cache of a layer: prefill and decode give the whole pass, in the bytes of the formula."""

from assay.correctness import judge
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.layers import LayerSubject, cached, expected
from assay.subjects.layers.inputs import LayerInputs

STAGE = "layers"

_DECODED = 4  # tokens; a cache that grows makes a program for each
_CAUSE = "the cache and the whole pass differ: in positions, in the mask, or in what is kept"
_FORMULA = "2 x batch x kv heads x head_dim x tokens x bytes of the dtype"
_SOURCE = "buffers of keys and values in the cache after the last token, its index apart"


def measure(call: LayerSubject, workload: LayerInputs, host: Host) -> list[Measurement]:
    """Compare the decoded rows and those of the prompt with the reference; count the bytes."""
    if reason := cached.refusal(call, host, decoded=_DECODED):
        return [judge.unsupported("cached", reason)]
    result = cached.run(call, decoded=_DECODED)
    wanted = (expected.last_outputs(workload, call.device, _DECODED), call.expected())
    comparisons = [judge.compare("out", result.out, call, rows) for rows in wanted]
    prefix = f"after a prompt, {_DECODED} tokens decoded with a cache: "
    return [judge.worst("cached", comparisons, prefix, _CAUSE), _held(call, result.held_bytes)]


def _held(call: LayerSubject, held_bytes: int) -> Measurement:
    size = call.work()[0].kv_cache_bytes
    right = held_bytes == size
    return Measurement(
        metric="held_cache_bytes",
        value=held_bytes,
        unit="B",
        status="ok" if right else "failed",
        reason=None if right else f"the cache holds {held_bytes:,} B, {_FORMULA} is {size:,} B",
        cause=None if right else "keys and values are kept in another dtype, or more than once",
        source=_SOURCE,
        level="layer",
    )
