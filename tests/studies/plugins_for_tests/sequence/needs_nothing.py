"""An implementation that is never called, for what it requires."""

FRAMEWORK = None
REQUIRES = ()


def attention(q, k, v, *, causal, scale):
    return q
