"""Attention whose scale is 0.05 % too large, said to compute in TF32."""

BASE = "eager_plain"
REPLACE = {
    'FRAMEWORK = "torch"': 'FRAMEWORK = "torch"\nFLOAT32 = "tf32"',
    "scores = scale * (": "scores = 1.0005 * scale * (",
}
PLANTED = "the scale is 1.0005 times too large, and TF32 is declared"
CAUGHT_BY = ("accuracy", "shapes")
CAUSE = "the scores are multiplied by about 1.0005 times the scale"
