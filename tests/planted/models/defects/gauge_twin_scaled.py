"""A GPT-2 with fixed reciprocal attention whose twin has slightly larger queries."""

BASE = "fixed_reciprocal"
REPLACE = {
    "torch.cat([k, q, v])": "torch.cat([1.001 * k, q, v])",
}
PLANTED = "the twin multiplies its queries by 1.001"
CAUGHT_BY = ("gauge",)
CAUSE = ("exchanged",)
