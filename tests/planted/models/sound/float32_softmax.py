"""Softmax and logits in float32, whatever the dtype of the model.

In a bfloat16 model logits are float32 and the cache is not; in a float64 one they are coarser.
"""

BASE = "plain_functions"
REPLACE = {
    "mixed = scores.softmax(dim=-1) @ v": "mixed = scores.float().softmax(dim=-1).to(v.dtype) @ v",
    'logits = F.linear(normed(x, p, "last"), p["wte"])': (
        'logits = F.linear(normed(x, p, "last"), p["wte"]).float()'
    ),
}
