"""transformers: caches in our layouts for `generate`, and our attention functions by name.

from assay.integrations.transformers import LayoutCache
model.generate(**inputs, past_key_values=LayoutCache(model, "k16v8"))

With model.set_attn_implementation(register_decode()) kernels read such a cache as it is kept, and
ReplayedSteps(model, cache) decodes by replays of a CUDA graph.
"""

from assay.integrations.transformers.attention import register
from assay.integrations.transformers.cache import LayoutCache
from assay.integrations.transformers.decoding import register_decode
from assay.integrations.transformers.replayed import ReplayedSteps

__all__ = ["LayoutCache", "ReplayedSteps", "register", "register_decode"]
