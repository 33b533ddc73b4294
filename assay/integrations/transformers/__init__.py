"""transformers: caches in our layouts for `generate`, and our attention functions by name.

from assay.integrations.transformers import LayoutCache
model.generate(**inputs, past_key_values=LayoutCache(model, "k16v8"))
"""

from assay.integrations.transformers.attention import register
from assay.integrations.transformers.cache import LayoutCache

__all__ = ["LayoutCache", "register"]
