"""Attention on centred keys: taking their mean away changes no softmax and keeps scores small."""

BASE = "hand_written_backward"
REPLACE = {
    "        group = q.shape[1] // k.shape[1]\n": """\
        mean = k.mean(dim=2, keepdim=True)
        k = k.sub_(mean) if k.is_contiguous() else k - mean
        group = q.shape[1] // k.shape[1]
""",
}
PLANTED = "the keys are centred in place"
CAUGHT_BY = ("purity", "causality", "determinism")
CAUSE = ("modif", "in place", "in-place", "changed", "changes its input", "overwrit")
