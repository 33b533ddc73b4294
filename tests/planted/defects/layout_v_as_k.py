"""Attention that reads values with the strides of the keys."""

BASE = "eager_plain"
REPLACE = {
    "    k, v = (x.repeat": (
        "    v = torch.as_strided(v, v.shape, k.stride(), v.storage_offset())\n    k, v = (x.repeat"
    )
}
PLANTED = "v is read with the strides of k"
CAUGHT_BY = ("strides",)
CAUSE = "v is read with strides not its own"
