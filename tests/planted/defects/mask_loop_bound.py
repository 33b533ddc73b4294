"""Tiled causal attention that stops at the last key a tile of queries can see."""

BASE = "einsum_chunks"
REPLACE = {
    "CHUNK = 50": "CHUNK = 64",
    "        scores = ": """        reach = min(start + CHUNK, keys) if causal else keys
        scores = """,
    '"bgrmd,bgnd->bgrmn", rows, k)': '"bgrmd,bgnd->bgrmn", rows, k[:, :, :reach])',
    "torch.arange(keys, device=q.device)": "torch.arange(reach, device=q.device)",
    "weights, v)": "weights, v[:, :, :reach])",
}
PLANTED = "the loop over the keys ends as if there were no more keys than queries"
CAUGHT_BY = ("shapes", "causality", "accuracy")
CAUSE = ("sq < sk", "fewer queries", "m < n", "top-left", "align", "more keys than queries")
SLOW = True
