"""An implementation that is never called, for what it requires."""

FRAMEWORK = None
REQUIRES = ("a_thing_for_tests",)


def attention(q, k, v, *, causal, scale):
    return q
